"""Holds on Kueue's queues while a move is under way: only on a queue that nobody has stopped, and signed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trimtab.errors import SchedulerBusy, SchedulerGone, SchedulerRefused, SchedulerVetoed
from trimtab.model.command import Command
from trimtab.schedulers.kubernetes import PatchKind
from trimtab.schedulers.kueue_objects import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    Json,
    is_inactive,
    owner_of_field,
    path_of,
    stop_policy,
)
from trimtab.schedulers.marks import Hold, annotation, hold_of, hold_text, read_holds, with_hold, without_hold
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.view import View

STOP = "stopPolicy"
HOLD_MINUTES = 15.0
"""What a hold says as its expiry; a command that takes longer is given back by its own limits long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHolds:
    """Stops and opens queues by `spec.stopPolicy`, each in one patch with the annotation that owns it."""

    pen: Pen
    view: View
    command: Command

    def read(self, kind: str, key: str) -> Json | None:
        """A queue as it is now; None when it is gone."""
        try:
            return self.pen.api.get(path_of(self.view, kind, key))
        except SchedulerGone:
            return None

    def hold(self, kind: str, key: str, *, is_peer: bool) -> None:
        """Let a queue admit nobody for the time being. A peer that somebody else has stopped is stopped enough."""
        found = self.read(kind, key)
        if found is None:
            return
        annotations = (found.get("metadata") or {}).get("annotations") or {}
        holds = read_holds(annotations, self.pen.prefix)
        mine = hold_of(annotations, self.pen.prefix, self.command.mark)
        others = [one.mark for one in holds if one.mark != self.command.mark]
        name = _named(kind, key)
        if others:
            raise SchedulerBusy(f"{name} is held by {others[0]}; {self.command.name} waits until that is over.")
        if stop_policy(found) != "None":
            if mine is not None or is_peer:
                return
            raise SchedulerRefused(f"{name} is on {stop_policy(found)} by {_who(found)}; what stops now stays out.")
        if mine is not None:
            raise SchedulerVetoed(f"Somebody opened {name} since {self.command.name} held it: a veto.")
        now = self.pen.clock.now()
        entry = Hold(
            mark=self.command.mark,
            what=(STOP,),
            why=self.command.recommendation.sentence,
            at=now,
            until=now + timedelta(minutes=HOLD_MINUTES),
        )
        self._patch(kind, key, found, with_hold(holds, entry), {STOP: "Hold"}, what=f"hold {name}")

    def open(self, kind: str, key: str) -> bool:
        """Take this command's hold off; False when there was none. One that a person set since stays."""
        found = self.read(kind, key)
        if found is None:
            return False
        annotations = (found.get("metadata") or {}).get("annotations") or {}
        if hold_of(annotations, self.pen.prefix, self.command.mark) is None:
            return False
        left = without_hold(read_holds(annotations, self.pen.prefix), self.command.mark)
        owner = owner_of_field(found, STOP)
        is_ours = stop_policy(found) == "Hold" and owner in (None, self.pen.prefix) and not left
        spec = {STOP: "None"} if is_ours else {}
        verb = "open" if is_ours else "let go of"
        self._patch(kind, key, found, left, spec, what=f"{verb} {_named(kind, key)}")
        return True

    def is_shut(self, key: str) -> bool:
        """Whether Kueue has taken note that a ClusterQueue is stopped."""
        found = self.read(CLUSTER_QUEUES, key)
        return found is None or (stop_policy(found) != "None" and is_inactive(found))

    def is_ours(self, key: str) -> bool:
        """Whether this command holds a ClusterQueue at this moment."""
        found = self.read(CLUSTER_QUEUES, key)
        annotations = ((found or {}).get("metadata") or {}).get("annotations") or {}
        return hold_of(annotations, self.pen.prefix, self.command.mark) is not None

    def bearing(self) -> tuple[tuple[str, str], ...]:
        """Queues of the snapshot that bear the command's mark."""
        return tuple(
            (kind, key)
            for kind in (LOCAL_QUEUES, CLUSTER_QUEUES)
            for key, one in self.view.kind(kind).items()
            if hold_of(one.metadata.annotations, self.pen.prefix, self.command.mark) is not None
        )

    def _patch(
        self, kind: str, key: str, found: Json, holds: tuple[Hold, ...], spec: Mapping[str, Any], *, what: str
    ) -> None:
        metadata = {
            "resourceVersion": found["metadata"]["resourceVersion"],
            "annotations": {annotation(self.pen.prefix): hold_text(holds)},
        }
        body = {"metadata": metadata, **({"spec": spec} if spec else {})}
        self.pen.patch(self.command, path_of(self.view, kind, key), body, PatchKind.MERGE, what=what)


def _named(kind: str, key: str) -> str:
    return f"{'ClusterQueue' if kind == CLUSTER_QUEUES else 'LocalQueue'} {key}"


def _who(queue: Json) -> str:
    return owner_of_field(queue, STOP) or "somebody"
