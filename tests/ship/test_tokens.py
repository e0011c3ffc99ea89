"""Tokens: one a node, hashed on disk, taken over while the daemon runs."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.fakes.clock import FakeClock

from trimtab.cli.token import token as token_verb
from trimtab.errors import SettingsError
from trimtab.ship.tokens import NodeTokens, give_token, read_nodes, revoke_token

NAMES = ["gpu-00", "gpu-00.hall-a.example", 'odd"name', "日本-1"]


def test_a_token_names_its_node_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "node-tokens.toml"
    made = {name: give_token(path, name)[0] for name in NAMES}
    tokens = NodeTokens(path)
    assert {name: tokens.node_of(token) for name, token in made.items()} == {name: name for name in NAMES}
    assert tokens.node_of(made["gpu-00"][:-1]) is None
    assert tokens.node_of("") is None
    assert tokens.nodes == set(NAMES)


def test_the_file_holds_no_token_and_is_not_for_everybody(tmp_path: Path) -> None:
    path = tmp_path / "node-tokens.toml"
    token, _ = give_token(path, "gpu-00")
    assert token not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_changes_are_taken_over_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "node-tokens.toml"
    clock = FakeClock()
    tokens = NodeTokens(path, clock=clock)
    first, replaces_first = give_token(path, "gpu-00")
    assert tokens.node_of(first) == "gpu-00"
    second, replaces_second = give_token(path, "gpu-00")
    clock.advance(1.1)
    assert (tokens.node_of(first), tokens.node_of(second)) == (None, "gpu-00")
    assert (replaces_first, replaces_second) == (False, True)
    revoke_token(path, "gpu-00")
    assert tokens.node_of(second) == "gpu-00"
    clock.advance(1.1)
    assert tokens.node_of(second) is None


def test_a_broken_edit_leaves_the_last_good_table_in_force(tmp_path: Path) -> None:
    path = tmp_path / "node-tokens.toml"
    token, _ = give_token(path, "gpu-00")
    clock = FakeClock()
    tokens = NodeTokens(path, clock=clock)
    path.write_text("[nodes\n", encoding="ascii")
    clock.advance(1.1)
    assert tokens.node_of(token) == "gpu-00"
    assert "not TOML" in tokens.trouble
    path.unlink()
    clock.advance(1.1)
    assert tokens.node_of(token) is None
    assert tokens.trouble == ""


HASH = "a" * 64


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("nodes = 3", r"\[nodes\]"),
        ("[nodes]\na = 3", "nodes.a"),
        ("[nodes]\na = 'plain'", "nodes.a"),
        (f"[nodes]\na = '{HASH.upper()}'", "nodes.a"),
        (f"[nodes]\na = '{HASH}'\nb = '{HASH}'", "same token"),
        (f"[node]\na = '{HASH}'", r"\[nodes\]"),
        ("[nodes]\na = 'x'\na = 'y'", "not TOML"),
    ],
)
def test_a_broken_file_at_start_is_refused_with_the_fix(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "node-tokens.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError, match=says):
        NodeTokens(path)


def test_a_broken_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "node-tokens.toml"
    path.write_text("[nodes", encoding="ascii")
    with pytest.raises(SettingsError):
        give_token(path, "gpu-00")
    assert path.read_text() == "[nodes"


@pytest.mark.parametrize("name", ["", "a b", "a\n", "n" * 254])
def test_what_is_no_node_name_gets_no_token(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="no node name"):
        give_token(tmp_path / "node-tokens.toml", name)


def test_the_verb_prints_the_token_once_and_revokes(tmp_path: Path) -> None:
    runner = CliRunner()
    made = runner.invoke(token_verb, ["node", "gpu-00", "--state-directory", str(tmp_path)])
    assert made.exit_code == 0
    token = made.stdout.strip()
    assert NodeTokens(tmp_path / "node-tokens.toml").node_of(token) == "gpu-00"
    gone = runner.invoke(token_verb, ["node", "gpu-00", "--revoke", "--state-directory", str(tmp_path)])
    assert gone.exit_code == 0
    assert read_nodes(tmp_path / "node-tokens.toml") == {}


def test_the_verb_finds_the_file_by_the_daemons_settings(tmp_path: Path) -> None:
    settings = tmp_path / "daemon.toml"
    settings.write_text(f'state_directory = "{tmp_path}/state"\n[ingest]\ntokens_file = "who.toml"\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "from trimtab.cli import main; main()", "token", "node", "n1", "--settings", settings],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parent.parent.parent / "daemon")},
    )
    assert NodeTokens(tmp_path / "state" / "who.toml").node_of(done.stdout.strip()) == "n1"
    assert done.stdout.strip() not in done.stderr


def test_both_ways_of_saying_where_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(token_verb, ["node", "a", "--settings", "x", "--state-directory", str(tmp_path)])
    assert done.exit_code == 2
