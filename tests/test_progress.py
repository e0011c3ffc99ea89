"""What hangs stops the watchdog's food and is named with where; slow work that gets on is left alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.builders import a_report
from tests.fakes.clock import FakeClock

from trimtab.loop import Beat, moving, starting
from trimtab.pulse import Watchdog
from trimtab.runner import Tally, run_all
from trimtab.ship.sender import Sender
from trimtab.ship.spool import Spool
from trimtab.store.database import open_database

SECONDS_MAX = 30.0


class Manager:
    """systemd, as far as a service tells it."""

    watchdog_seconds = 120.0

    def __init__(self) -> None:
        self.fed = 0
        self.said = ""

    def alive(self, sentence: str) -> None:
        self.fed += 1
        self.said = sentence

    def status(self, sentence: str) -> None:
        self.said = sentence


class Held:
    """A part that waits until it is let go."""

    def __init__(self) -> None:
        self.is_reached, self._go = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.is_reached.set()
        assert self._go.wait(SECONDS_MAX)
        return "done"

    def let_go(self) -> None:
        self._go.set()


@pytest.fixture
def hold():
    held = Held()
    yield held
    held.let_go()


def scene(tick: Callable[[], str], *, name: str = "judge") -> tuple[FakeClock, Beat, Manager, Watchdog]:
    clock, manager = FakeClock(), Manager()
    beat = Beat(name, tick, interval_seconds=5.0, clock=clock)
    return clock, beat, manager, Watchdog(manager, [beat])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("beat_name", "part", "said"),
    [
        ("judge", "straggler", "judge hangs at straggler for 61 s: the watchdog is no longer fed"),
        ("rebalance", "the scheduler's snapshot", "rebalance hangs at the scheduler's snapshot for 61 s"),
        ("remember", "", "remember hangs for 61 s"),
        ("read", "nvml", "read hangs at nvml for 61 s"),
    ],
)
def test_a_hung_part_stops_the_food_and_is_named(hold: Held, beat_name: str, part: str, said: str):
    clock = FakeClock()

    def tick() -> str:
        if not part:
            return hold()
        if " " in part:
            moving(part)
            return hold()
        return run_all([("blind", lambda: "well"), (part, hold)], clock=clock, tally=Tally())[-1].result or ""

    beat, manager = Beat(beat_name, tick, interval_seconds=5.0, clock=clock), Manager()
    watchdog = Watchdog(manager, [beat], vital=[beat_name])  # type: ignore[arg-type]
    beat.start()
    assert hold.is_reached.wait(SECONDS_MAX)
    clock.advance(30.0)
    watchdog.feed()
    assert manager.fed == 1
    clock.advance(31.0)
    watchdog.feed()
    assert manager.fed == 1
    assert manager.said.startswith(said)
    hold.let_go()
    beat.stop(timeout_seconds=SECONDS_MAX)


def test_work_that_takes_long_and_gets_on_is_fed_through():
    clock = FakeClock()
    fed: list[bool] = []

    def tick() -> str:
        for number in range(40):  # twenty minutes, half a minute a step
            moving(f"step {number}")
            clock.advance(30.0)
            before = manager.fed
            watchdog.feed()
            fed.append(manager.fed > before)
        return "done"

    beat, manager = Beat("judge", tick, interval_seconds=5.0, clock=clock), Manager()
    watchdog = Watchdog(manager, [beat])  # type: ignore[arg-type]
    beat.run_once()
    assert fed == [True] * 40
    assert (beat.last_duration_seconds, beat.at) == (1200.0, "")


def test_each_detector_that_ends_counts_as_getting_on():
    clock = FakeClock()
    at: list[str] = []

    def slow(name: str) -> tuple[str, Callable[[], None]]:
        def run() -> None:
            at.append(f"{beat.at} {beat.quiet_seconds:g}")
            clock.advance(50.0)

        return name, run

    def tick() -> str:
        run_all([slow("one"), slow("two"), slow("three")], clock=clock, tally=Tally())
        return "done"

    beat = Beat("judge", tick, interval_seconds=5.0, clock=clock)
    beat.run_once()
    assert at == ["one 0", "two 0", "three 0"]


def test_a_start_tells_of_each_migration_and_of_long_statements(tmp_path: Path):
    told: list[str] = []
    with starting(told.append):
        database = open_database("sqlite:///trimtab.db", state_directory=tmp_path)
    database.close()
    assert told[0] == "the database's migrations"
    assert any(at.startswith("the database's migration 0001") for at in told)
    moving("nobody listens any more")
    assert "nobody listens any more" not in told


def test_a_statement_of_a_migration_that_goes_on_for_long_is_progress(tmp_path: Path):
    from trimtab.store import schema

    told: list[str] = []
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'long.db'}")
    with engine.connect() as connection, starting(told.append), schema._told(connection):
        told.clear()
        counted = sa.text(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000000) SELECT count(*) FROM n"
        )
        assert connection.execute(counted).scalar_one() == 4_000_000
    engine.dispose()
    assert set(told) == {"the database's migrations"}
    assert len(told) >= 2


class Waits(FakeClock):
    """A clock that moves by half a minute at each daemon that is asked, and sees how quiet the beat has become."""

    def __init__(self, beat: list[Beat]) -> None:
        super().__init__()
        self._beat = beat
        self.quiet_seconds: list[float] = []

    def now(self) -> datetime:
        for beat in self._beat:
            self.quiet_seconds.append(beat.quiet_seconds or 0.0)
            self.advance(30.0)
        return super().now()


def test_each_daemon_that_does_not_answer_is_progress_and_no_hang(tmp_path: Path):
    begun: list[Beat] = []
    clock = Waits(begun)
    spool = Spool(tmp_path / "spool", 1024 * 1024)
    spool.append(a_report(gpus=1, sequence=0, spool_id="", at=clock.now()))
    sender = Sender(spool=spool, urls=[f"http://127.0.0.1:{port}" for port in range(1, 6)], token="t", clock=clock)
    beat = Beat("ship", sender.tick, interval_seconds=1.0, clock=clock)
    beat.move("")
    begun.append(beat)
    beat.run_once()
    assert len(clock.quiet_seconds) >= 5
    assert max(clock.quiet_seconds) <= 30.0
    sender.close()
    spool.close()
