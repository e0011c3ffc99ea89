"""A reload of on-call: what stays goes on, what is new begins, what is gone ends; what cannot be changes nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from trimtab import reload
from trimtab.clock import SystemClock
from trimtab.errors import SettingsError
from trimtab.onduty import on_duty
from trimtab.settings import DaemonSettings, from_table
from trimtab.store.database import open_database
from trimtab.store.history import History


class Scene:
    """On-call of a daemon whose delivery beats run."""

    def __init__(self, tmp_path: Path) -> None:
        self.state = tmp_path
        (tmp_path / "token").write_text("xoxb-0123456789\n")
        self.settings = self.with_targets("stays", "changes", "goes")
        self.database = open_database("sqlite:///trimtab.db", state_directory=tmp_path)
        clock = SystemClock()
        self.duty = on_duty(
            self.settings,
            history=History(self.database, cluster="hall-a"),
            clock=clock,
            page_url=lambda: "http://127.0.0.1:1",
            why_not_well=str,
        )
        self.central = SimpleNamespace(beats=self.duty.beats)
        for beat in self.central.beats:
            beat.start()
        host = SimpleNamespace(central=self.central, use_beats=lambda beats: setattr(self.central, "beats", beats))
        self.running = reload.Running(
            host=host,  # type: ignore[arg-type]
            parts=SimpleNamespace(settings=self.settings, clock=clock),  # type: ignore[arg-type]
            duty=self.duty,
            door=None,  # type: ignore[arg-type]
            make_issuer=lambda settings: None,  # type: ignore[arg-type, return-value]
        )

    def with_targets(self, *names: str, **changes: object) -> DaemonSettings:
        target = {"kind": "slack", "token_file": "token", "channel": "#gpu", "url": "http://127.0.0.1:9"}
        targets = {name: {**target, **(changes if name == "changes" else {})} for name in names}
        table: dict[str, object] = {"state_directory": str(self.state), "oncall": {"targets": targets}}
        return from_table(table, DaemonSettings, where="test")

    def beat(self, name: str):
        return next((one for one in self.central.beats if one.name == f"deliver {name}"), None)

    def close(self) -> None:
        for beat in self.central.beats:
            beat.stop(timeout_seconds=30.0)
        self.database.close()


@pytest.fixture
def scene(tmp_path: Path):
    made = Scene(tmp_path)
    yield made
    made.close()


def test_each_target_stays_changes_goes_or_comes(scene: Scene):
    stays, changes, goes = (scene.beat(name) for name in ("stays", "changes", "goes"))
    reload._oncall(scene.running, scene.with_targets("stays", "changes", "comes", channel="#other"))()
    assert scene.beat("stays") is stays
    assert stays.is_alive
    assert scene.beat("changes") is not changes
    assert scene.beat("changes").is_alive
    assert not changes.is_alive
    assert scene.beat("goes") is None
    assert not goes.is_alive
    assert scene.beat("comes").is_alive
    assert set(scene.duty.targets) == set(scene.duty.deliverers) == {"stays", "changes", "comes"}
    assert set(scene.duty.nexts) == {"stays", "changes", "comes"}


def test_a_target_whose_secret_is_not_there_changes_nothing(scene: Scene):
    before = scene.central.beats
    with pytest.raises(SettingsError, match="cannot read"):
        reload._oncall(scene.running, scene.with_targets("stays", "changes", token_file="none"))
    assert scene.central.beats is before
    assert set(scene.duty.targets) == {"stays", "changes", "goes"}
    assert all(beat.is_alive for beat in before)
