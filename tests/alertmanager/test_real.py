"""The desk and a real Alertmanager: what on-call is told when things break, mend, restart, and are silenced."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.alertmanager.scenes import MovingClock, a_frame, an_incident
from tests.alertmanager.server import BINARY, INSTALL, Alertmanager
from tests.fakes.alerts import FakeAlertMemory
from tests.system.processes import eventually

from trimtab.model.advice import Severity
from trimtab.show.alertmanager.alerts import fingerprint_of, pager_key_of
from trimtab.show.alertmanager.desk import Desk

ONE = an_incident(1)
TWO = an_incident(2, node="gpu-08")


class Scene:
    """A desk whose clock we move, and the Alertmanagers that it talks to."""

    def __init__(self, *servers: Alertmanager, behind_seconds: float = 0.0, memory=None, **settings) -> None:
        self.clock = MovingClock(behind_seconds=behind_seconds)
        self.memory = memory or FakeAlertMemory()
        urls = tuple(server.url for server in servers)
        self.frame = a_frame(urls=urls, **settings)
        self.desk = Desk(frame=self.frame, memory=self.memory, clock=self.clock, wall=self.clock)

    def tick(self, *incidents, hurry_seconds: float = 0.0) -> str:
        self.clock.hurry(hurry_seconds)
        return self.desk.tick(incidents)

    def later(self, *incidents, seconds: float) -> str:
        self.clock.advance(seconds)
        return self.desk.tick(incidents)

    def until(self, look, *incidents, seconds: float = 60.0):
        """Beats go on until it comes true."""
        return eventually(lambda: look() if self.tick(*incidents) else None, seconds=seconds)


@pytest.fixture
def scene(am):
    made = Scene(am)
    yield made


def incidents_of(alerts: list[dict]) -> set[str]:
    return {alert["labels"]["incident"] for alert in alerts}


def opened(**changes):
    return replace(ONE, opened_at=datetime.now(UTC) - timedelta(seconds=2), **changes)


def test_an_incident_is_told_once_and_its_end_once(am, oncall, scene) -> None:
    fault = opened()
    scene.until(lambda: oncall.alerts("firing"), fault)
    scene.tick(replace(fault, first_line="other words", severity=Severity.WARNING))
    scene.until(lambda: oncall.alerts("resolved"))
    assert [alert["status"] for alert in oncall.alerts()] == ["firing", "resolved"]
    assert len({alert["fingerprint"] for alert in oncall.alerts()}) == 1
    assert set(oncall.firing().values()) == {"resolved"}


def test_alertmanager_names_our_alert_and_group_as_we_do(am, oncall, scene) -> None:
    scene.tick(opened())
    told = eventually(lambda: oncall.told)[0]
    (alert,) = told["alerts"]
    assert fingerprint_of(alert["labels"]) == alert["fingerprint"]
    assert re.fullmatch(r"[0-9a-f]{64}", pager_key_of(told["groupKey"]))
    assert told["groupKey"] == '{}:{alertname="TrimtabDeviceFault", incident="device_fault:gpu-07:1"}'
    assert alert["generatorURL"] == "https://trimtab.example/f/31"


def test_an_open_alert_is_renewed_and_never_ends_by_itself(am, oncall, scene) -> None:
    """Twenty minutes of ours: the end that Alertmanager holds is always minutes ahead of our clock."""
    fault = opened()
    for _ in range(120):
        scene.later(fault, seconds=10)
        (alert,) = am.alerts()
        ends_at = datetime.fromisoformat(alert["endsAt"])
        assert ends_at - scene.clock.now() >= timedelta(seconds=3 * 60)
        assert alert["status"]["state"] == "active"


def test_a_clock_that_is_ahead_of_alertmanagers_does_not_leave_an_alert_open(am, oncall) -> None:
    """Its end then lies in Alertmanager's future, where the later end that it was told before would count."""
    scene = Scene(am, behind_seconds=-3)
    scene.until(lambda: oncall.alerts("firing"), opened())
    scene.until(lambda: oncall.alerts("resolved"))
    assert am.alerts() == []


def test_an_alertmanager_that_restarts_hears_of_what_is_open_and_what_is_just_over(am, oncall, scene) -> None:
    fault, mended = opened(), opened(number=2, incident="b", id="b")
    scene.until(lambda: incidents_of(oncall.alerts("firing")) == {fault.incident, "b"}, fault, mended)
    am.stop()
    scene.tick(fault)
    am.start()
    assert am.alerts() == []
    scene.until(lambda: incidents_of(oncall.alerts("resolved")) == {"b"}, fault)
    assert incidents_of(am.alerts()) == {fault.incident}
    assert incidents_of(oncall.alerts("firing")) == {fault.incident, "b"}


def test_an_alertmanager_that_restarts_between_two_beats_is_noticed(am, oncall, scene) -> None:
    fault = opened()
    scene.tick(fault)
    eventually(am.alerts)
    am.stop(with_signal=signal.SIGKILL)
    am.start()
    scene.tick(fault, hurry_seconds=16)
    assert incidents_of(am.alerts()) == {fault.incident}


def test_ten_minutes_down_lose_nothing_and_double_nothing(am, oncall) -> None:
    scene = Scene(am, behind_seconds=700, hold_seconds=3600.0)  # what our clock says ends ahead of the real one
    old = replace(ONE, number=3, incident="old", id="old", opened_at=scene.clock.now())
    scene.until(lambda: oncall.alerts("firing"), old)
    am.stop()
    new = replace(ONE, opened_at=scene.clock.now())
    for _ in range(120):
        scene.later(new, seconds=5)  # 10 minutes; `old` is over in the first of them
    am.start()
    for _ in range(7):
        scene.later(new, seconds=5)
    scene.until(lambda: incidents_of(oncall.alerts("resolved")) == {"old"}, new)
    scene.until(lambda: incidents_of(oncall.alerts("firing")) == {"old", new.incident}, new)
    scene.until(lambda: incidents_of(oncall.alerts("resolved")) == {"old", new.incident})
    told = [(alert["labels"]["incident"], alert["status"]) for alert in oncall.alerts()]
    assert sorted(told) == sorted((name, status) for name in ("old", new.incident) for status in ("firing", "resolved"))


def test_a_daemon_that_starts_anew_ends_what_the_one_before_had_opened(am, oncall, scene) -> None:
    scene.until(lambda: oncall.alerts("firing"), opened())
    other = Scene(am, memory=scene.memory)
    other.until(lambda: oncall.alerts("resolved"))


def test_both_peers_of_a_pair_are_told_and_on_call_once(tmp_path, oncall) -> None:
    if not BINARY:
        pytest.skip(INSTALL)
    first = Alertmanager(tmp_path / "a", webhook=oncall.url).start(is_clustered=True)
    second = Alertmanager(tmp_path / "b", webhook=oncall.url).start(peer=first, is_clustered=True)
    scene = Scene(first, second)
    try:
        fault = opened()
        scene.tick(fault)
        assert [incidents_of(server.alerts()) for server in (first, second)] == [{fault.incident}] * 2
        second.stop()
        said = scene.tick(fault, hurry_seconds=61)
        assert f"127.0.0.1:{second.port} does not answer" in said
        assert incidents_of(first.alerts()) == {fault.incident}
        second.start(peer=first, is_clustered=True)
        scene.tick(fault, hurry_seconds=61)
        assert incidents_of(second.alerts()) == {fault.incident}
        eventually(lambda: oncall.alerts("firing"))
    finally:
        first.stop()
        second.stop()


def test_a_changed_severity_label_leaves_one_alert_open(am, oncall) -> None:
    scene = Scene(am, severity_label="severity")
    fault = opened(severity=Severity.WARNING)
    scene.until(lambda: oncall.alerts("firing"), fault)
    worse = replace(fault, severity=Severity.CRITICAL)
    scene.until(lambda: [one["labels"]["severity"] for one in am.alerts()] == ["critical"], worse)
    scene.until(lambda: set(oncall.firing().values()) == {"resolved"})
    assert am.alerts() == []


def test_rules_that_fire_for_what_is_pushed_too_are_noticed(am, oncall, scene) -> None:
    fault = opened()
    scene.tick(fault)
    labels = {"alertname": "TrimtabDeviceFault", "incident": fault.incident, "finding": "F31", "severity": "critical"}
    scene.tick(fault, hurry_seconds=16)
    assert scene.desk.doubled == 0
    am.post([{"labels": labels}])
    scene.tick(fault, hurry_seconds=16)
    assert scene.desk.doubled == 1


def test_incidents_that_alertmanager_is_to_page_and_never_hears_of_are_noticed(am) -> None:
    scene = Scene(am, push=False)
    scene.tick(replace(ONE, opened_at=datetime.now(UTC) - timedelta(minutes=9)))
    assert scene.desk.unheard == 0
    scene.tick(replace(ONE, opened_at=datetime.now(UTC) - timedelta(minutes=11)), hurry_seconds=16)
    assert scene.desk.unheard == 1
    am.post([{"labels": {"alertname": "TrimtabDeviceFault", "incident": ONE.incident, "finding": "F31"}}])
    scene.tick(replace(ONE, opened_at=datetime.now(UTC) - timedelta(minutes=11)), hurry_seconds=16)
    assert scene.desk.unheard == 0


# --- silences


def until(seconds: float) -> dict[str, str]:
    now = datetime.now(UTC)
    return {"starts": now.isoformat(), "ends": (now + timedelta(seconds=seconds)).isoformat()}


def test_a_silence_keeps_our_own_outbox_quiet_too_and_says_who_asked_for_it(am, scene) -> None:
    am.silence({"name": "node", "value": "gpu-07"}, **until(3600), comment="new cooler")
    fault = opened()
    scene.tick(fault)
    said = scene.desk.why_quiet(fault, scene.clock.now())
    assert said is not None
    assert re.fullmatch(r'Silence \w{8} of \{node="gpu-07"\} until [0-9TZ:-]+, by anna: new cooler\.', said)
    assert scene.desk.why_quiet(TWO, scene.clock.now()) is None
    (row,) = scene.desk.standing([fault, TWO], scene.clock.now())
    assert (row.kind, row.who, row.findings) == ("silence", "anna", ("F31",))


def test_a_lone_negative_matcher_keeps_everything_else_quiet(am, scene) -> None:
    am.silence({"name": "node", "value": "gpu-07", "isEqual": False}, **until(3600))
    fault = opened()
    scene.tick(fault, TWO)
    now = scene.clock.now()
    assert (scene.desk.why_quiet(fault, now), scene.desk.why_quiet(TWO, now) is None) == (None, False)


def test_a_silence_that_we_cannot_read_counts_where_alertmanager_says_so_of_our_alert(am, scene) -> None:
    am.silence({"name": "node", "value": r"\p{Ll}+-07", "isRegex": True}, **until(3600))
    fault = opened()
    scene.tick(fault, TWO)
    assert scene.desk.why_quiet(fault, scene.clock.now()) is None  # it was not there yet when it was asked
    scene.tick(fault, TWO, hurry_seconds=16)
    now = scene.clock.now()
    assert (scene.desk.why_quiet(fault, now) is None, scene.desk.why_quiet(TWO, now)) == (False, None)


def test_a_drill_rings_through_any_silence(am, scene) -> None:
    am.silence({"name": "cluster", "value": ".+", "isRegex": True}, **until(3600))
    scene.tick()
    assert scene.desk.why_quiet(opened(), scene.clock.now()) is not None
    assert scene.desk.why_quiet(opened(is_drill=True), scene.clock.now()) is None


def test_silences_that_were_read_long_ago_keep_nobody_asleep(am, scene) -> None:
    am.silence({"name": "node", "value": "gpu-07"}, **until(36000))
    fault = opened()
    scene.tick(fault)
    am.stop()
    scene.later(fault, seconds=200)
    assert scene.desk.why_quiet(fault, scene.clock.now()) is not None
    scene.later(fault, seconds=200)
    assert scene.desk.why_quiet(fault, scene.clock.now()) is None
    assert "does not answer" in scene.desk.trouble


def test_nobody_is_woken_by_a_restart_before_the_silences_were_asked_for(am, scene) -> None:
    fault = opened()
    assert "has not been asked" in (scene.desk.why_quiet(fault, scene.clock.now()) or "")
    am.stop()
    scene.tick(fault)  # asked, in vain: doubt pages
    assert scene.desk.why_quiet(fault, scene.clock.now()) is None


def test_a_fault_that_is_mended_under_a_silence_is_closed_on_call_when_the_silence_ends(am, oncall, scene) -> None:
    """Alertmanager itself never tells of it: an alert that resolves while it is muted stays open at the pager."""
    fault = opened()
    scene.until(lambda: oncall.alerts("firing"), fault)
    silence = am.silence({"name": "node", "value": "gpu-07"}, **until(3600))
    scene.tick(fault, hurry_seconds=16)
    for _ in range(40):
        scene.tick(hurry_seconds=60)  # forty minutes, longer than an end is repeated
    assert am.alerts() == []
    probe = an_incident(9, node="gpu-09", incident="probe", opened_at=datetime.now(UTC))
    scene.until(lambda: "probe" in incidents_of(oncall.alerts("firing")), probe)
    assert oncall.alerts("resolved") == []
    am.unsilence(silence)
    scene.until(lambda: incidents_of(oncall.alerts("resolved")) == {fault.incident, "probe"})
    assert set(oncall.firing().values()) == {"resolved"}
    assert len(oncall.alerts()) == 4


def test_without_us_alertmanager_never_tells_of_it(am, oncall) -> None:
    """The gap itself, so that the test above proves something: the same posted once, as others do."""
    now = datetime.now(UTC)

    def body(name: str, ends: timedelta) -> dict:
        labels = {"alertname": "GpuHot", "incident": name, "node": name}
        starts = (now - timedelta(seconds=60)).isoformat()
        return {"labels": labels, "startsAt": starts, "endsAt": (now + ends).isoformat()}

    am.post([body("a", timedelta(minutes=5))])
    eventually(lambda: oncall.alerts("firing"))
    silence = am.silence({"name": "node", "value": "a"}, **until(3600))
    am.post([body("a", timedelta())])
    eventually(lambda: am.alerts() == [])
    am.post([body("b", timedelta(minutes=5))])  # two rounds of another group: the one under silence was flushed too
    eventually(lambda: incidents_of(oncall.alerts("firing")) == {"a", "b"})
    am.post([body("b", timedelta())])
    eventually(lambda: incidents_of(oncall.alerts("resolved")) == {"b"})
    am.unsilence(silence)
    am.post([body("c", timedelta(minutes=5))])
    eventually(lambda: incidents_of(oncall.alerts("firing")) == {"a", "b", "c"})
    am.post([body("c", timedelta())])
    eventually(lambda: incidents_of(oncall.alerts("resolved")) == {"b", "c"})
    assert oncall.firing()['{}:{alertname="GpuHot", incident="a"}'] == "firing"


def test_a_daemon_that_starts_anew_under_a_silence_tells_of_the_end_after_it(am, oncall, scene) -> None:
    fault = opened()
    scene.until(lambda: oncall.alerts("firing"), fault)
    silence = am.silence({"name": "node", "value": "gpu-07"}, **until(3600))
    scene.tick(fault, hurry_seconds=16)
    scene.tick(hurry_seconds=1)
    other = Scene(am, memory=scene.memory)
    for _ in range(40):
        other.tick(hurry_seconds=60)
    am.unsilence(silence)
    other.until(lambda: oncall.alerts("resolved"))
    assert [one["status"] for one in oncall.alerts()] == ["firing", "resolved"]
