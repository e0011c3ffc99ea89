"""Events: each change of a command is told on its node and workload, once, bounded, and never in anybody's way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube
from tests.schedulers.hands import a_command
from tests.schedulers.views import view_of

from trimtab.errors import SchedulerUnavailable
from trimtab.model.command import Command, CommandState, Move, MoveKind, Seat, Verb, Write
from trimtab.schedulers.events import KEPT_MAX, PER_MINUTE_MAX, SERIES_SECONDS, Events

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-07"}, "spec": {}, "status": {}}
LABELS = {"batch.kubernetes.io/job-name": "train"}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube()
    made.add(NODE)
    job = made.add(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team"}, "spec": {}}
    )
    owner = {
        "kind": "Job",
        "name": "train",
        "uid": job["metadata"]["uid"],
        "apiVersion": "batch/v1",
        "controller": True,
    }
    metadata = {"name": "train-0", "namespace": "team", "labels": LABELS, "ownerReferences": [owner]}
    made.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Running"}})
    return made


@pytest.fixture
def events(kube: FakeKube, clock: FakeClock) -> Events:
    return Events(kube, lambda: view_of(kube), clock, prefix="trimtab", instance="head-1")


def a_drain(state: CommandState = CommandState.HELD, **changes: Any) -> Command:
    seat = Seat(pod="train-0", node="gpu-07", gpus=8)
    move = Move(kind=MoveKind.DRAIN, workload="team/job/train", controller="kubernetes", before=(seat,), after=(seat,))
    command = a_command(writes=[Write(verb=Verb.CORDON, node="gpu-07", lasts=True)], moves=[move], state=state)
    return replace(command, **changes)


def told(kube: FakeKube) -> list[dict[str, Any]]:
    return kube.all("events.events.k8s.io")


def test_a_change_is_told_on_the_node_and_on_the_job(kube: FakeKube, events: Events) -> None:
    events.tell(a_drain(reason="keeping its room"), CommandState.APPROVED)
    about = {one["regarding"]["kind"]: one for one in told(kube)}
    assert set(about) == {"Node", "Job"}
    node, job = about["Node"], about["Job"]
    assert node["metadata"]["namespace"] == "default"
    assert job["metadata"]["namespace"] == job["regarding"]["namespace"] == "team"
    assert job["regarding"]["apiVersion"] == "batch/v1"
    assert job["regarding"]["uid"] == kube.see("/apis/batch/v1/namespaces/team/jobs/train")["metadata"]["uid"]  # type: ignore[index]
    assert (node["type"], node["reason"], node["action"]) == ("Normal", "CommandHeld", "Drain")
    assert node["note"] == "R11 held: Take the node out of service (XID 79). keeping its room"
    assert (node["reportingController"], node["reportingInstance"]) == ("trimtab", "head-1")
    assert node["eventTime"] == "2026-11-02T09:00:00.000000Z"
    assert node["metadata"]["annotations"] == {"trimtab/by": "trimtab:3fa9c1:R11"}


def test_the_same_state_is_not_told_again(kube: FakeKube, events: Events) -> None:
    events.tell(a_drain(), CommandState.HELD)
    assert told(kube) == []


def test_the_same_words_are_one_event_with_a_count_for_ten_minutes(
    kube: FakeKube, events: Events, clock: FakeClock
) -> None:
    for _ in range(3):
        events.tell(a_drain(), CommandState.APPROVED)
        clock.advance(60)
    assert sorted(one["regarding"]["kind"] for one in told(kube)) == ["Job", "Node"]
    assert {one["series"]["count"] for one in told(kube)} == {3}
    clock.advance(SERIES_SECONDS)
    events.tell(a_drain(), CommandState.APPROVED)
    assert len(told(kube)) == 4


@pytest.mark.parametrize("state", [CommandState.REFUSED, CommandState.MISSED, CommandState.ABANDONED])
def test_what_did_not_come_true_is_a_warning(kube: FakeKube, events: Events, state: CommandState) -> None:
    events.tell(a_drain(state), CommandState.SUBMITTED)
    assert {one["type"] for one in told(kube)} == {"Warning"}


def test_a_dry_run_says_so(kube: FakeKube, events: Events) -> None:
    events.tell(a_drain(is_dry=True), CommandState.APPROVED)
    assert all("dry run, nothing is written" in one["note"] for one in told(kube))


def test_a_note_keeps_the_servers_limit_in_bytes(kube: FakeKube, events: Events) -> None:
    events.tell(a_drain(reason="é" * 2000), CommandState.APPROVED)
    sizes = {len(one["note"].encode()) for one in told(kube)}
    assert max(sizes) <= 1024
    assert all(one["note"].endswith("…") for one in told(kube))


def test_a_cluster_that_refuses_events_costs_nothing_but_a_count(kube: FakeKube, events: Events) -> None:
    kube.fail(SchedulerUnavailable("no answer"), at="events", times=2)
    events.tell(a_drain(), CommandState.APPROVED)
    assert events.counts() == {"told": 0, "repeated": 0, "failed": 2, "left_out": 0}


def test_a_storm_is_told_in_part_and_the_rest_is_counted(kube: FakeKube, events: Events, clock: FakeClock) -> None:
    for number in range(PER_MINUTE_MAX):
        events.tell(a_drain(reason=f"try {number}"), CommandState.APPROVED)
    assert events.counts()["told"] == PER_MINUTE_MAX
    assert events.counts()["left_out"] == PER_MINUTE_MAX
    clock.advance(60)
    events.tell(a_drain(reason="later"), CommandState.APPROVED)
    assert events.counts()["told"] == PER_MINUTE_MAX + 2


def test_what_it_remembers_is_bounded(events: Events, clock: FakeClock) -> None:
    for number in range(KEPT_MAX):
        events.tell(a_drain(reason=f"try {number}"), CommandState.APPROVED)
        clock.advance(2)
    assert len(events._told) == KEPT_MAX
