"""What others say is shown beside findings and moves nothing: detectors, plans and writes are the same without it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import (
    CLUSTER,
    a_finding,
    a_reading,
    a_snapshot,
    a_window,
    a_workload,
    an_xid,
    gpu_uuid,
)
from tests.fakes.clock import START
from tests.test_central import Bench

from trimtab.context import Context
from trimtab.detect.detector import catalogue
from trimtab.detect.others import SAID_MAX, with_alerts
from trimtab.model.advice import Action, FindingState
from trimtab.model.alerts import AlertPlace, AlertState, ForeignAlert
from trimtab.model.window import NodeEvent
from trimtab.settings import DetectSettings

NODES = ("gpu-00", "gpu-01")


def an_alert(number: int = 1, **place: str) -> ForeignAlert:
    return ForeignAlert(
        fingerprint=f"{number:016x}",
        starts_at=START + timedelta(seconds=number),
        state=AlertState.FIRING,
        name="GpuOffBus",
        labels={"alertname": "GpuOffBus", "severity": "page"},
        annotations={"summary": "GPU off the bus, replace it"},
        place=AlertPlace(**place),
        heard_at=START,
    )


def said(found) -> list[str]:
    return [fact.text for fact in found.finding.evidence if fact.source == "alert"]


GANG = a_workload("llama-70b", on={"gpu-00": range(8), "gpu-01": range(8)})
WINDOW = a_window({node: [a_reading(node, index) for index in range(8)] for node in NODES},
                  snapshot=a_snapshot([], [GANG]))  # fmt: skip


@pytest.mark.parametrize(
    ("place", "is_about"),
    [
        ({"node": "gpu-00"}, True),
        ({"node": "gpu-01"}, False),
        ({"node": "gpu-00", "gpu": "3"}, True),
        ({"node": "gpu-00", "gpu": "4"}, False),
        ({"gpu": gpu_uuid("gpu-00", 3)}, True),
        ({"node": "another-name", "gpu": gpu_uuid("gpu-00", 3)}, True),
        ({"gpu": gpu_uuid("gpu-00", 4)}, False),
        ({"pod": GANG.placements[0].pod}, True),
        ({"workload": GANG.id}, True),
        ({"workload": GANG.name}, True),
        ({"workload": "another"}, False),
        ({}, False),
    ],
)
def test_an_alert_is_shown_beside_what_is_about_the_same(place: dict, is_about: bool) -> None:
    finding = a_finding(node="gpu-00", gpu=3, workloads_hit=(GANG.id,))
    (shown,) = with_alerts([finding], replace(WINDOW, alerts=(an_alert(**place),)))
    assert said(shown) == (["others say: GpuOffBus: GPU off the bus, replace it"] if is_about else [])


def test_a_finding_about_a_node_has_what_is_said_of_its_gpus() -> None:
    finding = a_finding(node="gpu-00", gpu=None)
    alerts = (an_alert(1, node="gpu-00", gpu="3"), an_alert(2, gpu=gpu_uuid("gpu-01", 3)))
    (shown,) = with_alerts([finding], replace(WINDOW, alerts=alerts))
    assert len(said(shown)) == 1


def test_many_are_counted_and_what_is_closed_stays_as_it_was() -> None:
    alerts = tuple(an_alert(number, node="gpu-00") for number in range(12))
    closed = replace(a_finding(id=2, node="gpu-00"), state=FindingState.CLOSED)
    shown, untouched = with_alerts([a_finding(node="gpu-00"), closed], replace(WINDOW, alerts=alerts))
    assert len(said(shown)) == SAID_MAX + 1
    assert said(shown)[-1] == "and 7 more alerts about the same"
    assert untouched == closed


def test_nothing_but_evidence_changes() -> None:
    finding = a_finding(node="gpu-00", gpu=3)
    (shown,) = with_alerts([finding], replace(WINDOW, alerts=(an_alert(node="gpu-00"),)))
    plain = replace(shown, finding=replace(shown.finding, evidence=finding.finding.evidence))
    assert plain == finding
    assert shown.finding.evidence[: len(finding.finding.evidence)] == finding.finding.evidence


PLACES = st.fixed_dictionaries(
    {},
    optional={
        "node": st.sampled_from((*NODES, "gpu-99")),
        "gpu": st.sampled_from(("0", "3", gpu_uuid("gpu-00", 3), gpu_uuid("gpu-01", 0))),
        "pod": st.sampled_from((GANG.placements[0].pod, "x/y")),
        "workload": st.sampled_from((GANG.id, GANG.name, "z")),
    },
)
CODES = st.sampled_from((13, 31, 43, 48, 63, 74, 79, 94, 119, 154))


@given(
    places=st.lists(PLACES, min_size=1, max_size=20),
    faults=st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 7), CODES), max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_no_alert_changes_what_is_found_or_planned(places: list[dict], faults: list[tuple]) -> None:
    events = [
        NodeEvent(cluster=CLUSTER, node=node, event=an_xid(code, gpu=gpu_uuid(node, index)))
        for node, index, code in faults
    ]
    quiet = replace(WINDOW, events=events)
    loud = replace(quiet, alerts=tuple(an_alert(number, **place) for number, place in enumerate(places)))
    found = [[tuple(one.detect(window)) for one in catalogue(DetectSettings())] for window in (quiet, loud)]
    assert found[0] == found[1]
    open_findings = tuple(
        a_finding(id=number + 1, node=node, gpu=index, is_corroborated=number % 2 == 0, action=Action.CORDON_REBOOT)
        for number, (node, index, _) in enumerate(faults)
    )
    shown = with_alerts(open_findings, loud)
    assert [one.finding.is_corroborated for one in shown] == [one.finding.is_corroborated for one in open_findings]


def test_a_book_of_an_alert_makes_no_book_of_the_board(tmp_path: Path) -> None:
    bench = LoudBench(tmp_path)
    book = {f"label{number}": "x" * 1000 for number in range(64)}
    alerts = [replace(an_alert(number, node="gpu-00"), labels=book, annotations=book) for number in range(300)]
    bench.history.hear_alerts(alerts, most=1000)
    context = Context(settings=bench.settings, history=bench.history, clock=bench.clock)
    shown = context.shown()
    assert len(shown) == 200
    assert max(alert.size for alert in shown) < 4000
    assert len(context.alerts()) == 300
    bench.database.close()


# --- the daemon's beats


class LoudBench(Bench):
    """A daemon whose webhook has brought forty alerts that all want its nodes out of service."""

    def start(self, *, is_loud: bool):
        made = super().start()
        if is_loud:
            places = [{"node": node.name} for node in self.scheduler.snapshot().nodes]
            alerts = [an_alert(number, **places[number % len(places)]) for number in range(40)]
            self.history.hear_alerts(alerts, most=1000)
            made._parts.context = Context(settings=self.settings, history=self.history, clock=self.clock)
        return made


def a_run(directory: Path, *, is_loud: bool, is_corroborated: bool):
    directory.mkdir()
    bench = LoudBench(directory)
    bench.sees.findings = (replace(bench.finding.finding, is_corroborated=is_corroborated),)
    central = bench.start(is_loud=is_loud)
    told = []
    for _ in range(12):
        bench.clock.advance(5)
        bench.scheduler.tick()
        central.judge()
        told.append(central.rebalance())
    board = central._parts.box.latest().board
    outcome = (
        told,
        bench.scheduler.calls,
        bench.history.commands(live_only=False),
        central.tracker.open_findings,
        bench.history.open_findings(),
        board.refusals,
    )
    bench.database.close()
    return outcome, board


@pytest.mark.parametrize("is_corroborated", [True, False])
def test_forty_alerts_neither_begin_nor_hold_up_an_evacuation(tmp_path: Path, is_corroborated: bool) -> None:
    quiet, plain = a_run(tmp_path / "quiet", is_loud=False, is_corroborated=is_corroborated)
    loud, shown = a_run(tmp_path / "loud", is_loud=True, is_corroborated=is_corroborated)
    assert _without_ledger(loud) == _without_ledger(quiet)
    assert bool(loud[1]) is is_corroborated  # something was written where there was ground, and nothing where not
    assert (plain.alerts, len(shown.alerts)) == ((), 40)
    assert said(shown.findings[0])
    assert not said(plain.findings[0])


def _without_ledger(outcome: tuple) -> str:
    import re

    return re.sub(r"trimtab:[0-9a-f]+:|ledger='[0-9a-f]+'", "", repr(outcome))


def test_a_silence_and_a_window_stop_no_evacuation(tmp_path: Path) -> None:
    quiet, _ = a_run(tmp_path / "plain", is_loud=False, is_corroborated=True)
    directory = tmp_path / "hushed"
    directory.mkdir()
    bench = LoudBench(directory)
    bench.sees.findings = (bench.finding.finding,)
    central = bench.start(is_loud=False)
    context = Context(settings=bench.settings, history=bench.history, clock=bench.clock)
    central._parts.context = context
    windows = context.alerting(central._parts.box).windows
    from trimtab.model.alerts import MaintenanceScope

    until = bench.clock.now() + timedelta(hours=2)
    node = bench.finding.finding.subject.node
    windows.add(MaintenanceScope.NODE, node, until=until, why="new cooler", who="anna")
    for _ in range(12):
        bench.clock.advance(5)
        bench.scheduler.tick()
        central.judge()
        central.rebalance()
        context.tick()
    assert _without_ledger(bench.scheduler.calls) == _without_ledger(quiet[1])
    board = central._parts.box.latest().board
    assert [(one.kind, one.name, one.who) for one in board.quiet] == [("maintenance", "M1", "anna")]
    bench.database.close()
