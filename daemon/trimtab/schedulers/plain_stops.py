"""Stops and starts of one workload in plain Kubernetes: whole by `spec.suspend`, or pod by pod by eviction.

Level-triggered: each call reads what is there and does the one write that is due. What must be remembered is written
on the object in the same patch: on a Job that we stopped it, on a pod that it is to leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec.structs import replace as changed

from trimtab.errors import SchedulerRefused, SchedulerVetoed
from trimtab.model.command import Command, Move, Seat, Verb
from trimtab.schedulers.face import SEAT, escaped, value_of
from trimtab.schedulers.kubernetes import PatchKind
from trimtab.schedulers.marks import (
    SUSPEND,
    UNREADABLE,
    Hold,
    annotation,
    hold_of,
    hold_text,
    read_holds,
    with_hold,
    without_hold,
)
from trimtab.schedulers.nodes import Nodes
from trimtab.schedulers.objects import Pod
from trimtab.schedulers.plain_owners import (
    JOB,
    Owner,
    address_of,
    ignores_disruption,
    is_homeless,
    is_serving,
    steering,
)
from trimtab.schedulers.plain_rules import QUEUE_NAME, leaving_seats, name_of

TO_MOVE = "to move"
"""In `what` of a Job that this command will stop. Written while the room is held: a new Job of the name bears none."""
MOVED = "moved"
"""In `what` of a Job: it was stopped and started again by this command, and is not stopped twice."""
LEAVES = "leaves"
"""In `what` of a pod: this command takes it off. Written before the first eviction, so that no new pod ever is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """Writes on owners and pods. `nodes` has the pen and the prefix."""

    nodes: Nodes

    @property
    def prefix(self) -> str:
        """Prefix of all our names."""
        return self.nodes.prefix

    # --- whole workloads

    def sign_whole(self, command: Command, owner: Owner) -> None:
        """Sign the owner that this command will stop."""
        if hold_of(_annotations(owner), self.prefix, command.mark) is None:
            hold = Hold(mark=command.mark, what=(TO_MOVE,), why=_why(command), at=self._now())
            body = {"metadata": self._signed(owner, hold)}
            self.nodes.pen.patch(command, owner.path, body, PatchKind.MERGE, what=f"mark {_full(owner)} as moving")

    def advance_whole(self, command: Command, owner: Owner, seats: Sequence[Seat], *, kept: Sequence[str]) -> None:
        """Stop, if the nodes in `kept` still keep its seats; once every pod is gone, start again; never twice."""
        hold = hold_of(_annotations(owner), self.prefix, command.mark)
        name = owner.address.text
        if self._is_wiped(command, owner):
            raise SchedulerRefused(f"Somebody took our mark off {name} while it was suspended: it is started again.")
        if hold is None:
            raise SchedulerRefused(f"{name} is not the one that {command.name} was to move: it bears no mark of it.")
        if MOVED in hold.what:
            return
        if SUSPEND not in hold.what:
            self._suspend(command, owner, hold, kept)
        elif not owner.is_suspended_by(self.prefix):
            did = "suspended" if owner.is_suspended else "resumed"
            raise SchedulerVetoed(f"Somebody {did} {name} since {command.name} suspended it: a veto.")
        elif not owner.pods:
            self._resume(command, owner, seats, hold)

    def _suspend(self, command: Command, owner: Owner, hold: Hold, kept: Sequence[str]) -> None:
        name = owner.address.text
        if owner.is_suspended:
            raise SchedulerRefused(f"Somebody suspended {name}; it is theirs to resume.")
        if QUEUE_NAME in (owner.metadata.get("labels") or {}):
            raise SchedulerRefused(f"{name} is admitted by Kueue, which alone suspends and resumes it.")
        self._keep(command, kept)
        stopped = changed(hold, what=(SUSPEND,), before={"suspend": False})
        body = {"metadata": self._signed(owner, stopped), "spec": {"suspend": True}}
        self.nodes.pen.patch(command, owner.path, body, PatchKind.MERGE, what=f"suspend {_full(owner)}")

    def _keep(self, command: Command, kept: Sequence[str]) -> None:
        """Nothing stops before its seat is kept. A taint that a person took off is a veto; one lost is set anew."""
        for node in kept:
            self.nodes.taint(command, node, SEAT)

    def _is_wiped(self, command: Command, owner: Owner) -> bool:
        """Whether our annotation is gone from what the server still says that we suspended, as the command was to."""
        is_to_stop = any(
            write.verb is Verb.SUSPEND and address_of(write.workload or "") == owner.address
            for write in command.recommendation.writes
        )
        is_signed = any(one.mark != UNREADABLE for one in read_holds(_annotations(owner), self.prefix))
        return is_to_stop and not is_signed and owner.is_surely_suspended_by(self.prefix)

    def _resume(self, command: Command, owner: Owner, seats: Sequence[Seat], hold: Hold) -> None:
        """Start again. A Job's pods are let onto their seats from their first moment on, where the server permits."""
        moved = changed(hold, what=(MOVED,), before={})
        what = f"resume {_full(owner)}"
        if seats and owner.kind is JOB:
            steered = self._steered(command, owner, moved)
            try:
                self._forget_start(command, owner)
                self.nodes.pen.patch(
                    command, owner.path, steered, PatchKind.JSON, what=f"{what} with a way to its seats"
                )
            except SchedulerRefused:
                # No right on jobs/status, or a server that keeps templates fixed: its pods are let on one by one.
                pass
            else:
                return
        body = {"metadata": self._signed(owner, moved), "spec": {"suspend": False}}
        self.nodes.pen.patch(command, owner.path, body, PatchKind.MERGE, what=what)

    def _forget_start(self, command: Command, owner: Owner) -> None:
        """A suspended Job's template may change only while it has no start time; it gets a new one when it starts."""
        if not owner.status.get("startTime"):
            return
        body = {"metadata": {"uid": owner.metadata["uid"]}, "status": {"startTime": None}}
        what = f"forget the start time of {_full(owner)}"
        self.nodes.pen.patch(command, f"{owner.path}/status", body, PatchKind.MERGE, what=what)

    def _steered(self, command: Command, owner: Owner, hold: Hold) -> list[dict[str, Any]]:
        """The JSON patch that starts a Job with a way to its seats, if it still is as it was read."""
        signature = f"/metadata/annotations/{escaped(annotation(self.prefix))}"
        return [
            {"op": "test", "path": "/metadata/uid", "value": owner.metadata["uid"]},
            {"op": "test", "path": "/spec/suspend", "value": True},
            {"op": "test", "path": signature, "value": _annotations(owner)[annotation(self.prefix)]},
            *steering(owner.spec, f"{self.prefix}/{SEAT}", value_of(command.mark)),
            {"op": "add", "path": "/spec/suspend", "value": False},
            {"op": "add", "path": signature, "value": self._text(owner, hold)},
        ]

    def give_back_whole(self, command: Command, owner: Owner) -> None:
        """Start what this command stopped, unless somebody has; take its signature off."""
        hold = hold_of(_annotations(owner), self.prefix, command.mark)
        if hold is None:
            if self._is_wiped(command, owner):
                wiped = {"metadata": _version(owner), "spec": {"suspend": False}}
                self.nodes.pen.patch(command, owner.path, wiped, PatchKind.MERGE, what=f"resume {_full(owner)}")
            return
        rest = hold_text(without_hold(read_holds(_annotations(owner), self.prefix), command.mark))
        body: dict[str, Any] = {"metadata": {**_version(owner), "annotations": {annotation(self.prefix): rest}}}
        what = f"release {_full(owner)}"
        if SUSPEND in hold.what and owner.is_suspended_by(self.prefix):
            body["spec"] = {"suspend": False}
            what = f"resume {_full(owner)}"
        self.nodes.pen.patch(command, owner.path, body, PatchKind.MERGE, what=what)

    # --- pod by pod

    def mark_leavers(self, command: Command, move: Move, owner: Owner) -> None:
        """Sign the pods that this command will take off, by name and node as planned."""
        planned = {(name_of(seat), seat.node) for seat in leaving_seats(move, is_whole=False)}
        for pod in owner.pods:
            if (pod.metadata.name, pod.spec.node_name) not in planned or self.is_leaver(command, pod):
                continue
            self.nodes.pods.sign(command, pod, LEAVES, what=f"mark pod {pod.metadata.key} as leaving")

    def is_leaver(self, command: Command, pod: Pod) -> bool:
        """Whether this command takes the pod off."""
        hold = hold_of(pod.metadata.annotations, self.prefix, command.mark)
        return hold is not None and LEAVES in hold.what

    def advance_evictions(self, command: Command, owner: Owner, *, kept: Sequence[str]) -> None:
        """Evict the next pod, when the last one's replacement runs and no other is missing or going."""
        leavers = [pod for pod in owner.pods if self.is_leaver(command, pod)]
        if not leavers or any(pod.is_terminating for pod in owner.pods) or len(owner.pods) < owner.pods_wanted:
            return
        if not all(is_serving(pod) for pod in owner.pods if pod not in leavers):
            return
        self._check_failures(owner)
        self._keep(command, kept)
        self.nodes.evict(command, leavers[0])

    def _check_failures(self, owner: Owner) -> None:
        """The Job may have failed more often since the plan was made."""
        if owner.kind is not JOB or ignores_disruption(owner) or "backoffLimitPerIndex" in owner.spec:
            return
        failed, limit = int(owner.status.get("failed") or 0), int(owner.spec.get("backoffLimit", 6))
        if failed + 1 > limit:
            raise SchedulerRefused(
                f"{owner.address.text} has failed {failed} of {limit} times: one eviction more would end it for good."
            )

    # --- seats

    def steer(self, command: Command, owner: Owner, seats: Sequence[Seat]) -> None:
        """Let pods that wait onto the seats that are left, each told which node to try first."""
        left = Counter[str]()
        for seat in seats:
            left[seat.node] += 1
        homeless = [pod for pod in owner.pods if is_homeless(pod)]
        for pod in owner.pods:
            if left[pod.spec.node_name] > 0 and not self.is_leaver(command, pod):
                left[pod.spec.node_name] -= 1
        own = {name_of(seat): seat.node for seat in seats}
        for pod in homeless:
            node = _seat_for(pod, own, left)
            if node is None:
                return
            left[node] -= 1
            with suppress(SchedulerRefused):  # no right on pods/status: it is let on, and the scheduler chooses
                self.nodes.nominate(command, pod, node)
            self.nodes.tolerate(command, pod)

    # --- signatures

    def _signed(self, owner: Owner, hold: Hold) -> dict[str, Any]:
        return {**_version(owner), "annotations": {annotation(self.prefix): self._text(owner, hold)}}

    def _text(self, owner: Owner, hold: Hold) -> str:
        return hold_text(with_hold(read_holds(_annotations(owner), self.prefix), hold)) or ""

    def _now(self) -> datetime:
        return self.nodes.pen.clock.now()


def _seat_for(pod: Pod, own: Mapping[str, str], left: Counter[str]) -> str | None:
    """The node for a pod: the one it is told already, the one planned for its name, else any that is left."""
    wished = (pod.status.nominated_node_name, own.get(pod.metadata.name, ""))
    return next((node for node in (*wished, *sorted(left)) if left[node] > 0), None)


def _annotations(owner: Owner) -> Mapping[str, str]:
    return owner.metadata.get("annotations") or {}


def _version(owner: Owner) -> dict[str, Any]:
    return {"resourceVersion": owner.metadata["resourceVersion"]}


def _full(owner: Owner) -> str:
    return f"{owner.kind.name} {owner.address.namespace}/{owner.address.name}"


def _why(command: Command) -> str:
    return command.recommendation.reason or command.recommendation.sentence
