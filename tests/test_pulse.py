"""The watchdog and the dead man's handle: what is vital counts, and failing at once is no sign of life."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from tests.fakes.clock import START, FakeClock

from trimtab.errors import StoreError
from trimtab.loop import Beat
from trimtab.model.board import Board, Strip
from trimtab.model.command import Mode
from trimtab.pulse import FAILING_SECONDS_MAX, Watchdog, doing, hung, why_not_well
from trimtab.service import Service
from trimtab.show.board import BoardBox

NUMBERS = ("total", "reporting", "working", "held_idle", "free", "spare", "out_of_service", "unknown")


class Running(Beat):
    """A beat whose thread runs, as far as anybody can see."""

    @property
    def is_alive(self) -> bool:
        return True


def full() -> str:
    raise StoreError("trimtab.db: the disk is full")


def beats(clock: FakeClock, **ticks) -> list[Beat]:
    names = ("remember", "judge", "rebalance", "deliver pager")
    found = [Running(name, ticks.get(name, lambda: "well"), interval_seconds=5.0, clock=clock) for name in names]
    for one in found:
        one.run_once()
    return found


def test_all_is_well():
    clock = FakeClock()
    assert why_not_well(beats(clock), is_bell_failing=False) == ""


def test_one_target_that_hangs_neither_ends_the_daemon_nor_lets_it_be_called_dead():
    clock = FakeClock()
    found = beats(clock)
    clock.advance(200.0)
    for one in found[:3]:
        one.run_once()
    assert (hung(found), why_not_well(found, is_bell_failing=False)) == ("", "")


def test_a_vital_beat_that_hangs_does_both():
    clock = FakeClock()
    found = beats(clock)
    clock.advance(200.0)
    for one in (found[0], found[2], found[3]):
        one.run_once()
    assert (hung(found), why_not_well(found, is_bell_failing=False)) == ("judge", "judge")


def test_what_fails_at_once_every_time_is_no_sign_of_life():
    clock = FakeClock()
    found = beats(clock, judge=full)
    assert why_not_well(found, is_bell_failing=False) == "", "one failure is a hiccup"
    clock.advance(FAILING_SECONDS_MAX + 1.0)
    for one in found:
        one.run_once()
    assert hung(found) == "", "a restart would not mend it"
    assert why_not_well(found, is_bell_failing=False) == "judge (it fails: trimtab.db: the disk is full)"
    found[1]._tick = lambda: "nothing new"
    found[1].run_once()
    assert why_not_well(found, is_bell_failing=False) == ""


def test_findings_that_nobody_can_be_told_of_are_not_well():
    assert why_not_well(beats(FakeClock()), is_bell_failing=True) == "what tells people of findings"


class Watched(Service):
    """systemd with a watchdog, which counts how often it is fed."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def alive(self, sentence: str) -> None:
        self.told.append(sentence)


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setenv("WATCHDOG_USEC", "120000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    return Watched()


def test_the_watchdog_is_fed_with_what_the_beats_said(systemd: Watched):
    Watchdog(systemd, beats(FakeClock())).feed()
    assert systemd.told == ["well; well; well; well"]


def test_the_watchdog_starves_once_a_vital_beat_takes_half_its_time_and_the_journal_says_which(systemd: Watched):
    clock = FakeClock()
    found = beats(clock)
    watchdog = Watchdog(systemd, found)
    clock.advance(61.0)
    for one in (found[0], found[2]):
        one.run_once()
    with capture_logs() as logged:
        watchdog.feed()
        watchdog.feed()
    assert systemd.told == []
    assert [(line["log_level"], line["quiet_seconds"]) for line in logged] == [("error", {"judge": 61})]
    found[1].run_once()
    watchdog.feed()
    assert len(systemd.told) == 1, "what goes on after all is fed again"


def test_after_a_reload_the_watchdog_watches_the_beats_that_run_now(systemd: Watched):
    clock = FakeClock()
    found = beats(clock)
    watchdog = Watchdog(systemd, found)
    watchdog.watch(found[:2])
    watchdog.feed()
    assert systemd.told == ["well; well"]


def test_the_watchdog_of_another_process_is_not_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WATCHDOG_USEC", "5000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert Service().watchdog_seconds is None
    monkeypatch.delenv("WATCHDOG_PID")
    assert Service().watchdog_seconds == 5.0


def test_status_says_what_the_daemon_does_and_trouble_first():
    box = BoardBox()
    assert doing("daemon.toml cannot be read", box.latest()) == "daemon.toml cannot be read"
    box.publish(
        Board(
            cluster="hall-a",
            at=START,
            mode=Mode.RECOMMEND,
            is_paused=True,
            strip=Strip(**{f"gpus_{name}": 0 for name in NUMBERS}),
        )
    )
    said = "0 of 0 nodes report, 0 GPUs, 0 working; 0 findings open; recommend, paused"
    assert doing("", box.latest()) == said
    assert doing("daemon.toml cannot be read", box.latest()) == f"daemon.toml cannot be read; {said}"
