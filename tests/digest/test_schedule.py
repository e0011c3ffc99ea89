"""The digest goes out once a week and target: over restarts, in summer and winter, never long after its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.builders import CLUSTER
from tests.digest.digests import a_digest
from tests.fakes.clock import START, FakeClock

from trimtab.errors import SettingsError
from trimtab.model.oncall import FIRST_LINE_CHARACTERS_MAX, Target, Verb
from trimtab.model.outbox import LetterState
from trimtab.model.past import GpuTimes
from trimtab.settings import DaemonSettings, from_table
from trimtab.settings.digest import DigestSettings
from trimtab.show.digest.desk import DigestDesk, zone_of
from trimtab.show.digest.make import DigestSource
from trimtab.show.digest.schedule import LATE_MAX, DigestPost, last_due
from trimtab.store.database import Database
from trimtab.store.history import History
from trimtab.weekly import digest_chore

BERLIN = ZoneInfo("Europe/Berlin")
TARGETS = {
    "mail": Target(name="mail", kind="email", locale="en"),
    "hook": Target(name="hook", kind="webhook", locale="zh-CN"),
}


class Asked:
    """A desk over a history in which nothing has happened; notes which stretches are asked for."""

    def __init__(self, history: History | None = None) -> None:
        self.stretches: list[tuple[datetime, datetime]] = []
        self._history = history
        self.desk = DigestDesk(source=self._source, zone=UTC, page_url=lambda: "https://trimtab.example")

    def _source(self) -> DigestSource:
        assert self._history is not None
        return DigestSource(cluster=CLUSTER, hours=self, facts=self._history)

    def gpu_times(self, since: datetime, until: datetime) -> GpuTimes:
        self.stretches.append((since, until))
        return GpuTimes(cluster=CLUSTER, since=since, until=since)


@pytest.fixture
def history(database: Database) -> Iterator[History]:
    return History(database, cluster=CLUSTER)


def a_post(history: History, desk: DigestDesk, **changes: object) -> DigestPost:
    settings = DigestSettings(**{"targets": ("mail", "hook"), **changes})
    return DigestPost(settings=settings, desk=desk, notes=history, targets=TARGETS, cluster=CLUSTER)


MONDAY_7 = datetime(2026, 11, 2, 7, tzinfo=UTC)


def test_it_goes_to_each_target_once_whatever_is_restarted(history: History) -> None:
    asked = Asked(history)
    assert a_post(history, asked.desk).tick(MONDAY_7 + timedelta(minutes=9)) == (
        "the digest of 2026-11-02 goes to mail, hook"
    )
    for hours in (0.2, 1, 30):
        a_post(history, asked.desk).tick(MONDAY_7 + timedelta(hours=hours))
    assert asked.stretches == [(MONDAY_7 - timedelta(days=7), MONDAY_7)]
    assert len(history.letters(limit=10)) == 2
    a_post(history, asked.desk).tick(MONDAY_7 + timedelta(days=7, minutes=1))
    assert len(history.letters(limit=10)) == 4


def test_a_target_that_is_added_gets_this_weeks(history: History) -> None:
    a_post(history, Asked(history).desk, targets=("mail",)).tick(MONDAY_7)
    assert (
        a_post(history, Asked(history).desk).tick(MONDAY_7 + timedelta(hours=1))
        == "the digest of 2026-11-02 goes to hook"
    )


def test_one_that_was_due_long_ago_is_left_to_the_next(history: History) -> None:
    asked = Asked(history)
    assert "too long ago" in a_post(history, asked.desk).tick(MONDAY_7 + timedelta(days=3))
    assert asked.stretches == []


def test_what_is_sent_opens_no_incident_and_mail_gets_all_of_it(history: History) -> None:
    post, digest = a_post(history, Asked(history).desk), a_digest()
    mail = post.message(digest, TARGETS["mail"], due=MONDAY_7)
    hook = post.message(digest, TARGETS["hook"], due=MONDAY_7)
    assert (mail.verb, hook.verb) == (Verb.NOTE, Verb.NOTE)
    assert mail.html.startswith("<!doctype html>")
    assert hook.html == ""
    assert "周报" in hook.first_line
    assert len(mail.first_line) <= FIRST_LINE_CHARACTERS_MAX
    assert hook.facts["gpu_hours_working"] == "21400"
    assert history.open_incidents() == ()


def test_a_note_waits_in_the_outbox_like_any_letter(history: History) -> None:
    a_post(history, Asked(history).desk).tick(MONDAY_7)
    rows = history.letters(limit=10)
    assert {(row.target, row.verb, row.state) for row in rows} == {
        ("mail", Verb.NOTE, LetterState.READY),
        ("hook", Verb.NOTE, LetterState.READY),
    }
    assert {row.incident for row in rows} == {0}


@pytest.mark.parametrize(
    ("now", "due"),
    [
        # Summer time ended on Sunday 25 October 2026: 7 in the morning is 5 before it and 6 after, in UTC.
        (datetime(2026, 10, 21, 12, tzinfo=UTC), datetime(2026, 10, 19, 5, tzinfo=UTC)),
        (datetime(2026, 10, 26, 5, 59, tzinfo=UTC), datetime(2026, 10, 19, 5, tzinfo=UTC)),
        (datetime(2026, 10, 26, 6, 0, tzinfo=UTC), datetime(2026, 10, 26, 6, tzinfo=UTC)),
        (datetime(2026, 3, 29, 23, tzinfo=UTC), datetime(2026, 3, 23, 6, tzinfo=UTC)),
        (datetime(2026, 3, 30, 5, tzinfo=UTC), datetime(2026, 3, 30, 5, tzinfo=UTC)),
    ],
)
def test_the_hour_is_the_zones_own(now: datetime, due: datetime) -> None:
    assert last_due(DigestSettings(), now, BERLIN) == due


@pytest.mark.parametrize(
    "due",
    [datetime(2026, 10, 26, 6, tzinfo=UTC), datetime(2026, 3, 30, 5, tzinfo=UTC), datetime(2026, 11, 2, 6, tzinfo=UTC)],
)
def test_weeks_follow_each_other_without_gap_or_overlap_when_the_clocks_change(due: datetime, history: History) -> None:
    asked = Asked(history)
    a_post(history, replace(asked.desk, zone=BERLIN)).tick(due)
    before = last_due(DigestSettings(), due - timedelta(days=1), BERLIN)
    assert asked.stretches == [(before, due)]


def test_what_was_sent_is_remembered_for_longer_than_it_may_be_late() -> None:
    with pytest.raises(SettingsError, match="outbox_days"):
        from_table({"oncall": {"outbox_days": 1.0}}, DaemonSettings, where="daemon.toml")
    kept = from_table({"oncall": {"outbox_days": 3.0}}, DaemonSettings, where="daemon.toml").oncall.outbox_days
    assert timedelta(days=kept) > LATE_MAX


def test_a_zone_or_target_that_is_not_there_is_said_at_the_start(history: History) -> None:
    with pytest.raises(SettingsError, match=r"digest\.timezone: 'Europe/Nowhere'"):
        zone_of("Europe/Nowhere")
    settings = from_table({"digest": {"targets": ["nobody"]}}, DaemonSettings, where="daemon.toml")
    with pytest.raises(SettingsError, match=r"no target 'nobody'.*There are: hook, mail"):
        digest_chore(settings, Asked(history).desk, history=history, targets=TARGETS, clock=FakeClock())


def test_start_is_a_monday() -> None:
    assert START.weekday() == 0
