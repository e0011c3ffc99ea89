"""Holds on Kueue's queues while a move is under way: only on a queue that nobody has stopped, and signed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerGone, SchedulerRefused, SchedulerVetoed
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
from trimtab.schedulers.marks import UNREADABLE, Hold, annotation, hold_of, hold_text, read_holds, without_hold
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.view import View

STOP = "stopPolicy"
TRIES = 4
HOLD_MINUTES = 15.0
"""What a hold says as its expiry; a command that takes longer is given back by its own limits long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of a queue: who holds it then, and its stop policy where that changes."""

    holds: tuple[Hold, ...]
    what: str
    policy: str | None = None


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
        self._change(kind, key, partial(self._held, kind, key, is_peer=is_peer))

    def open(self, kind: str, key: str) -> bool:
        """Take this command's hold off; False when there was none. One that a person set since stays."""
        return self._change(kind, key, partial(self._opened, kind, key))

    def _held(self, kind: str, key: str, found: Json, *, is_peer: bool) -> Edit | None:
        holds = _holds(found, self.pen.prefix)
        others = [one.mark for one in holds if one.mark != self.command.mark]
        is_mine, name = len(others) < len(holds), _named(kind, key)
        if others:
            raise SchedulerBusy(f"{name} is held by {others[0]}; {self.command.name} waits until that is over.")
        if stop_policy(found) != "None":
            if is_mine or is_peer:
                return None
            raise SchedulerRefused(f"{name} is on {stop_policy(found)} by {_who(found)}; what stops now stays out.")
        if is_mine:
            raise SchedulerVetoed(f"Somebody opened {name} since {self.command.name} held it: a veto.")
        now = self.pen.clock.now()
        entry = Hold(
            mark=self.command.mark,
            what=(STOP,),
            why=self.command.recommendation.sentence,
            at=now,
            until=now + timedelta(minutes=HOLD_MINUTES),
        )
        return Edit(holds=(entry,), policy="Hold", what=f"hold {name}")

    def _opened(self, kind: str, key: str, found: Json) -> Edit | None:
        holds = _holds(found, self.pen.prefix)
        left = without_hold(holds, self.command.mark)
        if left == holds:
            return None
        is_ours = stop_policy(found) == "Hold" and owner_of_field(found, STOP) in (None, self.pen.prefix) and not left
        name = _named(kind, key)
        if is_ours:
            return Edit(holds=left, policy="None", what=f"open {name}")
        return Edit(holds=left, what=f"let go of {name}")

    def _change(self, kind: str, key: str, edit: Callable[[Json], Edit | None]) -> bool:
        """Read, edit, patch; again when Kueue wrote its counts in between."""
        for attempt in range(TRIES):
            found = self.read(kind, key)
            made = edit(found) if found is not None else None
            if found is None or made is None:
                return False
            metadata = {
                "resourceVersion": found["metadata"]["resourceVersion"],
                "annotations": {annotation(self.pen.prefix): hold_text(made.holds)},
            }
            body = {"metadata": metadata, **({"spec": {STOP: made.policy}} if made.policy else {})}
            try:
                self.pen.patch(self.command, path_of(self.view, kind, key), body, PatchKind.MERGE, what=made.what)
            except SchedulerConflict:
                if attempt == TRIES - 1:
                    raise
            else:
                return True
        return False

    def is_shut(self, key: str) -> bool:
        """Whether Kueue has taken note that a ClusterQueue is stopped."""
        found = self.read(CLUSTER_QUEUES, key)
        return found is None or (stop_policy(found) != "None" and is_inactive(found))

    def marks(self, key: str) -> list[str]:
        """Commands that hold a ClusterQueue at this moment."""
        found = self.read(CLUSTER_QUEUES, key)
        return [one.mark for one in _holds(found, self.pen.prefix)] if found is not None else []

    def bearing(self) -> tuple[tuple[str, str], ...]:
        """Queues of the snapshot that bear the command's mark."""
        return tuple(
            (kind, key)
            for kind in (LOCAL_QUEUES, CLUSTER_QUEUES)
            for key, one in self.view.kind(kind).items()
            if hold_of(one.metadata.annotations, self.pen.prefix, self.command.mark) is not None
        )


def _holds(queue: Json, prefix: str) -> tuple[Hold, ...]:
    """What commands hold on a queue; what cannot be read is nobody's."""
    found = read_holds((queue.get("metadata") or {}).get("annotations") or {}, prefix)
    return tuple(one for one in found if one.mark != UNREADABLE)


def _named(kind: str, key: str) -> str:
    return f"{'ClusterQueue' if kind == CLUSTER_QUEUES else 'LocalQueue'} {key}"


def _who(queue: Json) -> str:
    return owner_of_field(queue, STOP) or "somebody"
