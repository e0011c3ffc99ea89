"""Maintenance windows: what they keep quiet, how they are made and ended, and the one silence that follows each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.alertmanager.scenes import MovingClock, a_frame, an_incident
from tests.builders import CLUSTER
from tests.fakes.alerts import FakeAlertMemory
from tests.fakes.clock import START, FakeClock
from tests.system.processes import eventually

from trimtab.errors import DecisionRefused, StoreError
from trimtab.model.advice import Subject
from trimtab.model.alerts import Maintenance, MaintenanceScope, Matcher
from trimtab.show.alertmanager.alerts import identity_labels
from trimtab.show.alertmanager.desk import Desk, Scene
from trimtab.show.alertmanager.silencing import matchers_of
from trimtab.show.alertmanager.windows import Windows
from trimtab.store.database import Database
from trimtab.store.history import History

HOUR = timedelta(hours=1)
NODE, RACK, QUEUE = MaintenanceScope.NODE, MaintenanceScope.RACK, MaintenanceScope.QUEUE


class Office:
    """A desk and the windows that people make on it."""

    def __init__(self, *, clock=None, memory=None, racks=None, nodes=None, **settings) -> None:
        self.clock = clock or FakeClock()
        self.memory = memory or FakeAlertMemory()
        self.racks = racks or {}
        self.nodes = nodes or {}
        scene = Scene(nodes_of=lambda incident: self.nodes.get(incident.number, ()), racks=lambda: self.racks)
        self.desk = Desk(frame=a_frame(**settings), memory=self.memory, clock=self.clock, wall=self.clock, scene=scene)
        self.windows = Windows(
            memory=self.memory,
            desk=self.desk,
            clock=self.clock,
            known=lambda: {NODE: {"gpu-07", "gpu-08"}, RACK: {"r1", "r2"}},
            nodes_of_rack=lambda rack: tuple(sorted(node for node, of in self.racks.items() if of == rack)),
        )

    def add(self, scope=NODE, name="gpu-07", **changes) -> Maintenance:
        values = {"until": self.clock.now() + HOUR, "why": "new cooler", "who": "anna", **changes}
        return self.windows.add(scope, name, **values)

    def why(self, incident) -> str | None:
        return self.desk.why_quiet(incident, self.clock.now())


def test_a_window_keeps_its_node_quiet_until_it_ends_and_no_other() -> None:
    office = Office()
    window = office.add()
    assert office.why(an_incident()) == ("Maintenance M1 of gpu-07 until 2026-11-02T10:00:00Z, by anna: new cooler.")
    assert office.why(an_incident(node="gpu-08")) is None
    office.clock.advance(3600)
    assert office.why(an_incident()) is None
    assert window.title == "M1"


def test_an_incident_of_several_nodes_is_quiet_only_where_all_of_them_are() -> None:
    office = Office(racks={"gpu-07": "r1", "gpu-08": "r1"}, nodes={17: ("gpu-07", "gpu-08")})
    office.add()
    assert office.why(an_incident()) is None
    office.add(RACK, "r1")
    assert "of rack r1" in (office.why(an_incident()) or "")


def test_a_rack_is_the_nodes_that_it_had_and_has() -> None:
    office = Office(racks={"gpu-07": "r1"})
    office.add(RACK, "r1")
    office.racks = {"gpu-09": "r1"}
    assert office.why(an_incident(node="gpu-07")) is not None
    assert office.why(an_incident(node="gpu-09")) is not None
    assert office.why(an_incident(node="gpu-10")) is None


def test_a_queue_is_what_is_about_it_and_what_names_no_node_is_in_no_rack() -> None:
    office = Office(racks={"gpu-07": "r1"})
    office.add(QUEUE, "research")
    office.add(RACK, "r1")
    about_queue = an_incident(node=None, queue="research", subject=Subject(cluster=CLUSTER, queue="research"))
    assert office.why(about_queue) is not None
    assert office.why(replace(about_queue, queue="", subject=Subject(cluster=CLUSTER, workload="x"))) is None


def test_a_window_that_begins_later_is_not_there_before() -> None:
    office = Office()
    office.add(starts_at=START + timedelta(minutes=30))
    assert office.why(an_incident()) is None
    office.clock.advance(1801)
    assert office.why(an_incident()) is not None


def test_a_window_is_extended_and_ended_by_its_id_with_who_in_the_audit() -> None:
    office = Office()
    office.add()
    office.windows.extend(1, until=START + 2 * HOUR, who="ben")
    office.clock.advance(5400)
    assert office.why(an_incident()) is not None
    office.windows.end(1, who="ben")
    assert office.why(an_incident()) is None
    assert [(line.who, line.what) for line in office.memory.lines] == [
        ("anna", "M1 maintenance of gpu-07 until 2026-11-02T10:00:00Z"),
        ("ben", "M1 now until 2026-11-02T11:00:00Z"),
        ("ben", "M1 of gpu-07 ended"),
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "gpu-7"}, "There is no node 'gpu-7' here"),
        ({"scope": RACK, "name": "r9"}, "There is no rack 'r9' here"),
        ({"until": START}, "is not after"),
        ({"until": START + timedelta(days=91)}, "within 90 days"),
        ({"starts_at": START + 2 * HOUR}, "is not after"),
        ({"wants_silence": True}, "set alertmanager.urls"),
    ],
)
def test_a_window_that_would_do_nothing_is_refused(changes: dict, said: str) -> None:
    with pytest.raises(DecisionRefused, match=said):
        Office().add(**changes)


def test_what_is_over_or_unknown_is_not_changed() -> None:
    office = Office()
    office.add()
    office.windows.end(1, who="ben")
    with pytest.raises(DecisionRefused, match="M1 of gpu-07 is over already"):
        office.windows.extend(1, until=START + HOUR, who="ben")
    with pytest.raises(DecisionRefused, match="There is no maintenance window M2"):
        office.windows.end(2, who="ben")


def test_windows_outlive_a_restart_and_their_ids_are_never_used_again(database: Database) -> None:
    history = History(database, cluster=CLUSTER)
    office = Office(memory=history)
    office.add()
    office.add(name="gpu-08")
    office.windows.end(2, who="ben")
    again = Office(memory=History(database, cluster=CLUSTER))
    assert again.why(an_incident()) is not None
    assert again.why(an_incident(node="gpu-08")) is None
    assert again.add(name="gpu-08").title == "M3"
    assert Office(memory=History(database, cluster="hall-b")).desk.windows == ()


def test_what_alertmanager_pages_is_not_pushed_under_a_window_and_is_when_it_ends() -> None:
    office = Office(urls=("http://127.0.0.1:9",), silences=False)
    office.add()
    office.desk.tick([an_incident(), an_incident(18, node="gpu-08")])
    office.desk.tick([an_incident(), an_incident(18, node="gpu-08")])
    assert [alert.incident for alert in office.desk.pusher.open_alerts] == [18]
    told = [(line.what, line.why) for line in office.memory.lines[1:]]
    assert told == [("I17 pages nobody", "Maintenance M1 of gpu-07 until 2026-11-02T10:00:00Z, by anna: new cooler.")]
    office.windows.end(1, who="ben")
    office.desk.tick([an_incident(), an_incident(18, node="gpu-08")])
    assert [alert.incident for alert in office.desk.pusher.open_alerts] == [18, 17]


def test_a_window_made_later_does_not_end_what_stands() -> None:
    office = Office(urls=("http://127.0.0.1:9",), silences=False)
    office.desk.tick([an_incident()])
    office.add()
    office.desk.tick([an_incident()])
    assert [alert.incident for alert in office.desk.pusher.open_alerts] == [17]


# --- one silence a window


def test_a_silence_never_rests_on_the_absence_of_something() -> None:
    office = Office(racks={"gpu-07": "r1", "gpu.08": "r1"})
    made = [office.add(), office.add(RACK, "r1"), office.add(RACK, "r2"), office.add(QUEUE, "a|b")]
    ours = Matcher(name="cluster", value=CLUSTER)
    assert [matchers_of(one, cluster=CLUSTER) for one in made] == [
        ((ours, Matcher(name="node", value="gpu-07")),),
        (
            (ours, Matcher(name="node", value=r"gpu\-07|gpu\.08", is_regex=True)),
            (ours, Matcher(name="rack", value="r1")),
        ),
        ((ours, Matcher(name="rack", value="r2")),),
        ((ours, Matcher(name="queue", value="a|b")),),
    ]


def test_a_rack_that_is_silent_as_a_whole_is_pushed_with_its_rack() -> None:
    whole = an_incident(node=None, rule="node_silent", incident="node_silent:rack:r1")
    assert identity_labels(whole)["rack"] == "r1"
    assert "rack" not in identity_labels(an_incident())


@pytest.fixture
def office(am):
    made = Office(clock=MovingClock(), urls=(am.url,), racks={"gpu-07": "r1", "gpu-08": "r1"})
    yield made


def tick(office: Office, *incidents) -> None:
    office.clock.hurry(16)
    office.desk.tick(incidents)


def states(am) -> list[str]:
    return sorted(one["status"]["state"] for one in am.silences())


def muted(am) -> set[str]:
    return {one["labels"]["name"] for one in am.alerts() if one["status"]["state"] == "suppressed"}


def test_a_racks_window_mutes_its_nodes_and_itself_in_this_cluster_alone(am, office) -> None:
    told = {
        "node": {"cluster": CLUSTER, "node": "gpu-07"},
        "rack": {"cluster": CLUSTER, "rack": "r1"},
        "other rack": {"cluster": CLUSTER, "rack": "r2"},
        "cluster": {"cluster": CLUSTER},
        "other cluster's rack": {"cluster": "hall-b", "rack": "r1"},
        "other cluster's node": {"cluster": "hall-b", "node": "gpu-07"},
    }
    am.post([{"labels": {"alertname": "A", "incident": name, "name": name, **labels}} for name, labels in told.items()])
    office.add(RACK, "r1", wants_silence=True)
    tick(office)
    eventually(lambda: muted(am) == {"node", "rack"})
    office.windows.end(1, who="ben")
    tick(office)
    eventually(lambda: muted(am) == set())


def test_a_racks_silences_are_made_once_extended_by_their_ids_and_ended_with_it(am, office) -> None:
    office.add(RACK, "r1", wants_silence=True)
    office.add(NODE, "gpu-07")
    for _ in range(3):
        tick(office)
    first, second = am.silences()
    kept = office.memory.windows[1]
    assert set(kept.silence_id.split()) == {first["id"], second["id"]}
    assert first["createdBy"] == "anna"
    assert first["comment"] == second["comment"] == "new cooler (trimtab:3fa9c1d2:M1)"
    office.windows.extend(1, until=office.clock.now() + 2 * HOUR, who="ben")
    tick(office)
    longer = {one["id"]: one["endsAt"] for one in am.silences()}
    assert longer.keys() == {first["id"], second["id"]}
    assert all(ends > first["endsAt"] for ends in longer.values())
    office.windows.end(1, who="ben")
    tick(office)
    assert states(am) == ["expired", "expired"]
    assert office.memory.windows[1].silence_id == ""
    tick(office)
    assert states(am) == ["expired", "expired"]


def test_a_window_does_not_take_another_ones_silence_for_its_own(am, office) -> None:
    """M1's name is the beginning of M10's."""
    for _ in range(9):
        office.add()
    office.add(wants_silence=True)
    tick(office)
    office.memory.windows[1] = replace(office.memory.windows[1], wants_silence=True)
    tick(office)
    assert states(am) == ["active", "active"]


def test_a_daemon_killed_between_making_a_silence_and_writing_it_down_makes_no_second(am, office) -> None:
    office.add(wants_silence=True)
    office.memory.next_error = StoreError("trimtab.db: disk full.")
    office.clock.hurry(16)
    with pytest.raises(StoreError):
        office.desk.tick([])
    assert states(am) == ["active"]
    assert office.memory.windows[1].silence_id == ""
    tick(office)
    tick(office)
    assert states(am) == ["active"]
    assert office.memory.windows[1].silence_id == am.silences()[0]["id"]


def test_a_silence_that_somebody_lifted_by_hand_is_not_made_again(am, office) -> None:
    office.add(wants_silence=True)
    tick(office)
    am.unsilence(office.memory.windows[1].silence_id)
    tick(office)
    tick(office)
    assert states(am) == ["expired"]
    office.windows.end(1, who="ben")
    tick(office)
    assert office.memory.windows[1].silence_id == ""


def test_an_alertmanager_that_is_down_gets_the_silence_when_it_is_back(am, office) -> None:
    am.stop()
    office.add(wants_silence=True)
    tick(office)
    assert "does not answer" in office.desk.trouble
    am.start()
    tick(office)
    eventually(lambda: states(am) == ["active"])
    assert office.desk.trouble == ""


def test_a_window_over_by_time_leaves_nothing_behind(am, office) -> None:
    office.add(wants_silence=True, until=datetime.now(UTC) + timedelta(seconds=4))
    tick(office)
    eventually(lambda: states(am) == ["expired"])
    tick(office)
    assert office.memory.windows[1].silence_id == ""
    assert office.desk.hush.standing(office.clock.now(), wall=office.clock.now()) == ()
