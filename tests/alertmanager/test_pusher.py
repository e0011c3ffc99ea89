"""Keeping Alertmanager told: opened, renewed, ended, again after outages; by a peer that records what it is given."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.alertmanager.scenes import a_frame, an_incident
from tests.fakes.alerts import FakeAlertMemory
from tests.fakes.clock import START, FakeClock

from trimtab.errors import StoreError
from trimtab.model.advice import Severity
from trimtab.show.alertmanager.client import PeerDown, PeerRefused
from trimtab.show.alertmanager.pusher import BATCH_ALERTS, Pusher


class FakePeer:
    """An Alertmanager as far as it merges what it is given: by label set, the last word counts."""

    def __init__(self, name: str = "am-0:9093") -> None:
        self.name = name
        self.is_down = False
        self.refuses = ""
        self.posts: list[list[dict]] = []

    def post_alerts(self, alerts: list[dict]) -> None:
        if self.is_down:
            raise PeerDown(f"{self.name} does not answer: connection refused.")
        self.posts.append(alerts)
        if self.refuses:
            raise PeerRefused(f"{self.name} answered 400: {self.refuses}", status=400)

    def known(self) -> dict[tuple, dict]:
        return {tuple(sorted(alert["labels"].items())): alert for post in self.posts for alert in post}

    def firing(self, now: datetime) -> set[str]:
        at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {alert["labels"]["incident"] for alert in self.known().values() if alert["endsAt"] > at}


class Scene:
    def __init__(self, *, peers: int = 1, **settings) -> None:
        self.clock = FakeClock()
        self.memory = FakeAlertMemory()
        self.peers = [FakePeer(f"am-{number}:9093") for number in range(peers)]
        self.frame = a_frame(**settings)
        self.restart()

    def restart(self) -> None:
        """The daemon starts anew: nothing is left but what was written down."""
        self.pusher = Pusher(self.peers, frame=self.frame, memory=self.memory, clock=self.clock)

    def push(self, *incidents, after_seconds: float = 0.0) -> str:
        self.clock.advance(after_seconds)
        return self.pusher.push(incidents)

    @property
    def peer(self) -> FakePeer:
        return self.peers[0]

    def firing(self, peer: int = 0) -> set[str]:
        return self.peers[peer].firing(self.clock.now())


ONE, TWO = an_incident(1), an_incident(2, node="gpu-08")


def test_a_new_incident_is_posted_once_and_then_renewed_long_before_it_ends() -> None:
    scene = Scene()
    for _ in range(60):
        scene.push(ONE, after_seconds=5)
        assert scene.firing() == {ONE.incident}
    assert len(scene.peer.posts) == 5  # at 5 s, and each minute
    ends = [post[0]["endsAt"] for post in scene.peer.posts]
    assert ends == sorted(set(ends))


def test_every_peer_of_a_pair_is_told_and_each_is_renewed_by_its_own_clock() -> None:
    scene = Scene(peers=2)
    scene.peers[1].is_down = True
    said = scene.push(ONE)
    assert (len(scene.peers[0].posts), scene.peers[1].posts) == (1, [])
    assert "am-1:9093 does not answer" in said
    scene.peers[1].is_down = False
    scene.push(ONE, after_seconds=5)
    assert (len(scene.peers[0].posts), len(scene.peers[1].posts)) == (1, 1)
    assert [facts.trouble for facts in scene.pusher.facts] == ["", ""]


def test_what_is_over_is_ended_at_once_repeated_for_a_while_and_then_forgotten() -> None:
    scene = Scene()
    scene.push(ONE)
    scene.push(after_seconds=5)
    ended = scene.peer.posts[-1][0]["endsAt"]
    assert scene.firing() == set()
    for _ in range(300):
        scene.push(after_seconds=5)
    assert {post[0]["endsAt"] for post in scene.peer.posts[1:]} == {ended}
    assert len(scene.peer.posts) == 1 + 6 + 14  # opened; ended, at each beat of half a minute; then each minute
    assert scene.memory.pushed == {}


def test_ten_minutes_of_outage_lose_nothing_and_leave_nothing_open() -> None:
    scene = Scene()
    mended = an_incident(3, node="gpu-09")
    scene.push(ONE, mended)
    scene.peer.is_down = True
    for _ in range(60):
        scene.push(ONE, after_seconds=5)  # `mended` is over, TWO is new
    for _ in range(60):
        scene.push(ONE, TWO, after_seconds=5)
    assert scene.pusher.facts[0].failing_since is not None
    assert scene.pusher.facts[0].posts_total["failed"] < 40  # backed off
    scene.peer.is_down = False
    for _ in range(7):
        scene.push(ONE, TWO, after_seconds=5)
    assert scene.firing() == {ONE.incident, TWO.incident}
    key = next(key for key, alert in scene.peer.known().items() if alert["labels"]["incident"] == mended.incident)
    assert scene.peer.known()[key]["endsAt"] < scene.peer.posts[0][0]["endsAt"]


def test_a_peer_that_was_out_of_reach_when_it_was_mended_is_told_so_hours_later() -> None:
    scene = Scene()
    scene.push(ONE)
    scene.peer.is_down = True
    for _ in range(240):
        scene.push(after_seconds=60)
    scene.peer.is_down = False
    scene.push(after_seconds=60)
    assert scene.peer.posts[-1][0]["labels"]["incident"] == ONE.incident
    assert scene.firing() == set()


def test_an_alertmanager_that_started_anew_is_told_everything_at_once() -> None:
    scene = Scene()
    scene.push(ONE, TWO)
    scene.pusher.heard_up_since("am-0:9093", START, "0.31.1")
    for _ in range(8):
        scene.push(ONE, after_seconds=5)
    scene.peer.posts.clear()
    scene.push(ONE, after_seconds=5)
    assert scene.peer.posts == []
    scene.pusher.heard_up_since("am-0:9093", START + timedelta(seconds=7))
    scene.push(ONE, after_seconds=5)
    assert [alert["labels"]["incident"] for alert in scene.peer.posts[0]] == [ONE.incident, TWO.incident]
    assert scene.firing() == {ONE.incident}


def test_a_daemon_that_was_killed_goes_on_with_what_is_open_and_ends_what_is_not() -> None:
    scene = Scene()
    scene.push(ONE, TWO)
    was = scene.peer.known()
    scene.restart()
    scene.push(TWO, after_seconds=20)
    assert set(scene.peer.known()) == set(was)
    assert [alert["labels"]["incident"] for alert in scene.peer.posts[-1]] == [ONE.incident, TWO.incident]
    assert scene.firing() == {TWO.incident}


def test_a_daemon_killed_between_writing_down_and_posting_posts_it_after_its_start() -> None:
    scene = Scene()
    scene.peer.is_down = True
    scene.push(ONE)
    scene.restart()
    scene.peer.is_down = False
    scene.push(ONE, after_seconds=1)
    assert scene.firing() == {ONE.incident}


def test_a_changed_label_set_ends_the_old_one_in_the_same_post() -> None:
    scene = Scene(severity_label="severity")
    scene.push(replace(ONE, severity=Severity.WARNING))
    scene.push(ONE, after_seconds=5)
    old, new = scene.peer.posts[-1]
    assert (old["labels"]["severity"], new["labels"]["severity"]) == ("warning", "critical")
    at = scene.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert old["endsAt"] <= at < new["endsAt"]
    assert old["startsAt"] == new["startsAt"]


def test_labels_that_somebody_changes_in_the_settings_end_the_old_ones_too() -> None:
    scene = Scene(labels={"team": "gpu"})
    scene.push(ONE, TWO)
    scene.frame = a_frame(labels={"team": "infra"})
    scene.restart()
    scene.push(ONE, TWO, after_seconds=5)
    told = [(alert["labels"]["incident"], alert["labels"]["team"]) for alert in scene.peer.posts[-1]]
    both = [(one.incident, team) for one in (ONE, TWO) for team in ("gpu", "infra")]
    assert told == both
    teams = [alert["labels"]["team"] for alert in scene.peer.known().values() if alert["endsAt"] > "2026-11-02T09:01"]
    assert teams == ["infra", "infra"]


def test_a_fault_that_comes_back_stands_again_and_its_end_is_not_repeated_over_it() -> None:
    scene = Scene()
    scene.push(ONE)
    scene.push(after_seconds=5)
    scene.push(ONE, after_seconds=5)
    for _ in range(30):
        scene.push(ONE, after_seconds=60)
        assert scene.firing() == {ONE.incident}


def test_an_annotation_that_changed_is_told_and_is_no_other_alert() -> None:
    scene = Scene()
    scene.push(ONE)
    scene.push(replace(ONE, first_line="worse"), after_seconds=5)
    assert scene.peer.posts[-1][0]["annotations"]["summary"] == "worse"
    assert len(scene.peer.known()) == 1


def test_where_the_store_is_out_of_reach_what_stands_is_renewed_and_nothing_ends() -> None:
    scene = Scene()
    scene.push(ONE)
    scene.memory.next_error = StoreError("trimtab.db: disk full.")
    with pytest.raises(StoreError, match="disk full"):
        scene.push(after_seconds=290)
    assert scene.firing() == {ONE.incident}
    scene.push(after_seconds=5)
    assert scene.firing() == set()


def test_a_refusal_is_counted_and_shown_and_the_others_go_on() -> None:
    scene = Scene(peers=2)
    scene.peer.refuses = "bad label"
    said = scene.push(ONE)
    assert "bad label" in said
    assert [dict(facts.posts_total) for facts in scene.pusher.facts] == [{"refused": 1}, {"taken": 1}]


def test_more_incidents_than_the_limit_are_counted_and_those_that_stand_are_not_ended() -> None:
    scene = Scene(alerts_max=2)
    scene.push(an_incident(5), an_incident(6))
    said = scene.push(*(an_incident(number) for number in range(1, 7)), after_seconds=5)
    assert "4 beyond alertmanager.alerts_max not pushed" in said
    assert scene.firing() == {an_incident(5).incident, an_incident(6).incident}


def test_the_end_of_what_is_muted_is_told_again_when_it_is_not() -> None:
    scene = Scene()
    muted = {"is": True}
    scene.pusher = Pusher(
        scene.peers, frame=scene.frame, memory=scene.memory, clock=scene.clock, is_muted=lambda _a, _n: muted["is"]
    )
    scene.push(ONE)
    for _ in range(5 * 24 * 60):
        scene.push(after_seconds=60)  # five days of a silence
    assert len(scene.memory.pushed) == 1
    muted["is"] = False
    scene.peer.posts.clear()
    scene.push(after_seconds=1)
    assert scene.peer.posts[0][0]["labels"]["incident"] == ONE.incident
    for _ in range(20):
        scene.push(after_seconds=60)
    assert scene.memory.pushed == {}


def test_a_peer_that_is_gone_for_a_day_keeps_nothing_remembered() -> None:
    scene = Scene(peers=2)
    scene.push(ONE)
    scene.peers[1].is_down = True
    for _ in range(23 * 60):
        scene.push(after_seconds=60)
    assert len(scene.memory.pushed) == 1
    for _ in range(70):
        scene.push(after_seconds=60)
    assert scene.memory.pushed == {}


def test_a_thousand_incidents_go_in_bounded_posts_that_part_no_incident() -> None:
    scene = Scene(severity_label="severity")
    many = [an_incident(number, severity=Severity.WARNING) for number in range(1000)]
    scene.push(*many)
    assert max(len(post) for post in scene.peer.posts) == BATCH_ALERTS
    scene.peer.posts.clear()
    scene.push(*(replace(one, severity=Severity.CRITICAL) for one in many), after_seconds=5)
    for post in scene.peer.posts:
        assert len(post) in (BATCH_ALERTS, BATCH_ALERTS + 1)
        incidents = [alert["labels"]["incident"] for alert in post]
        assert all(incidents.count(one) == 2 for one in incidents)
    assert len(scene.firing()) == 1000
