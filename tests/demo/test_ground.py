"""Where a demo lives: settings that the real loader takes, tokens, ports, the verbs' pointer, what is left behind."""

from __future__ import annotations

import socket
from contextlib import closing
from datetime import UTC, datetime

import pytest
from tests.demo.test_stories import a_row

from trimtab.demo.ground import Ground, give_tokens, write_settings
from trimtab.demo.people import ClientFile, left_behind
from trimtab.demo.ports import Ports
from trimtab.errors import SettingsError, StoreError
from trimtab.model.command import CommandState, Mode
from trimtab.settings import DaemonSettings, load
from trimtab.ship.tokens import NodeTokens, tokens_path
from trimtab.store.database import open_database
from trimtab.store.scratch import own_schema, stored_reports


@pytest.fixture
def ground(tmp_path):
    return Ground(
        scratch=tmp_path, cluster="hall-a", people_port=9740, ingest_port=9741, database_url="sqlite:///trimtab.db"
    )


@pytest.mark.parametrize(("speed", "nodes"), [(1.0, 8), (20.0, 24), (200.0, 64)])
def test_the_settings_that_the_demo_writes_are_good_ones(ground, speed, nodes):
    anchor = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
    remarks = write_settings(ground, nodes=nodes, control_url="http://127.0.0.1:1", speed=speed, anchor=anchor)
    settings = load(ground.settings_file, DaemonSettings)
    assert (settings.issue.mode, settings.cluster) == (Mode.APPROVE, "hall-a")
    assert (settings.simulated.speed, datetime.fromisoformat(settings.simulated.anchor)) == (speed, anchor)
    assert int(settings.plan.cordoned_ratio_max * nodes) >= 2
    assert settings.detect.thermal_after_seconds == DaemonSettings().detect.thermal_after_seconds
    assert settings.detect.straggler_after_seconds == DaemonSettings().detect.straggler_after_seconds
    assert any("silent" in remark for remark in remarks)


def test_each_node_gets_a_token_of_its_own_that_only_its_owner_can_read(ground):
    give_tokens(ground, ["gpu-00", "gpu-01"])
    tokens = NodeTokens(tokens_path(DaemonSettings(state_directory=str(ground.state_directory))))
    for node in ("gpu-00", "gpu-01"):
        assert tokens.node_of(ground.token_file(node).read_text().strip()) == node
        assert ground.token_file(node).stat().st_mode & 0o077 == 0
    assert ground.state_directory.stat().st_mode & 0o077 == 0


def test_a_port_that_is_taken_is_refused_when_asked_for_and_gone_round_when_not():
    with socket.socket() as taken, closing(Ports()) as ports:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"--port {port}: another program"):
            ports.people(port)
        assert port not in {ports.people(None), ports.any()}


def test_two_demos_never_get_the_same_port_and_a_server_may_listen_on_one_that_is_held():
    with closing(Ports()) as one, closing(Ports()) as other:
        mine, theirs = {one.any() for _ in range(50)}, {other.any() for _ in range(50)}
        assert not mine & theirs
        asked = one.any()
        assert one.people(asked) == asked
        with pytest.raises(SettingsError, match="another program"):
            other.people(asked)
        assert other.people(None) != one.people(None)
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", asked))
            server.listen()
            socket.create_connection(("127.0.0.1", asked), timeout=10).close()


@pytest.mark.parametrize("before", [None, b'url = "http://old"\n'])
def test_the_verbs_pointer_is_put_back_as_it_was(tmp_path, monkeypatch, before):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "trimtab" / "client.toml"
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before)
    pointer = ClientFile()
    pointer.write(url="http://127.0.0.1:9740", token="t" * 40)
    assert "9740" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    pointer.restore()
    assert (path.read_bytes() if path.exists() else None) == before


def test_what_a_mark_holds_without_a_live_command_is_left_behind():
    held = {"trimtab:R11": ["cordon of gpu-03 (lasting)", "research/a stopped"]}
    assert left_behind(held, (a_row(CommandState.SUBMITTED),)) == ()
    assert left_behind(held, (a_row(CommandState.SETTLED),)) == ("trimtab:R11: research/a stopped",)
    assert len(left_behind(held, (a_row(CommandState.ABANDONED),))) == 2
    assert len(left_behind(held, ())) == 2


def test_a_demo_has_a_schema_of_its_own_on_postgresql_and_takes_it_away_again(postgresql, tmp_path):
    url = postgresql.new_database()
    for _ in range(2):  # a second demo on the same database starts from nothing as well
        with own_schema(url, name="trimtab_demo_x", is_kept=False) as own:
            open_database(own, state_directory=tmp_path).close()
            assert stored_reports(own, state_directory=tmp_path) == set()
    with own_schema(url, name="trimtab_demo_x", is_kept=True) as own:
        open_database(own, state_directory=tmp_path).close()
    with pytest.raises(StoreError, match="already exists"), own_schema(url, name="trimtab_demo_x", is_kept=True):
        pass


def test_a_database_that_is_none_is_refused_with_the_fix():
    with pytest.raises(StoreError, match="no database URL"), own_schema("nonsense", name="x", is_kept=False):
        pass
    with pytest.raises(StoreError, match="does not speak mysql"), own_schema("mysql://x/y", name="x", is_kept=False):
        pass
    with (
        pytest.raises(StoreError, match="Is the server up"),
        own_schema("postgresql://127.0.0.1:1/x", name="x", is_kept=False),
    ):
        pass
