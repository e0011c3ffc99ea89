"""The proof stands behind the search: advice whose seats do not all exist at once is never given."""

from __future__ import annotations

from dataclasses import replace

from tests.builders import a_node, a_snapshot, a_workload

from trimtab.model.command import Budget, Seat
from trimtab.plan.draft import why_not_at_once
from trimtab.plan.planner import Planner
from trimtab.plan.room import room_of
from trimtab.settings import PlanSettings

JOBS = [a_workload("a", on={"gpu-03": [0]}), a_workload("b", on={"gpu-04": range(6)}), a_workload("eval-9")]
SNAPSHOT = a_snapshot([a_node("gpu-03"), a_node("gpu-04")], JOBS)
ROOM = room_of(SNAPSHOT, closed=(), spares_kept=0)
(FOUND,) = Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(SNAPSHOT, (), Budget()).recommendations


def with_seat(workload, *seats):
    moves = tuple(replace(move, after=seats) if move.workload == workload else move for move in FOUND.moves)
    return replace(FOUND, moves=moves)


def test_what_fits_at_once_is_proven():
    assert why_not_at_once(FOUND, ROOM) is None


def test_a_seat_that_counts_on_room_given_to_another_is_found():
    clash = with_seat("research/a", Seat(pod="a-0", node="gpu-03", gpus=1))
    assert why_not_at_once(clash, ROOM) == "Not moved: gpu-03 would need 8 free GPUs and has 7."


def test_a_seat_on_a_node_that_takes_no_work_is_found():
    lost = with_seat("research/a", Seat(pod="a-0", node="gpu-09", gpus=1))
    assert why_not_at_once(lost, ROOM) == "Not moved: gpu-09 would need 1 free GPUs and has 0."


def test_a_victim_without_a_seat_is_found():
    assert why_not_at_once(with_seat("research/a"), ROOM) == ("Not moved: research/a would have 0 seats for 1 pods.")
