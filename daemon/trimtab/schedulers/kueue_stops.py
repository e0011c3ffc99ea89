"""Writes on one Kueue Workload: seats kept for it, deactivated, reactivated, given back; each signed in the same patch.

Never flipped blindly, never against a person: what somebody else switched stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace as changed

from trimtab.errors import SchedulerGone, SchedulerRefused, SchedulerVetoed
from trimtab.model.command import Command, Seat, Verb
from trimtab.schedulers.kubernetes import PatchKind
from trimtab.schedulers.kueue_objects import WORKLOADS, KueueWorkload, path_of
from trimtab.schedulers.marks import (
    SUSPEND,
    UNREADABLE,
    Hold,
    Moment,
    annotation,
    hold_of,
    hold_text,
    read_holds,
    with_hold,
    without_hold,
)
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.view import View

RETURNED = "returned_at"
"""In `before` of a hold: when this command let the workload start again. It is not stopped twice."""
HOLD_MINUTES = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One Kueue Workload in the hands of one command, read afresh."""

    pen: Pen
    view: View
    command: Command
    id: str
    """Id of the workload in the snapshot."""
    now: KueueWorkload

    @classmethod
    def read(cls, pen: Pen, view: View, command: Command, workload_id: str) -> Stop | None:
        """The Workload as it is now; None when it is gone."""
        one = view.kueue_of.get(workload_id)
        if one is None:
            return None
        try:
            body = pen.api.get(path_of(view, WORKLOADS, one.metadata.key))
        except SchedulerGone:
            return None
        if one.metadata.uid and body["metadata"].get("uid") != one.metadata.uid:
            return None  # another one of the same name
        return cls(pen=pen, view=view, command=command, id=workload_id, now=KueueWorkload(body))

    @property
    def _holds(self) -> tuple[Hold, ...]:
        """What commands hold on it; what cannot be read is nobody's."""
        found = read_holds(self.now.annotations, self.pen.prefix)
        return tuple(one for one in found if one.mark != UNREADABLE)

    @property
    def hold(self) -> Hold | None:
        """What this command holds on it."""
        return hold_of(self.now.annotations, self.pen.prefix, self.command.mark)

    @property
    def returned_at(self) -> datetime | None:
        """When this command let it start again."""
        text = self.hold.before.get(RETURNED) if self.hold is not None else None
        if text is None:
            return None
        try:
            return msgspec.convert(text, Moment)
        except msgspec.ValidationError as error:  # whoever may write the Workload may have changed it
            raise SchedulerRefused(f"Our mark on {self.now.key} was changed and cannot be read any more.") from error

    @property
    def is_ours_to_start(self) -> bool:
        """Whether it stands still by this command, and nobody has switched it since."""
        if self.now.is_active or self.now.switched_by not in (None, self.pen.prefix):
            return False
        if self.hold is not None:
            return SUSPEND in self.hold.what
        # Somebody wiped the annotation: the server still says that we switched it, and the command that it was to.
        is_signed = bool(self._holds)
        return not is_signed and self.now.switched_by == self.pen.prefix and self._is_to_stop

    @property
    def is_in_other_hands(self) -> bool:
        """Whether another command is at work on it; what lasts of one that is over is no work."""
        return any(one.mark != self.command.mark and not one.lasts for one in self._holds)

    @property
    def _is_to_stop(self) -> bool:
        writes = self.command.recommendation.writes
        return any(write.verb is Verb.SUSPEND and write.workload == self.id for write in writes)

    @property
    def has_no_pods(self) -> bool:
        """Whether none of its pods is left, by the snapshot: which may be behind, and then shows more, not fewer."""
        return not self.view.pods_of.get(self.id)

    @property
    def is_stopped(self) -> bool:
        """Whether it has stopped fully: only then it may be let start again."""
        return self.now.is_stopped_fully and self.has_no_pods

    def reserve(self, seats: Sequence[Seat]) -> None:
        """Write down the seats that are kept for it."""
        if self.hold is not None and self.hold.seats == tuple(seats):
            return
        entry = changed(self._entry(), seats=tuple(seats))
        self._write(entry, {}, what=f"reserve {sum(seat.gpus for seat in seats)} GPUs for {self.now.key}")

    def deactivate(self) -> None:
        """Stop it: Kueue suspends the job, its pods get their grace period."""
        if not self.now.is_active:
            if not self.is_ours_to_start:
                raise SchedulerRefused(f"{self.now.key} was stopped by {self.now.switched_by or 'somebody else'}.")
            return
        if self.hold is not None and SUSPEND in self.hold.what:
            raise SchedulerVetoed(f"{self.now.switched_by or 'Somebody'} started {self.now.key} again: a veto.")
        if not self.now.is_admitted:
            raise SchedulerRefused(f"{self.now.key} is not admitted any more; only what runs is moved.")
        entry = self._entry()
        entry = changed(entry, what=tuple(dict.fromkeys((*entry.what, SUSPEND))))
        self._write(entry, {"active": False}, what=f"deactivate {self.now.key}")

    def reactivate(self) -> None:
        """Let it start again; it takes its old place in the queue."""
        if not self.is_ours_to_start:
            return
        entry = self._entry()
        what = tuple(word for word in entry.what if word != SUSPEND)
        before = {**entry.before, RETURNED: self.pen.clock.now().isoformat()}
        self._write(changed(entry, what=what, before=before), {"active": True}, what=f"reactivate {self.now.key}")

    def give_back(self, *, keeps: Sequence[str]) -> None:
        """Start it where it stands still by us, and take our signature off, but for what lasts."""
        holds = without_hold(self._holds, self.command.mark)
        if keeps:
            entry = changed(self._entry(), what=tuple(keeps), lasts=True, until=None, seats=(), before={})
            kept = [one for one in holds if not (one.lasts and set(one.what) & set(keeps))]  # of an earlier move
            holds = with_hold(kept, entry)
        is_ours = self.is_ours_to_start
        verb = "reactivate" if is_ours else "let go of"
        if is_ours or hold_text(holds) != self.now.annotations.get(annotation(self.pen.prefix)):
            self._patch(holds, {"active": True} if is_ours else {}, what=f"{verb} {self.now.key}")

    def _entry(self) -> Hold:
        now = self.pen.clock.now()
        return self.hold or Hold(
            mark=self.command.mark,
            why=self.command.recommendation.sentence,
            at=now,
            until=now + timedelta(minutes=HOLD_MINUTES),
            workload=self.id,
        )

    def _write(self, entry: Hold, spec: dict[str, Any], *, what: str) -> None:
        self._patch(with_hold(self._holds, entry), spec, what=what)

    def _patch(self, holds: Sequence[Hold], spec: dict[str, Any], *, what: str) -> None:
        """One patch, refused when the Workload has changed since it was read."""
        metadata = {
            "resourceVersion": self.now.version,
            "annotations": {annotation(self.pen.prefix): hold_text(holds)},
        }
        body = {"metadata": metadata, **({"spec": spec} if spec else {})}
        path = path_of(self.view, WORKLOADS, self.now.key)
        self.pen.patch(self.command, path, body, PatchKind.MERGE, what=what)
