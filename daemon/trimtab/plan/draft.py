"""One plan in the making: the snapshot, what may still be spent, and the recommendations and refusals so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from trimtab.model.advice import Action, OpenFinding, Subject
from trimtab.model.cluster import ClusterSnapshot, Placement, Workload
from trimtab.model.command import Budget, Move, MoveKind, Plan, Recommendation, Refusal, Seat, Verb, Write
from trimtab.plan.budget import Purse, cordons_of
from trimtab.plan.displace import Displacement, displacement
from trimtab.plan.room import Room, gpus_by_node, room_of
from trimtab.plan.rules import Rule, command_at_work, first_refusal
from trimtab.settings import PlanSettings

if TYPE_CHECKING:
    from trimtab.plan.restore import TakenOut

NODE_IN_DOUBT_RULES = ("node_silent", "hotspot", "straggler")
"""Findings that keep new work off their node whatever their action; others do so by their action, sure or not."""


class Draft:
    """What the parts of the planner share while one plan is made."""

    def __init__(
        self,
        *,
        snapshot: ClusterSnapshot,
        findings: Sequence[OpenFinding],
        settings: PlanSettings,
        budget: Budget,
        rules: tuple[Rule, ...],
        standing: Sequence[Recommendation] = (),
        taken_out: Sequence[TakenOut] = (),
        quiet: Collection[str] = (),
    ) -> None:
        """Start with all room and the whole budget."""
        self._quiet = frozenset(quiet)
        self.taken_out = tuple(one for one in taken_out if one.node in snapshot.node_by_name)
        self.snapshot = snapshot
        self.findings = tuple(sorted(findings, key=lambda one: one.id))
        self.settings = settings
        self.now: datetime = snapshot.taken_at
        self.out = nodes_out(self.findings)
        self.room: Room = room_of(
            snapshot, closed=self.out | nodes_in_doubt(self.findings), spares_kept=budget.spares_kept
        )
        self.standing: Mapping[str, Recommendation] = {one.purpose: one for one in standing}
        self.claimed: set[str] = set()
        """Workloads that a recommendation of this plan moves or makes room for."""
        self._rules = rules
        self._purse = Purse(budget)
        self._recommendations: list[Recommendation] = []
        self._refusals: list[Refusal] = []
        self._may_make_room: dict[str, bool] = {}
        self._displacements: dict[tuple[int, int], Displacement | None] = {}

    @property
    def moves_left(self) -> int | None:
        """Moves that may still be proposed; None = no limit."""
        return self._purse.moves_left

    @cached_property
    def running_by_node(self) -> Mapping[str, tuple[Workload, ...]]:
        """Node -> what runs there, by id; made once a plan."""
        found: dict[str, list[Workload]] = {}
        for workload in sorted(self.snapshot.workloads, key=lambda one: one.id):
            if workload.is_running:
                for node in workload.nodes:
                    found.setdefault(node, []).append(workload)
        return {node: tuple(residents) for node, residents in found.items()}

    def may_make_room(self, workload: Workload) -> bool:
        """Whether no rule protects a workload from being moved for another, and nobody has it in hand."""
        if workload.id not in self._may_make_room:
            move = move_of(workload, MoveKind.CONSOLIDATE, None, ())
            self._may_make_room[workload.id] = self.refusal(move) is None
        return self._may_make_room[workload.id] and not self.is_in_hand(workload)

    def displacement(self, waiting: Workload) -> Displacement | None:
        """What force would take for one pod of this size and priority; made once a plan for each."""
        key = (waiting.priority, waiting.gpus_per_pod)
        if key not in self._displacements:
            self._displacements[key] = displacement(self.snapshot, waiting)
        return self._displacements[key]

    def is_in_hand(self, workload: Workload) -> bool:
        """Whether a command or this plan moves it already."""
        return workload.id in self.claimed or command_at_work(workload, self.snapshot) is not None

    def refusal(self, move: Move) -> Refusal | None:
        """The first rule that says no to a move."""
        return first_refusal(move, self.snapshot, self._rules)

    def refuse(self, refusal: Refusal) -> None:
        """Keep a no, once."""
        if refusal not in self._refusals:
            self._refusals.append(refusal)

    def refuse_because(
        self,
        rule: str,
        sentence: str,
        *,
        purpose: str | None = None,
        node: str | None = None,
        workload: str | None = None,
    ) -> None:
        """Keep a no of the planner itself."""
        subject = Subject(cluster=self.snapshot.cluster, node=node, workload=workload)
        self.refuse(Refusal(rule=rule, sentence=sentence, subject=subject, purpose=purpose))

    def accept(self, recommendation: Recommendation) -> bool:
        """Take its seats and its share of the budget, or keep the refusal that stands against it."""
        moves, cordons = recommendation.moves, cordons_of(recommendation.writes)
        refusal = self._purse.refusal(moves, cordons, self.snapshot, recommendation.purpose) or self._unproven(
            recommendation
        )
        if refusal is not None:
            self.refuse(refusal)
            return False
        if recommendation.purpose not in self._quiet:  # what nobody will begin soon keeps no seat from others
            self._purse.spend(moves, cordons, self.snapshot)
            for node, gpus in net_need(moves).items():
                self.room.take(node, gpus)
        for node in cordons:
            self.room.close(node)
        self.claimed.update(move.workload for move in moves if move.workload)
        self._recommendations.append(recommendation)
        return True

    def _unproven(self, recommendation: Recommendation) -> Refusal | None:
        sentence = why_not_at_once(recommendation, self.room)
        if sentence is None:
            return None
        return Refusal(
            rule="no_room", sentence=sentence, subject=recommendation.subject, purpose=recommendation.purpose
        )

    def plan(self) -> Plan:
        """The plan as it stands."""
        return Plan(made_at=self.now, recommendations=tuple(self._recommendations), refusals=tuple(self._refusals))


def nodes_out(findings: Sequence[OpenFinding]) -> frozenset[str]:
    """Nodes that findings take out of service, now or once they are empty, beyond doubt."""
    return frozenset(
        one.finding.subject.node
        for one in findings
        if one.finding.subject.node
        and one.finding.action.rank >= Action.RESET_AFTER_DRAIN.rank
        and one.finding.is_corroborated
        and not one.finding.is_history_only
    )


def nodes_in_doubt(findings: Sequence[OpenFinding]) -> frozenset[str]:
    """Nodes that get no new work while a finding about them stands."""
    return frozenset(
        one.finding.subject.node
        for one in findings
        if one.finding.subject.node
        and (one.finding.rule in NODE_IN_DOUBT_RULES or one.finding.action.rank >= Action.RESET_AFTER_DRAIN.rank)
    )


def seats_of(placements: Sequence[Placement]) -> tuple[Seat, ...]:
    """Where pods sit now."""
    return tuple(Seat(pod=one.pod, node=one.node, gpus=len(one.gpus)) for one in placements)


def net_need(moves: Sequence[Move]) -> Counter[str]:
    """Node -> GPUs that the moves need there beyond those that they give up there."""
    need: Counter[str] = Counter()
    for move in moves:
        need.update(gpus_by_node(move.after))
        need.subtract(gpus_by_node(move.before))
    return +need


def why_not_at_once(recommendation: Recommendation, room: Room) -> str | None:
    """Proof that all seats exist at the same moment, whoever is served first; else the sentence that says where not."""
    for move in recommendation.moves:
        if len(move.after) < len(move.before):
            return f"Not moved: {move.workload} would have {len(move.after)} seats for {len(move.before)} pods."
    for node, gpus in net_need(recommendation.moves).items():
        if gpus > room.free.get(node, 0):
            return f"Not moved: {node} would need {gpus} free GPUs and has {room.free.get(node, 0)}."
    return None


def writes_of(moves: Sequence[Move], *, cordons: Sequence[str] = (), lasts: bool = True) -> tuple[Write, ...]:
    """The exact writes: cordon, keep every seat, then stop and let start again, move by move.

    One that a fault threw back into the queue is told where to start; one that room is made for starts by itself.
    """
    held = [Write(verb=Verb.CORDON, node=node, lasts=lasts) for node in cordons]
    held += [Write(verb=Verb.RESERVE, workload=move.workload, seats=_new_seats(move)) for move in moves]
    done: list[Write] = []
    for move in moves:
        if move.replaced:
            done.append(Write(verb=Verb.REPLACE, workload=move.workload, seats=_new_seats(move)))
            continue
        if move.before:
            done.append(Write(verb=Verb.SUSPEND, workload=move.workload))
        if move.before or move.kind is MoveKind.DRAIN:
            done.append(Write(verb=Verb.RESUME, workload=move.workload, seats=move.after))
    return (*held, *done)


def _new_seats(move: Move) -> tuple[Seat, ...]:
    """The seats that a move needs: all of them, or those of the pods that alone are replaced."""
    return tuple(seat for seat in move.after if not move.replaced or seat.pod in move.replaced)


def leaving(
    workload: Workload, *, without: frozenset[str], snapshot: ClusterSnapshot
) -> tuple[list[Placement], list[Placement]]:
    """Placements that must change and those that can stay: off `without`, and off nodes that take no new work.

    A gang starts anew as a whole, so a pod cannot come back to a node that has been cordoned since it started, nor to
    one that lost a GPU of its.
    """

    def must_leave(placement: Placement) -> bool:
        node = snapshot.node_by_name.get(placement.node)
        if placement.node in without or node is None or not node.is_schedulable or node.other_mover is not None:
            return True
        return not {gpu.uuid for gpu in node.gpus if gpu.is_usable}.issuperset(placement.gpus)

    go = [one for one in workload.placements if must_leave(one)]
    return go, [one for one in workload.placements if not must_leave(one)]


def move_of(workload: Workload, kind: MoveKind, node: str | None, after: Sequence[Seat]) -> Move:
    """A workload's move from where it sits to these seats."""
    return Move(
        kind=kind,
        node=node,
        workload=workload.id,
        controller=workload.controller,
        before=seats_of(workload.placements),
        after=tuple(after),
    )
