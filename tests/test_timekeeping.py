"""A clock that was set and a process that stood still page nobody and delete nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.builders import CLUSTER, a_delivery, a_report
from tests.fakes.clock import START, FakeClock

from trimtab.keeping import keeping_of
from trimtab.settings import DaemonSettings
from trimtab.store.database import open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.timekeeping import HOLD_SECONDS, HistoryClock, Hold


class WallClock(FakeClock):
    """One that runs at the speed of the wall."""

    def wall_seconds(self, seconds: float) -> float:
        return seconds


def beats(hold: Hold, clock: FakeClock, seconds: float, *, every: float = 5.0) -> list[str]:
    """What each beat of so long said."""
    said = []
    for _ in range(int(seconds / every)):
        clock.advance(every)
        said.append(hold.run(lambda: "judged"))
    return said


def test_a_daemon_whose_clock_is_right_judges_each_beat() -> None:
    clock = WallClock()
    assert set(beats(Hold(clock, interval_seconds=lambda: 5.0), clock, 600.0)) == {"judged"}


def test_after_the_clock_was_set_either_way_nothing_is_judged_until_nodes_have_reported_again() -> None:
    for seconds, way in ((3600.0, "forward by 60 min"), (-3600.0, "back by 60 min")):
        clock = WallClock()
        hold = Hold(clock, interval_seconds=lambda: 5.0)
        beats(hold, clock, 60.0)
        clock.jump(seconds)
        said = beats(hold, clock, HOLD_SECONDS + 20.0)
        assert said[0].startswith("not judged for 45 s more"), said[0]
        assert way in said[0], said[0]
        assert said.count("judged") == len(said) - HOLD_SECONDS / 5.0
        assert said[-1] == "judged"


def test_after_it_stood_still_nothing_is_judged_until_nodes_have_reported_again() -> None:
    clock = WallClock()
    hold = Hold(clock, interval_seconds=lambda: 5.0)
    beats(hold, clock, 60.0)
    clock.advance(90.0)
    said = hold.run(lambda: "judged")
    assert said.endswith("this daemon stood still for 90 s")


def test_another_interval_is_no_standing_still() -> None:
    clock, interval_seconds = WallClock(), 1.0
    hold = Hold(clock, interval_seconds=lambda: interval_seconds)
    beats(hold, clock, 20.0, every=1.0)
    interval_seconds = 60.0  # by a reload
    assert set(beats(hold, clock, 600.0, every=60.0)) == {"judged"}
    interval_seconds = 1.0
    assert set(beats(hold, clock, 60.0, every=60.0)) == {"judged"}
    clock.advance(60.0)
    assert hold.run(lambda: "judged").endswith("this daemon stood still for 60 s")


def test_a_clock_that_is_set_while_it_judges_is_noticed_by_the_next_beat() -> None:
    clock = WallClock()
    hold = Hold(clock, interval_seconds=lambda: 5.0)
    beats(hold, clock, 60.0)
    clock.advance(5.0)
    hold.run(lambda: str(clock.jump(-4 * 86400.0)))
    clock.advance(5.0)
    assert hold.run(lambda: "judged").endswith("this host's clock was set back by 4 d")


def test_a_judgement_that_takes_long_is_no_standing_still() -> None:
    clock = WallClock()
    hold = Hold(clock, interval_seconds=lambda: 5.0)
    for _ in range(3):
        clock.advance(5.0)
        assert not hold.run(lambda: f"judged {clock.advance(90.0)}").startswith("not judged")


def test_small_corrections_of_the_clock_are_no_news() -> None:
    clock = WallClock()
    hold = Hold(clock, interval_seconds=lambda: 5.0)
    for step in (1.0, -1.0, 20.0, -20.0):
        beats(hold, clock, 30.0)
        clock.jump(step)
        assert set(beats(hold, clock, 30.0)) == {"judged"}


def test_history_ages_with_the_time_that_was_lived_through_and_not_with_the_clock() -> None:
    clock = FakeClock()
    ages = HistoryClock(clock, lived_until=START)
    clock.advance(3600.0)
    assert ages.now() == START + timedelta(hours=1)
    clock.jump(86400.0 * 30)
    assert ages.now() == START + timedelta(hours=1)  # a month ahead deletes nothing
    clock.advance(3600.0)
    assert ages.now() == START + timedelta(hours=2)
    clock.jump(-86400.0 * 60)
    assert ages.now() == clock.now()


def test_time_that_the_daemon_was_down_makes_no_history_old() -> None:
    clock = FakeClock()
    ages = HistoryClock(clock, lived_until=START - timedelta(days=9))
    assert ages.now() == START - timedelta(days=9)
    clock.advance(60.0)
    assert ages.now() == START - timedelta(days=9) + timedelta(seconds=60)


def test_a_newest_report_that_came_under_a_wrong_clock_is_no_later_than_now() -> None:
    clock = FakeClock()
    assert HistoryClock(clock, lived_until=START + timedelta(days=400)).now() == START


def test_a_restart_under_a_clock_that_is_ahead_deletes_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    database = open_database("sqlite:///trimtab.db", state_directory=tmp_path)
    book = Journal(database)
    book.append([a_delivery(a_report(sequence=1, at=START), received_at=START)])
    clock.jump(86400.0 * 400)
    book.append([a_delivery(a_report(sequence=2, at=clock.now()), received_at=clock.now())])
    for _ in range(2):  # the daemon starts twice; the clock is still wrong
        settings = DaemonSettings(cluster=CLUSTER)
        history = History(database, cluster=CLUSTER)
        keeping = keeping_of(settings, database=database, history=history, clock=clock)
        for chore in keeping.chores:
            chore.run()
        clock.advance(3600.0)
    assert [one.report.sequence for one in book.tail(START)] == [1, 2]
    database.close()


def test_a_start_under_a_clock_that_was_never_set_counts_from_when_it_is_right() -> None:
    clock = FakeClock(datetime(2006, 1, 1, tzinfo=UTC))
    ages = HistoryClock(clock, lived_until=None)
    assert ages.now() == clock.now()
    clock.jump((START - clock.now()).total_seconds())
    assert ages.now() == START
    clock.jump(86400.0 * 30)
    clock.advance(60.0)
    assert ages.now() == START + timedelta(seconds=60)


def test_a_gap_is_no_matter_any_more_once_nothing_of_before_it_is_kept() -> None:
    clock = FakeClock()
    ages = HistoryClock(clock, lived_until=START - timedelta(days=300))
    clock.advance(3 * 86400.0)
    ages.look(START - timedelta(days=297))
    assert ages.now() == START - timedelta(days=297)
    ages.look(clock.now())
    assert ages.now() == clock.now()


def test_after_the_clock_was_set_a_process_goes_by_the_time_it_lived() -> None:
    clock = FakeClock()
    ages = HistoryClock(clock, lived_until=START)
    clock.jump(86400.0 * 400)
    clock.advance(3 * 86400.0)
    ages.look(clock.now())
    assert ages.now() == START + timedelta(days=3)
