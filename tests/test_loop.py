"""A beat: what it says of itself when it fails, hangs or goes on."""

from __future__ import annotations

import threading
from pathlib import Path

from structlog.testing import capture_logs
from tests.fakes.clock import FakeClock

from trimtab.clock import SystemClock
from trimtab.errors import StoreError
from trimtab.loop import Beat


def test_a_failure_is_told_once_and_so_is_its_end():
    outcomes = iter([StoreError("disk full"), StoreError("disk full"), "3 stored", "4 stored"])

    def tick() -> str:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    beat = Beat("remember", tick, interval_seconds=1.0, clock=FakeClock())
    failing = []
    with capture_logs() as logged:
        for _ in range(4):
            beat.run_once()
            failing.append(beat.is_failing)
    assert failing == [True, True, False, False]
    told = [(line["event"], line["said"]) for line in logged if line["log_level"] != "debug"]
    assert told == [("beat failed", "disk full"), ("beat goes on", "3 stored")]


def test_a_first_beat_that_hangs_is_seen_to_be_quiet():
    clock, hangs, goes_on = FakeClock(), threading.Event(), threading.Event()

    def tick() -> str:
        hangs.set()
        goes_on.wait(10.0)
        return "done"

    beat = Beat("judge", tick, interval_seconds=1.0, clock=clock)
    assert beat.quiet_seconds is None
    beat.start()
    assert hangs.wait(10.0)
    clock.advance(120)
    assert (beat.quiet_seconds, beat.last_beat_at_seconds) == (120.0, None)
    goes_on.set()
    beat.stop()


def test_the_kernel_knows_a_beats_thread_by_name():
    names: list[str] = []

    def tick() -> str:
        names.append(Path("/proc/thread-self/comm").read_text().strip())
        done.set()
        return "done"

    done = threading.Event()
    beat = Beat("rebalance", tick, interval_seconds=1.0, clock=FakeClock())
    beat.start()
    assert done.wait(30.0)
    beat.stop()
    assert names[0] == "beat-rebalance"


def test_another_pace_wakes_a_beat_that_waits_out_the_old_one():
    """Else a beat of ten minutes whose interval is made short would look hung by it, and end the process."""
    beats = threading.Semaphore(0)

    def tick() -> str:
        beats.release()
        return "done"

    beat = Beat("rebalance", tick, interval_seconds=3600.0, clock=SystemClock())
    beat.start()
    assert beats.acquire(timeout=30.0)
    beat.pace(0.01)
    assert all(beats.acquire(timeout=30.0) for _ in range(3))
    beat.pace(3600.0)
    beat.stop(timeout_seconds=30.0)
    assert not beat.is_alive
    assert beat.dropped_total <= beat.beats_total


def test_after_another_pace_a_beat_is_quiet_from_there():
    clock = FakeClock()
    beat = Beat("rebalance", lambda: "done", interval_seconds=600.0, clock=clock)
    beat._started_at_seconds = clock.monotonic_seconds()
    clock.advance(500)
    beat.pace(5.0)
    assert beat.quiet_seconds == 0.0
