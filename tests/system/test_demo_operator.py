"""An operator beside a running demo: the verbs find it without options, an approval settles, its undo undoes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from tests.system.processes import Running, eventually, free_port, verb

from trimtab.model.board import Board, CommandRow
from trimtab.model.command import CommandState


def test_approve_settle_undo_and_the_verbs_beside_them(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    arguments = ("demo", "--nodes", "12", "--speed", "20", "--port", str(free_port()))
    demo = Running(*arguments, home=tmp_path, name="demo", env={"TMPDIR": str(scratch)})

    def status() -> Board:
        return msgspec.json.decode(verb("status", "--json", home=tmp_path).stdout, type=Board)

    def row() -> CommandRow:
        return next(one for one in status().commands if one.command.id == 1)

    def is_cordoned(node: str | None) -> bool:
        return any(one.is_cordoned for one in status().nodes if one.name == node)

    try:
        demo.start()
        eventually(lambda: "  R1  " in demo.text(), said=demo.tail)
        assert "R1" in verb("status", home=tmp_path).stdout
        assert json.loads(verb("findings", "--json", home=tmp_path).stdout)["findings"]
        told = verb("explain", "R1", home=tmp_path).stdout
        assert "cordon" in told
        assert "GPU-h" in told
        assert verb("explain", "F1", home=tmp_path).returncode == 0
        assert verb("explain", "R99", home=tmp_path).returncode == 4

        approved = verb("approve", "R1", home=tmp_path)
        assert approved.returncode == 0, approved.stderr
        eventually(lambda: row().command.state is CommandState.SETTLED, said=demo.tail)
        cordoned = [write.node for write in row().command.recommendation.writes if write.lasts]
        assert len(cordoned) == 1
        assert is_cordoned(cordoned[0])
        assert verb("undo", "R1", "--reason", "a drill", home=tmp_path).returncode == 0
        eventually(lambda: row().command.state is CommandState.UNDONE, said=demo.tail)
        eventually(lambda: not is_cordoned(cordoned[0]), said=demo.tail)

        assert verb("pause", "--reason", "maintenance", home=tmp_path).returncode == 0
        eventually(lambda: status().is_paused)
        assert verb("resume", home=tmp_path).returncode == 0
        assert "R1" in verb("history", home=tmp_path).stdout
        assert "/open/" in verb("link", home=tmp_path).stdout
        assert verb("doctor", home=tmp_path).returncode in (0, 1)
        assert demo.stop() == 0
        demo.assert_had_no_trouble()
    finally:
        demo.close()
    assert verb("status", home=tmp_path).returncode == 3
