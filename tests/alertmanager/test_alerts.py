"""What an incident is as Alertmanager's alert: its identity, what it says, when it ends."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from tests.alertmanager.scenes import PAGE, a_frame, an_incident
from tests.builders import CLUSTER, gpu_uuid
from tests.fakes.clock import START
from tests.field_cases import case

from trimtab.errors import SettingsError
from trimtab.model.advice import Action, Severity, Subject
from trimtab.show.alertmanager.alerts import (
    alert_for,
    body_of,
    faults_of,
    fingerprint_of,
    identity_labels,
    is_ours,
    pager_key_of,
    resolved,
)
from trimtab.show.alertmanager.desk import check_settings

NOW = START + timedelta(seconds=10)


def test_the_identity_is_stable_labels_and_nothing_else() -> None:
    assert identity_labels(an_incident()) == {
        "alertname": "TrimtabDeviceFault",
        "cluster": CLUSTER,
        "incident": "device_fault:gpu-07:17",
        "node": "gpu-07",
        "gpu": gpu_uuid("gpu-07", 3),
    }


def test_severity_and_values_are_annotations() -> None:
    alert = alert_for(an_incident(), None, a_frame(), NOW)
    assert "severity" not in alert.labels
    assert alert.annotations["severity"] == "critical"
    assert alert.annotations["summary"] == f"{CLUSTER}: gpu-07 lost GPU 3 (XID 79)"
    assert alert.annotations["runbook"] == "docs/runbooks/TrimtabDeviceFault.md"
    assert alert.annotations["incident_key"] == f"trimtab/{CLUSTER}/I17-3fa9"
    assert alert.link == f"{PAGE}/f/47"


def test_what_an_incident_says_later_changes_no_label() -> None:
    first = alert_for(an_incident(), None, a_frame(), NOW)
    later = an_incident(
        severity=Severity.WARNING,
        action=Action.ALERT_OWNER,
        node="gpu-09",
        queue="research",
        incident="another name",
        first_line="better",
    )
    second = alert_for(later, first, a_frame(), NOW + timedelta(seconds=60))
    assert (second.key, second.starts_at) == (first.key, first.starts_at)
    assert (second.annotations["summary"], second.annotations["severity"]) == ("better", "warning")


def test_a_severity_label_holds_the_worst_so_far() -> None:
    frame = a_frame(severity_label="severity")
    mild = alert_for(an_incident(severity=Severity.WARNING), None, frame, NOW)
    worse = alert_for(an_incident(), mild, frame, NOW)
    better = alert_for(an_incident(severity=Severity.WARNING), worse, frame, NOW)
    assert [one.labels["severity"] for one in (mild, worse, better)] == ["warning", "critical", "critical"]
    assert better.key == worse.key != mild.key


def test_an_open_alert_ends_ahead_and_one_that_is_over_in_the_past_after_its_start() -> None:
    alert = alert_for(an_incident(), None, a_frame(), NOW)
    assert body_of(alert, now=NOW, hold_seconds=300)["endsAt"] == "2026-11-02T09:05:10.000Z"
    over = resolved(alert, NOW)
    assert body_of(over, now=NOW + timedelta(seconds=99), hold_seconds=300)["endsAt"] == "2026-11-02T09:00:10.000Z"


def test_an_alert_never_ends_when_it_starts() -> None:
    alert = alert_for(an_incident(opened_at=NOW), None, a_frame(), NOW)
    body = body_of(resolved(alert, alert.starts_at), now=NOW, hold_seconds=300)
    assert body["startsAt"] < body["endsAt"]  # type: ignore[operator]
    assert faults_of([body]) == []


def test_a_link_that_is_not_known_is_left_out() -> None:
    frame = a_frame()
    without = type(frame)(settings=frame.settings, cluster=CLUSTER)
    assert "generatorURL" not in body_of(alert_for(an_incident(), None, without, NOW), now=NOW, hold_seconds=300)


def test_the_owners_news_is_labelled_for_them() -> None:
    labels = identity_labels(an_incident(action=Action.ALERT_OWNER))
    assert (labels["alertname"], labels["audience"]) == ("TrimtabProgramFault", "owner")


def test_a_text_that_no_utf8_can_hold_keeps_nothing_back() -> None:
    odd = an_incident(subject=Subject(cluster=CLUSTER, node="gpu-\ud800"), first_line="\udc00 lost")
    body = body_of(alert_for(odd, None, a_frame(), NOW), now=NOW, hold_seconds=300)
    assert msgspec.json.decode(msgspec.json.encode(body))["labels"]["node"] == "gpu-?"


def test_a_drill_is_labelled_as_one() -> None:
    assert identity_labels(an_incident(is_drill=True))["drill"] == "true"


def test_f04_a_post_without_an_end_is_flagged() -> None:
    expected = case("F04").expected
    (body,) = expected_bodies("F04")
    assert (len([body]), "endsAt" in body) == (expected["alerts"], expected["has_endsat"])
    assert ["no endsAt" in said for said in faults_of([body])] == [True]
    ours = body_of(alert_for(an_incident(), None, a_frame(), NOW), now=NOW, hold_seconds=300)
    assert faults_of([ours]) == []


def test_f05_an_alert_that_ends_when_it_starts_and_a_junk_link_are_flagged() -> None:
    bodies = expected_bodies("F05")
    bad = [place for place, body in enumerate(bodies) if faults_of([body])]
    assert bad == case("F05").expected["bad"]
    assert ["ends when it starts" in said or "generatorURL" in said for said in faults_of([bodies[0]])] == [True, True]


def test_f07_three_posts_of_one_fault_are_one_identity_as_we_send_it() -> None:
    """The case's labels hold a clock and a pod; the same three moments of our incident hold neither."""
    posts = expected_bodies("F07")
    theirs = {fingerprint_of(alert["labels"]) for post in posts for alert in post}
    assert len(theirs) == case("F07").expected["identities"]
    alert, ours = None, set()
    for post in posts:
        labels = post[0]["labels"]
        incident = an_incident(
            node=labels["node"],
            rule="hotspot",
            first_line=f"{labels['node']} GPU {labels['gpu']} runs at {labels['clock_mhz']} MHz",
            victims=(labels["pod"],),
        )
        alert = alert_for(incident, alert, a_frame(), NOW)
        ours.add(fingerprint_of(alert.labels))
    assert len(ours) == case("F07").expected["faults"]
    assert not set(alert.labels if alert else ()) & set(case("F07").expected["unstable_labels"])


def expected_bodies(name: str) -> list:
    import json

    return json.loads(case(name).text)


def test_the_pager_key_is_that_of_alertmanager_itself() -> None:
    assert pager_key_of('{}:{alertname="GPUFault", incident="inc-1"}') == (
        "a8076dae650d2478e5488487b719ec482bbb56506095e4a46985adf795377fdd"
    )


def test_our_own_alerts_are_known_by_their_name() -> None:
    assert is_ours(alert_for(an_incident(), None, a_frame(), NOW).labels)
    assert is_ours(alert_for(an_incident(rule="no such rule"), None, a_frame(), NOW).labels)
    assert is_ours({"alertname": "TrimtabAlwaysFiring"})
    assert not is_ours({"alertname": "GpuOffBus", "incident": "x"})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hold_seconds": 100.0}, "fewer than 3 renewals"),
        ({"labels": {"node": "x"}}, "the label node is ours"),
        ({"severity_label": "incident"}, "the label incident is ours"),
        ({"labels": {"team": "gpu"}, "severity_label": "team"}, "the label team is ours"),
        ({"user": "a", "token_file": "b"}, "not both"),
        ({"renew_seconds": 1.0}, "less than interval_seconds"),
    ],
)
def test_settings_that_would_end_alerts_early_or_lose_them_are_refused(settings: dict, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        check_settings(a_frame(**settings).settings)
