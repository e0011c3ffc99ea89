"""Whatever detectors say in whatever order: one open finding an incident, no id twice, a restart changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import CLUSTER, a_window
from tests.detect.views import at, readings, stale, with_node

from trimtab.detect.incident import digest, members_of, members_text
from trimtab.detect.tracker import Changes, Tracker
from trimtab.model.advice import Action, Finding, OpenFinding, Severity, Subject
from trimtab.model.window import Window

NODES = ("gpu-00", "gpu-01")
RULES = ("hotspot", "straggler", "node_silent", "clock_skew", "device_fault")


@dataclass(frozen=True)
class Beat:
    after_seconds: float
    findings: tuple[Finding, ...]
    silent: bool
    boot: str


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    rule = draw(st.sampled_from(RULES))
    node = draw(st.sampled_from(NODES))
    members = draw(st.sets(st.sampled_from("abcdef"), max_size=3))
    kind = draw(st.sampled_from(["device", "app", "watch"])) if rule == "device_fault" else ""
    facts = {"kind": kind, "needs": draw(st.sampled_from(["", "reset", "reboot"])), "rests_on": "events",
             "boot_id": "boot-a"} if kind else {}  # fmt: skip
    if members:
        facts["members"] = members_text(f"{node}/{member}" for member in members)
    return Finding(
        rule=rule,
        incident=f"{rule}:{node}:{draw(st.integers(0, 1))}",
        subject=Subject(cluster=CLUSTER, node=node),
        action=draw(st.sampled_from([Action.WATCH, Action.RESET_AFTER_DRAIN, Action.CORDON_REBOOT])),
        severity=draw(st.sampled_from(list(Severity))),
        sentence=draw(st.sampled_from(["one", "two", "three"])),
        facts=facts,
    )


beats = st.builds(
    Beat,
    after_seconds=st.sampled_from([0.0, 5.0, 30.0, 61.0, 700.0, 4000.0]),
    findings=st.lists(findings(), max_size=4).map(tuple),
    silent=st.booleans(),
    boot=st.sampled_from(["boot-a", "boot-b"]),
)


def window_of(beat: Beat, seconds: float) -> Window:
    window = a_window({node: readings(node, gpus=1) for node in NODES}, at=at(seconds))
    window = with_node(window, "gpu-00", boot_id=beat.boot)
    return stale(window, "gpu-00", seconds=300) if beat.silent else window


def run(tracker: Tracker, story: list[Beat], start: float = 0.0) -> list[Changes]:
    told, seconds = [], start
    for beat in story:
        seconds += beat.after_seconds
        changes = tracker.update(window_of(beat, seconds), beat.findings)
        tracker.commit(changes)
        told.append(changes)
    return told


@given(st.lists(beats, max_size=12))
def test_an_incident_has_one_open_finding_at_most(story: list[Beat]):
    tracker = Tracker()
    for beat in story:
        run(tracker, [beat])
        incidents = [each.finding.incident for each in tracker.open_findings]
        assert len(incidents) == len(set(incidents))


@given(st.lists(beats, max_size=12))
def test_no_id_is_given_to_two_incidents(story: list[Beat]):
    incident_of: dict[int, str] = {}
    for changes in run(Tracker(), story):
        for each in (*changes.opened, *changes.after, *changes.closed):
            assert incident_of.setdefault(each.id, each.finding.incident) == each.finding.incident
        ids = [each.id for each in changes.after]
        assert len(ids) == len(set(ids))


@given(st.lists(beats, max_size=12))
def test_what_is_raised_now_stands_after_the_beat(story: list[Beat]):
    for beat, changes in zip(story, run(Tracker(), story), strict=True):
        standing = {each.finding.incident for each in changes.after}
        members = set().union(*(members_of(each.finding) for each in changes.after), set())
        for finding in beat.findings:
            known = {*members_of(finding), digest(finding.incident)} & members
            assert finding.incident in standing or known or changes.pending


@given(st.lists(beats, max_size=12))
def test_every_change_adds_up(story: list[Beat]):
    standing: set[int] = set()
    for changes in run(Tracker(), story):
        opened, closed = {each.id for each in changes.opened}, {each.id for each in changes.closed}
        assert not opened & standing
        assert closed <= standing
        standing = (standing | opened) - closed
        assert standing == {each.id for each in changes.after}
        assert {each.id for each in changes.changed} <= standing


def kept(rows: dict[int, OpenFinding], told: list[Changes]) -> dict[int, OpenFinding]:
    """What a database holds that keeps each change."""
    for changes in told:
        for each in (*changes.opened, *changes.changed, *changes.touched, *changes.closed):
            rows[each.id] = each
    return rows


def shape(changes: Changes) -> tuple[object, ...]:
    def of(found: tuple[OpenFinding, ...]) -> list[tuple[object, ...]]:
        return [(each.id, each.finding.incident, each.finding.action, each.close_reason) for each in found]

    return of(changes.opened), of(changes.closed), of(changes.after)


@given(st.lists(beats, max_size=8), st.lists(beats, max_size=8))
def test_a_restart_changes_nothing(before: list[Beat], after: list[Beat]):
    going = Tracker()
    rows = kept({}, told := run(going, before))
    resumed = Tracker(rows.values(), next_id=max(rows, default=0) + 1)
    resumed.commit(_with_pending(resumed, told))
    start = sum(beat.after_seconds for beat in before)
    assert [shape(each) for each in run(going, after, start)] == [shape(each) for each in run(resumed, after, start)]


def _with_pending(tracker: Tracker, told: list[Changes]) -> Changes:
    """What only waits to be opened is not kept: give it back, so that the rest can be compared."""
    changes = tracker.snooze(-1, None, at=at(0))
    if not told:
        return changes
    return Changes(
        at=changes.at,
        after=changes.after,
        recently_closed=changes.recently_closed,
        pending=told[-1].pending,
        next_id=changes.next_id,
    )
