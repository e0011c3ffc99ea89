"""Other people's alerts: what of a delivery is read, kept once, and ended; on both databases."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from tests.alertmanager.scenes import an_incident
from tests.builders import CLUSTER
from tests.fakes.alerts import FakeAlertMemory
from tests.fakes.clock import START, FakeClock
from tests.field_cases import case

from trimtab.errors import StoreError
from trimtab.model.alerts import AlertPlace, AlertState
from trimtab.settings import OthersSettings
from trimtab.show.alertmanager.alerts import identity_labels
from trimtab.show.alertmanager.others import REST_SECONDS, NotNow, Others, TooMany
from trimtab.show.alertmanager.webhook import ALERTS_PER_BODY_MAX, Webhook, place_of, read_webhook
from trimtab.store.database import Database, open_database
from trimtab.store.history import History

SETTINGS = OthersSettings()


def a_body(*alerts: dict, **changes) -> dict:
    return {"version": "4", "groupKey": "{}:{}", "receiver": "r", "status": "firing", "alerts": list(alerts), **changes}


def an_alert(status: str = "firing", *, starts: datetime = START, ends: datetime | None = None, **labels) -> dict:
    return {
        "status": status,
        "labels": {"alertname": "GpuHot", "node": "gpu-07", **labels},
        "annotations": {"summary": "GPU hot on gpu-07"},
        "startsAt": starts.isoformat(),
        "endsAt": "0001-01-01T00:00:00Z" if ends is None else ends.isoformat(),
        "generatorURL": "",
    }


def decoded(body: dict | str) -> Webhook:
    return msgspec.json.decode(body if isinstance(body, str) else json.dumps(body), type=Webhook)


def heard(body: dict | str, settings: OthersSettings = SETTINGS, at: datetime = START):
    return read_webhook(decoded(body), settings=settings, cluster=CLUSTER, source="webhook:am", heard_at=at)


def test_f01_an_end_in_the_year_1_is_no_end() -> None:
    (alert,) = heard(case("F01").text).alerts
    expected = case("F01").expected
    assert (alert.state, alert.ends_at, alert.place.node) == (AlertState.FIRING, None, expected["nodes"][0])
    assert alert.starts_at == datetime(2026, 3, 5, 2, 17, 44, 218000, tzinfo=UTC)
    assert alert.place.gpu == "GPU-56ef376d-ed41-4681-b341-a9a0a49660b2"


def test_f02_state_is_per_alert_whatever_the_group_says() -> None:
    alerts = heard(case("F02").text).alerts
    expected = case("F02").expected
    over = [alert for alert in alerts if alert.state is AlertState.RESOLVED]
    assert (len(alerts), len(over)) == (expected["alerts"], expected["resolved"])
    assert [alert.place.node for alert in over] == expected["resolved_nodes"]
    assert over[0].ends_at == datetime(2026, 4, 11, 9, 41, 30, tzinfo=UTC)
    assert len({alert.fingerprint for alert in alerts}) == len(alerts)


def test_unknown_fields_and_nanoseconds_are_taken() -> None:
    alert = an_alert() | {"values": {"A": 1}, "silenceURL": "x", "startsAt": "2026-03-05T02:17:44.218123456+02:00"}
    (found,) = heard(a_body(alert, orgId=1, truncatedAlerts=0)).alerts
    assert found.starts_at == datetime(2026, 3, 5, 0, 17, 44, 218123, tzinfo=UTC)


def test_where_no_status_is_told_the_end_says() -> None:
    alert = an_alert(ends=START - timedelta(seconds=1))
    del alert["status"]
    ahead = an_alert(ends=START + timedelta(minutes=5), node="gpu-08")
    del ahead["status"]
    assert [one.state for one in heard(a_body(alert, ahead)).alerts] == [AlertState.RESOLVED, AlertState.FIRING]


def test_moments_that_no_calendar_has_do_no_harm() -> None:
    alert = an_alert() | {"startsAt": "0001-01-01T00:00:00+08:00", "endsAt": "9999-12-31T23:59:59-23:00"}
    (found,) = heard(a_body(alert)).alerts
    assert (found.starts_at, found.ends_at, found.state) == (START, None, AlertState.FIRING)


def test_our_own_alerts_coming_back_are_ignored() -> None:
    ours = an_alert(**identity_labels(an_incident()))
    dead_man = an_alert(alertname="TrimtabAlwaysFiring")
    result = heard(a_body(ours, dead_man, an_alert()))
    assert ([alert.name for alert in result.alerts], result.ignored) == (["GpuHot"], {"ours": 2})


def test_another_clusters_alerts_are_ignored_where_names_are_set() -> None:
    body = a_body(an_alert(cluster="hall-9"), an_alert(cluster="prod-gpu", node="gpu-08"), an_alert(node="gpu-09"))
    assert len(heard(body).alerts) == 3
    result = heard(body, OthersSettings(clusters=("prod-gpu",)))
    assert ([alert.place.node for alert in result.alerts], result.ignored) == (["gpu-08", "gpu-09"], {"elsewhere": 1})


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({"node": "gpu-07", "gpu": "3"}, AlertPlace(node="gpu-07", gpu="3")),
        ({"instance": "gpu-07:9400", "UUID": "GPU-1"}, AlertPlace(node="gpu-07", gpu="GPU-1")),
        ({"instance": "[fe80::1]:9400"}, AlertPlace(node="fe80::1")),
        ({"Hostname": "gpu-07", "instance": "10.0.0.1:9400"}, AlertPlace(node="gpu-07")),
        ({"exported_pod": "a-0", "exported_namespace": "research", "pod": "dcgm-exporter-x", "namespace": "gpu"},
         AlertPlace(pod="research/a-0")),
        ({"pod": "a-0", "namespace": "research"}, AlertPlace(pod="research/a-0")),
        ({"pod": "a-0"}, AlertPlace(pod="a-0")),
        ({"job_name": "llama"}, AlertPlace(workload="llama")),
        ({"alertname": "x"}, AlertPlace()),
    ],
)  # fmt: skip
def test_labels_say_what_an_alert_is_about(labels: dict, place: AlertPlace) -> None:
    assert place_of(labels, SETTINGS) == place


def test_which_labels_do_so_is_a_setting() -> None:
    settings = OthersSettings(node_labels=("host",), gpu_labels=("slot",))
    assert place_of({"host": "a", "slot": "1", "node": "b"}, settings) == AlertPlace(node="a", gpu="1")


# --- kept


@pytest.fixture(params=["fake", "sqlite", "postgresql"])
def history(request: pytest.FixtureRequest, tmp_path: Path):
    """A memory; the fake is held to what the real one does on both engines."""
    if request.param == "fake":
        yield FakeAlertMemory()
        return
    url = f"sqlite:///{tmp_path}/t.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql").new_database()
    opened = open_database(url, state_directory=tmp_path)
    yield History(opened, cluster=CLUSTER)
    opened.close()


def others(memory, clock: FakeClock, **settings) -> Others:
    return Others(memory=memory, settings=OthersSettings(**settings), cluster=CLUSTER, clock=clock, wall=clock)


def test_a_delivery_twice_changes_nothing_the_second_time(history: History) -> None:
    clock = FakeClock()
    ear = others(history, clock)
    body = decoded(a_body(an_alert(), an_alert(node="gpu-08")))
    assert ear.hear(body, source="am") == {"opened": 2}
    kept = ear.standing()
    assert ear.hear(body, source="am") == {"repeated": 2}
    assert ear.standing() == kept


def test_the_same_alert_by_another_route_is_the_same_alert(history: History) -> None:
    ear = others(history, FakeClock())
    ear.hear(decoded(a_body(an_alert())), source="am-0")
    assert ear.hear(decoded(a_body(an_alert(), groupKey="{}/{x}:{}")), source="am-1") == {"repeated": 1}
    assert len(ear.standing()) == 1


def test_an_old_firing_delivered_again_does_not_bring_back_what_is_resolved(history: History) -> None:
    ear = others(history, FakeClock())
    over = an_alert("resolved", ends=START + timedelta(seconds=60))
    ear.hear(decoded(a_body(an_alert())), source="am")
    assert ear.hear(decoded(a_body(over)), source="am") == {"resolved": 1}
    assert ear.hear(decoded(a_body(an_alert())), source="am") == {"late": 1}
    assert ear.hear(decoded(a_body(over)), source="am") == {"repeated_end": 1}
    assert ear.standing() == ()
    again = an_alert(starts=START + timedelta(seconds=90))
    assert ear.hear(decoded(a_body(again)), source="am") == {"opened": 1}
    assert len(ear.standing()) == 1


def test_one_label_set_fires_once_at_a_time(history: History) -> None:
    """Alertmanager restarted, and the same alert begins anew: what stood before is over, told or not."""
    ear = others(history, FakeClock())
    for minutes in (0, 5, 9):
        ear.hear(decoded(a_body(an_alert(starts=START + timedelta(minutes=minutes)))), source="am")
    assert [alert.starts_at for alert in ear.standing()] == [START + timedelta(minutes=9)]
    over = an_alert("resolved", starts=START + timedelta(minutes=10), ends=START + timedelta(minutes=11))
    ear.hear(decoded(a_body(over)), source="am")
    assert ear.standing() == ()


def test_an_end_that_comes_before_its_beginning_is_kept_as_an_end(history: History) -> None:
    ear = others(history, FakeClock())
    ear.hear(decoded(a_body(an_alert("resolved", ends=START))), source="am")
    assert ear.hear(decoded(a_body(an_alert())), source="am") == {"late": 1}
    assert ear.standing() == ()


def test_what_nobody_repeats_ends_by_age_and_stands_again_when_it_is_told_again(history: History) -> None:
    clock = FakeClock()
    ear = others(history, clock, age_seconds=3600.0)
    ear.hear(decoded(a_body(an_alert(), an_alert(node="gpu-08"))), source="am")
    clock.advance(3000)
    ear.hear(decoded(a_body(an_alert())), source="am")
    clock.advance(700)
    assert ear.age_when_due() == 1
    assert [alert.place.node for alert in ear.standing()] == ["gpu-07"]
    assert {alert.state for alert in ear.since(START, 10)} == {AlertState.FIRING, AlertState.AGED}
    assert ear.hear(decoded(a_body(an_alert(node="gpu-08"))), source="am") == {"opened": 1}
    clock.advance(31 * 86400)
    ear.age_when_due()
    clock.advance(31 * 86400)
    ear.age_when_due()
    assert ear.since(START, 10) == ()


def test_more_than_the_limit_are_counted_and_not_kept(history: History) -> None:
    ear = others(history, FakeClock(), alerts_max=2)
    assert ear.hear(decoded(a_body(*(an_alert(node=f"n{n}") for n in range(5)))), source="am") == {
        "opened": 2,
        "left_out": 3,
    }
    assert ear.hear(decoded(a_body(an_alert("resolved", node="n0", ends=START))), source="am") == {"resolved": 1}
    assert ear.hear(decoded(a_body(an_alert(node="n9"))), source="am") == {"opened": 1}


def test_ends_of_what_was_never_heard_of_do_not_fill_the_database(history: History) -> None:
    ear = others(history, FakeClock(), alerts_max=2)
    ends = [an_alert("resolved", node=f"n{n}", ends=START) for n in range(30)]
    told = [ear.hear(decoded(a_body(one)), source="am") for one in ends]
    assert [list(one) for one in told] == [["resolved"]] * 20 + [["left_out"]] * 10
    assert ear.hear(decoded(a_body(an_alert(node="new"))), source="am") == {"opened": 1}


def test_it_outlives_a_restart_and_belongs_to_one_cluster(database: Database) -> None:
    others(History(database, cluster=CLUSTER), FakeClock()).hear(decoded(a_body(an_alert())), source="am")
    assert len(others(History(database, cluster=CLUSTER), FakeClock()).standing()) == 1
    assert others(History(database, cluster="hall-b"), FakeClock()).standing() == ()


class Broken:
    """A memory that is out of reach; it counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_broken = True

    def hear_alerts(self, alerts, *, most):
        self.asked += 1
        if self.is_broken:
            raise StoreError("postgresql://db: out of reach.")
        return {"opened": len(alerts)}


def test_where_it_cannot_be_kept_the_answer_is_no_and_soon_at_once() -> None:
    clock, memory = FakeClock(), Broken()
    ear = others(memory, clock)
    body = decoded(a_body(an_alert()))
    for _ in range(3):
        with pytest.raises(NotNow, match="out of reach"):
            ear.hear(body, source="am")
    assert memory.asked == 1
    assert ear.alerts_total["not_kept"] == 3
    clock.advance(REST_SECONDS + 1)
    memory.is_broken = False
    assert ear.hear(body, source="am") == {"opened": 1}
    assert ear.trouble == ""


def test_trouble_with_the_store_is_no_longer_said_when_it_is_over() -> None:
    clock, memory = FakeClock(), FakeAlertMemory()
    ear = others(memory, clock)
    memory.next_error = StoreError("trimtab.db: disk full.")
    with pytest.raises(NotNow):
        ear.hear(decoded(a_body(an_alert())), source="am")
    assert "cannot be kept: trimtab.db: disk full" in ear.trouble
    clock.advance(601)
    assert ear.trouble == ""


def test_a_delivery_of_too_many_is_refused_for_good_with_the_fix() -> None:
    body = decoded(a_body(*(an_alert(node=f"n{n}") for n in range(ALERTS_PER_BODY_MAX + 1))))
    with pytest.raises(TooMany, match="max_alerts"):
        others(Broken(), FakeClock()).hear(body, source="am")


def test_texts_of_any_size_and_kind_are_kept_bounded(history: History) -> None:
    ear = others(history, FakeClock())
    wild = an_alert(**{f"l{n}": "x" * 5000 for n in range(100)}, node="a\x00b\U0001f600")
    ear.hear(decoded(a_body(wild)), source="am")
    (kept,) = ear.standing()
    assert len(kept.labels) <= 64
    assert max(len(value) for value in kept.labels.values()) <= 1000
    assert replace(kept, place=AlertPlace()).text == "GpuHot: GPU hot on gpu-07"
