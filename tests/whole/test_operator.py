"""An operator at work on a running demo: every verb, an approval that settles, and its undo."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.whole.live import Process, a_port, json_of, run_verb, until


def test_approve_settle_undo_and_every_verb_beside_them(tmp_path: Path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    home = {"XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(scratch)}
    port = a_port()
    demo = Process("demo", "--nodes", "12", "--speed", "20", "--port", str(port), log=tmp_path / "demo.log", **home)
    try:
        until(lambda: "  R1  " in demo.log)
        assert "R1" in run_verb("status", **home)[1]
        assert json_of("findings", **home)["findings"]
        told = run_verb("explain", "R1", **home)[1]
        assert "cordon" in told
        assert "GPU-h" in told
        assert run_verb("explain", "F1", **home)[0] == 0
        assert run_verb("explain", "R99", **home)[0] == 1

        code, _, said = run_verb("approve", "R1", **home)
        assert code == 0, said
        until(lambda: row_in(home, 1)["command"]["state"] == "settled")
        cordoned = [write["node"] for write in row_in(home, 1)["command"]["recommendation"]["writes"] if write["lasts"]]
        assert len(cordoned) == 1
        assert is_cordoned(home, cordoned[0])
        assert run_verb("undo", "R1", "--reason", "a drill", **home)[0] == 0
        until(lambda: row_in(home, 1)["command"]["state"] == "undone")
        until(lambda: not is_cordoned(home, cordoned[0]))

        assert run_verb("pause", "--reason", "maintenance", **home)[0] == 0
        until(lambda: json_of("status", **home)["is_paused"])
        assert run_verb("resume", **home)[0] == 0
        history = run_verb("history", **home)[1]
        assert "R1" in history
        assert "/open/" in run_verb("link", **home)[1]
        assert run_verb("doctor", **home)[0] in (0, 1)
        assert demo.end(signal.SIGINT) == 0
    finally:
        demo.end(signal.SIGKILL)
    assert run_verb("status", **home)[0] == 2


def row_in(home: dict[str, str], number: int) -> dict[str, Any]:
    return next(one for one in json_of("status", **home)["commands"] if one["command"]["id"] == number)


def is_cordoned(home: dict[str, str], node: str) -> bool:
    return any(one["is_cordoned"] for one in json_of("status", **home)["nodes"] if one["name"] == node)
