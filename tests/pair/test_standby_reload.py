"""A daemon that stands by is told to read its settings again: broken ones change nothing, good ones are taken up."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.pair.ground import a_pair, a_server, active_and_standby
from tests.system.processes import eventually


@pytest.mark.long
def test_settings_that_cannot_be_used_end_no_daemon_that_stands_by(tmp_path: Path) -> None:
    with a_server() as server, a_pair(tmp_path, server) as pair:
        for one in pair:
            one.start()
        _, standby = active_and_standby(pair)
        good = standby.settings_file.read_text()
        standby.settings_file.write_text(good + "[detect]\nnonsense = 1\n")
        os.kill(standby.pid, signal.SIGHUP)
        eventually(lambda: "settings not reloaded; those in force stay" in standby.text(), said=standby.tail)
        assert standby.is_standby()
        standby.settings_file.write_text(good)
        os.kill(standby.pid, signal.SIGHUP)
        eventually(lambda: "this process begins anew, and stands by" in standby.text(), said=standby.tail)
        eventually(standby.is_standby, said=standby.tail)
