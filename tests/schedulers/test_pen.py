"""The pen: nothing is sent that is not allowed, tried dry and in the audit; what was refused is in the audit too."""

from __future__ import annotations

import pytest
from tests.fakes.clock import FakeClock
from tests.fakes.kube import Call, FakeKube
from tests.schedulers.hands import Desk, a_command

from trimtab.errors import SchedulerBusy, SchedulerRefused, SchedulerUnavailable
from trimtab.model.command import AuditLine
from trimtab.schedulers.kubernetes import PatchKind
from trimtab.schedulers.pen import SAID_AGAIN_SECONDS, Pen

NODE = "/api/v1/nodes/gpu-07"
BODY = {"metadata": {"annotations": {"trimtab/x": "1"}}}


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube()
    made.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-07"}, "spec": {}})
    return made


def test_a_write_is_tried_dry_then_noted_then_sent(kube: FakeKube) -> None:
    order: list[str] = []
    clock = FakeClock()

    def audit(line: AuditLine) -> None:
        order.append(f"audit {line.what}: {line.why} by {line.who} at {line.at == clock.now()} for {line.command_id}")

    kube.refuses = lambda call: order.append(f"{'dry' if call.is_dry else 'real'} {call.params['fieldManager']}")  # type: ignore[func-returns-value]
    Pen(api=kube, clock=clock, audit=audit).patch(a_command(), NODE, BODY, PatchKind.MERGE, what="mark gpu-07")
    assert order == ["dry trimtab", "audit mark gpu-07: XID 79 by trimtab at True for 11", "real trimtab"]


def test_what_the_dry_run_refuses_is_not_sent_and_its_answer_is_in_the_audit(kube: FakeKube) -> None:
    desk = Desk(kube)
    kube.refuses = lambda call: (403, 'nodes "gpu-07" is forbidden: cannot patch resource') if call.is_dry else None
    with pytest.raises(SchedulerRefused, match="cannot patch resource"):
        desk.pen.patch(a_command(), NODE, BODY, PatchKind.MERGE, what="mark gpu-07")
    assert kube.writes == []
    assert desk.said == ["not written, refused in the dry run: mark gpu-07"]
    assert "cannot patch resource" in desk.lines[0].why
    assert desk.pen.tally.counts() == {("mark", "refused"): 1}


def test_a_no_of_every_beat_is_in_the_audit_once_in_ten_minutes(kube: FakeKube) -> None:
    clock = FakeClock()
    desk = Desk(kube, clock=clock)
    kube.refuses = lambda _: (429, "Cannot evict pod as it would violate the pod's disruption budget.")
    for _ in range(4):
        with pytest.raises(SchedulerBusy):
            desk.pen.patch(a_command(), NODE, BODY, PatchKind.MERGE, what="evict pod a/b")
        clock.advance(SAID_AGAIN_SECONDS / 2)
    assert len(desk.lines) == 2
    assert desk.pen.tally.counts() == {("evict", "busy"): 4}


def test_a_write_that_failed_after_it_was_noted_says_so(kube: FakeKube) -> None:
    desk = Desk(kube)
    kube.fail(SchedulerUnavailable("no answer for 10 s"), at="PATCH")
    with pytest.raises(SchedulerUnavailable):
        desk.pen.patch(a_command(), NODE, BODY, PatchKind.MERGE, what="mark gpu-07")
    assert desk.said == ["mark gpu-07", "failed: mark gpu-07"]
    assert desk.pen.tally.counts() == {("mark", "unavailable"): 1}


def test_without_the_lease_nothing_is_even_tried(kube: FakeKube) -> None:
    desk = Desk(kube, why_not="another daemon leads")
    with pytest.raises(SchedulerUnavailable, match="another daemon leads"):
        desk.pen.delete(a_command(), NODE, None, what="delete node")
    assert kube.calls == []


def test_a_delete_is_tried_dry_and_keeps_its_preconditions(kube: FakeKube) -> None:
    desk = Desk(kube)
    uid = kube.see(NODE)["metadata"]["uid"]  # type: ignore[index]
    desk.pen.delete(a_command(), NODE, {"preconditions": {"uid": uid}}, what="delete gpu-07")
    bodies = [call.body for call in kube.calls if call.verb == "DELETE"]
    assert bodies == [{"preconditions": {"uid": uid}, "dryRun": ["All"]}, {"preconditions": {"uid": uid}}]
    assert kube.see(NODE) is None


def test_a_person_chosen_prefix_is_the_field_manager(kube: FakeKube) -> None:
    seen: list[Call] = []
    kube.refuses = seen.append  # type: ignore[func-returns-value]
    pen = Pen(api=kube, clock=FakeClock(), audit=lambda _: None, prefix="hall-b.example.com")
    pen.patch(a_command(), NODE, BODY, PatchKind.MERGE, what="mark gpu-07")
    assert {call.params["fieldManager"] for call in seen} == {"hall-b.example.com"}
