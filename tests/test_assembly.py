"""The daemon put together from its settings: what is wrong with them is said before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.assembly import Daemon
from trimtab.errors import SettingsError
from trimtab.model.command import Mode
from trimtab.settings import DaemonSettings, IssueSettings


def test_a_misspelt_rule_is_no_rule(tmp_path: Path):
    issue = IssueSettings(mode=Mode.ACT, rules={"evacute": Mode.OBSERVE})
    with pytest.raises(SettingsError, match=r"no rule 'evacute'\. The rules are evacuate, relocate, consolidate"):
        Daemon(DaemonSettings(state_directory=str(tmp_path), issue=issue))
