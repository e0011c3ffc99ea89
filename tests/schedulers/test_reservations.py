"""Room that is kept: believed on nodes, and in a tenant's namespace only where the ledger confirms it."""

from __future__ import annotations

from trimtab.model.command import Seat
from trimtab.schedulers.held_read import Signed, reservations_of
from trimtab.schedulers.marks import Hold

MARK = "trimtab:3fa9c1:R11"


def seats(*nodes: str) -> tuple[Seat, ...]:
    return tuple(Seat(pod=f"p-{node}", node=node, gpus=8) for node in nodes)


def kept(signed: Signed, reserves=None) -> list[str]:
    return [one.node for one in reservations_of([signed], reserves)]


def ours(mark: str) -> frozenset[str]:
    return frozenset({"n1"}) if mark == MARK else frozenset()


def test_a_made_up_mark_on_a_tenants_object_keeps_nothing():
    made_up = Signed(name="job a/x", holds=(Hold(mark="trimtab:ffff:R1", workload="x", seats=seats("n1", "n2")),))
    assert kept(made_up, ours) == []


def test_a_command_at_work_keeps_what_it_planned_and_no_more():
    stretched = Signed(name="workload a/x", holds=(Hold(mark=MARK, workload="x", seats=seats("n1", "n2")),))
    assert kept(stretched, ours) == ["n1"]


def test_what_stands_on_a_node_is_believed_whosever_it_is():
    foreign = Hold(mark="trimtab:ffff:R1", workload="x", seats=seats("n2"))
    assert kept(Signed(name="node n2", holds=(foreign,), node="n2", is_node=True), ours) == ["n2"]
