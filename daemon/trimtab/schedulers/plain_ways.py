"""How a move is carried out in plain Kubernetes, as lines to copy, in a sentence with its expected time. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.command import Move, Recommendation, Verb, Way, Write
from trimtab.schedulers.devices import lines_of
from trimtab.schedulers.objects import Loose
from trimtab.schedulers.plain_owners import (
    DEPLOYMENT,
    JOB,
    JOB_LABEL,
    JOBSET,
    JOBSET_LABEL,
    KINDS,
    REPLICASET,
    STATEFULSET,
    Kind,
    address_of,
    steering,
)
from trimtab.schedulers.plain_rules import arriving_seats, leaving_seats, name_of, stops_whole
from trimtab.schedulers.view import View

JOB_BACKOFF_SECONDS = 10.0
"""A Job's controller waits so long before it makes the first evicted pod anew, and doubles it each time."""
SCHEDULE_SECONDS = 1.0


def way_of(
    recommendation: Recommendation, snapshot: ClusterSnapshot, view: View, *, controller: str, prefix: str
) -> Way:
    """The way of one adapter's part."""
    writes = recommendation.writes_for(controller)
    moves = [move for move in recommendation.moves if move.workload and move.controller == controller]
    known = ((move, snapshot.workload_by_id.get(move.workload or "")) for move in moves)
    parts = [
        _Part(move, workload, view.owner_of.get(workload.id), snapshot, prefix)
        for move, workload in known
        if workload is not None
    ]
    steps = [*lines_of(writes, view, prefix), *_cordons(writes)]
    for lines in (part.holding() for part in parts):
        steps += lines
    for part in parts:
        steps += part.moving()
    for part in parts:
        steps += part.giving_back()
    steps += [f"kubectl uncordon {write.node}" for write in writes if write.verb is Verb.UNCORDON]
    steps += [f"kubectl uncordon {one.node}" for one in writes if one.verb is Verb.CORDON and not one.lasts]
    seconds = [part.seconds() for part in parts if part.move.before]
    return Way(
        steps=tuple(dict.fromkeys(steps)),
        sentence=" ".join(part.sentence() for part in parts if part.sentence()),
        seconds=sum(one for one in seconds if one is not None) if seconds and None not in seconds else None,
        against=tuple(dict.fromkeys(line for part in parts for line in part.against())),
    )


def _cordons(writes: tuple[Write, ...]) -> Iterator[str]:
    return (f"kubectl cordon {write.node}" for write in writes if write.verb is Verb.CORDON)


class _Part:
    """One move in words and lines."""

    def __init__(
        self, move: Move, workload: Workload, owner: Loose | None, snapshot: ClusterSnapshot, prefix: str
    ) -> None:
        self.move, self.workload, self.snapshot = move, workload, snapshot
        self.spec = owner.spec if owner is not None else {}
        self.address = address_of(workload.id)
        self.kind: Kind | None = KINDS.get(self.address.kind)
        self.is_whole = stops_whole(self.kind, move)
        self.arriving = arriving_seats(move, is_whole=self.is_whole)
        self.leaving = leaving_seats(move, is_whole=self.is_whole)
        self.key = f"{prefix}/seat"

    @property
    def targets(self) -> list[str]:
        """Nodes that get new pods."""
        return list(dict.fromkeys(seat.node for seat in self.arriving))

    def holding(self) -> Iterator[str]:
        for node in self.targets:
            yield f"kubectl taint node {node} {self.key}=held:NoSchedule"
            if self.is_whole and self.kind is JOB and self.move.before:
                yield f"kubectl label node {node} {self.key}=held"

    def moving(self) -> Iterator[str]:
        if not self.move.before:
            yield f"# let its waiting pods pass: {self._tolerate('POD')}"
        elif self.is_whole:
            yield from self._stop_and_start()
        else:
            for seat in self.leaving:
                yield self._evict(name_of(seat))
                yield f"# let the new pod pass: {self._tolerate('POD')}"

    def giving_back(self) -> Iterator[str]:
        for node in self.targets:
            yield f"kubectl taint node {node} {self.key}-"
            if self.is_whole and self.kind is JOB and self.move.before:
                yield f"kubectl label node {node} {self.key}-"

    def _stop_and_start(self) -> Iterator[str]:
        at = f"kubectl -n {self.address.namespace}"
        thing = f"{self.address.kind} {self.address.name}"
        label = JOB_LABEL if self.kind is JOB else JOBSET_LABEL
        yield f"{at} patch {thing} --type=merge -p '{_json({'spec': {'suspend': True}})}'"
        yield f"{at} wait --for=delete pod -l {label}={self.address.name} --timeout=15m"
        if self.kind is JOBSET:
            yield f"{at} patch {thing} --type=merge -p '{_json({'spec': {'suspend': False}})}'"
            return
        yield f"{at} patch {thing} --subresource=status --type=merge -p '{_json({'status': {'startTime': None}})}'"
        body = [*steering(self.spec, self.key, "held"), {"op": "add", "path": "/spec/suspend", "value": False}]
        yield f"{at} patch {thing} --type=json -p '{_json(body)}'"

    def _evict(self, pod: str) -> str:
        namespace = self.address.namespace
        metadata = {"name": pod, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        return f"kubectl create --raw /api/v1/namespaces/{namespace}/pods/{pod}/eviction -f - <<< '{_json(body)}'"

    def _tolerate(self, pod: str) -> str:
        body = [{"op": "add", "path": "/spec/tolerations/-", "value": self._toleration()}]
        return f"kubectl -n {self.address.namespace} patch pod {pod} --type=json -p '{_json(body)}'"

    def _toleration(self) -> dict[str, str]:
        return {"key": self.key, "operator": "Equal", "value": "held", "effect": "NoSchedule"}

    def seconds(self) -> float | None:
        """Until all of it runs again; None where nobody knows how long it takes to start."""
        start, stop = self.workload.restart_seconds, self.workload.stop_seconds
        if not self.is_whole and self.workload.replace_seconds is not None:
            return len(self.leaving) * (SCHEDULE_SECONDS + self.workload.replace_seconds)
        if start is None or self.kind is None:
            return None
        if self.is_whole:
            return stop + SCHEDULE_SECONDS + start
        each = {JOB: stop + JOB_BACKOFF_SECONDS, STATEFULSET: stop}
        return len(self.leaving) * (each.get(self.kind, 0.0) + SCHEDULE_SECONDS + start)

    def sentence(self) -> str:
        """The way, for people."""
        name, count = self.workload.name, len(self.leaving)
        pods = f"{count} pods one after the other" if count != 1 else "1 pod"
        stop = f"{self.workload.stop_seconds:.0f} s"
        if not self.move.before:
            return f"The waiting pods of {name} are let onto {', '.join(self.targets)}, which is kept from others."
        if self.is_whole:
            return (
                f"{name} is suspended whole and started again once its last pod is gone (up to {stop}); "
                "no disruption budget is asked and no failure is counted."
            )
        if self.kind in (DEPLOYMENT, REPLICASET):
            return f"{pods} of {name} evicted; its controller makes the new one at once, before the old one is gone."
        if self.kind is STATEFULSET:
            return f"{pods} of {name} evicted; each comes back under its name once the old one is gone (up to {stop})."
        return (
            f"{pods} of {name} evicted; the Job makes the new one {JOB_BACKOFF_SECONDS:.0f} s after the old one is "
            f"gone (up to {stop}), and doubles that each time."
        )

    def against(self) -> Iterator[str]:
        """What plain Kubernetes cannot promise."""
        where = ", ".join(self.targets)
        if self.targets:
            yield f"Nothing else can start on {where} until the move is over."
        if not self.move.before or (self.is_whole and self.kind is JOB):
            return
        yield (
            f"Plain Kubernetes keeps no seat for a pod that it makes anew: {where} is kept from others, and the new "
            f"pod is let onto it {self._when_let_on()}"
        )
        if self.kind is STATEFULSET:
            yield f"Volumes of {self.workload.name} must be reachable from {where}; this is not checked."

    def _when_let_on(self) -> str:
        also = self._open_elsewhere()
        if not also:
            return "within a beat; no other node has room for it now."
        there = f"{also[0]} and {len(also) - 1} more have" if len(also) > 1 else f"{also[0]} has"
        return f"only while it waits. {there} room for it, too, and will most likely get it."

    def _open_elsewhere(self) -> list[str]:
        """Other nodes that could take one of its pods at once."""
        gpus = max((seat.gpus for seat in self.arriving), default=0)
        left = {seat.node for seat in self.leaving}
        pool = self.workload.pool
        return sorted(
            name
            for name, free in self.snapshot.free_gpus.items()
            if len(free) >= gpus
            and name not in self.targets
            and name not in left
            and pool in (None, self.snapshot.node_by_name[name].pool)
        )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
