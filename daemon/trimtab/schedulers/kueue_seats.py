"""Exact seats by our AdmissionCheck: a label on the planned nodes, and a check that is Ready and asks for it.

One label key a Workload, `<prefix>/seat-<uid>`, the same over all its moves. It stays as long as the job runs there:
a pod that starts anew asks for it again, and a Ready check cannot be changed under a running job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as changed

from trimtab.clock import iso
from trimtab.errors import SchedulerConflict, SchedulerGone
from trimtab.model.command import Command
from trimtab.schedulers.face import Face, face_of, patch_between
from trimtab.schedulers.kubernetes import PatchKind
from trimtab.schedulers.kueue_objects import WORKLOADS, KueueWorkload, path_of
from trimtab.schedulers.marks import Hold
from trimtab.schedulers.nodes import NODES
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.view import View

KEPT = "kept"
TRIES = 3


def seat_key(prefix: str, workload: KueueWorkload) -> str:
    """`trimtab/seat-1f3a9c2b04`."""
    return f"{prefix}/seat-{hashlib.sha256(workload.uid.encode()).hexdigest()[:10]}"


def is_seat_key(prefix: str, key: str) -> bool:
    """Whether a node's label is a seat of ours."""
    return key.startswith(f"{prefix}/seat-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """Writes of seats: labels on nodes, answers of our check."""

    pen: Pen
    view: View
    check: str
    """Name of our AdmissionCheck."""

    def put(self, command: Command, workload: KueueWorkload, nodes: Collection[str], *, workload_id: str) -> None:
        """The label on these nodes, and on no other."""
        key = seat_key(self.pen.prefix, workload)
        for name in sorted(set(self.bearing(key)) - set(nodes)):
            self._change(command, name, f"unlabel {name}: {key}", lambda old: _without(old, key))
        for name in sorted(nodes):
            self.add(command, workload, name, workload_id=workload_id)

    def add(self, command: Command, workload: KueueWorkload, node: str, *, workload_id: str) -> None:
        """The label on one node more."""
        key = seat_key(self.pen.prefix, workload)
        what = f"label {key}={KEPT}"
        now = self.pen.clock.now()

        def edit(old: Face) -> Face:
            hold = old.hold(command.mark, workload_id)
            why = hold.why or command.recommendation.sentence
            hold = changed(hold, what=(what,), lasts=True, why=why, at=hold.at or now)
            return replace(_without(old, key), labels={**old.labels, key: KEPT}).with_hold(hold)

        self._change(command, node, f"label {node} with {key}={KEPT}", edit)

    def take(self, command: Command, workload: KueueWorkload, *, also: Iterable[str] = ()) -> None:
        """The label off every node."""
        key = seat_key(self.pen.prefix, workload)
        self.take_off(command, key, {*self.bearing(key), *also})

    def take_off(self, command: Command, key: str, nodes: Iterable[str]) -> None:
        """A seat label off these nodes."""
        for name in sorted(nodes):
            self._change(command, name, f"unlabel {name}: {key}", lambda old: _without(old, key))

    def bearing(self, key: str) -> tuple[str, ...]:
        """Nodes of the snapshot that bear a label."""
        return tuple(name for name, node in self.view.nodes.items() if key in node.metadata.labels)

    def ready(self, command: Command, workload: KueueWorkload, *, is_exact: bool, message: str) -> None:
        """Our check says Ready: onto the seats, or anywhere.

        An empty list says "anywhere": what is left out is kept as it was, since Kueue owns it too.
        """
        selector = {seat_key(self.pen.prefix, workload): KEPT}
        updates = [{"name": name, "nodeSelector": selector} for name in workload.pod_sets] if is_exact else []
        self.answer(command, workload, "Ready", updates=updates, message=message)

    def answer(
        self, command: Command, workload: KueueWorkload, state: str, *, updates: list[dict[str, Any]], message: str
    ) -> None:
        """Write our check's state, whole; the uid says of which Workload."""
        namespace, _, name = workload.key.partition("/")
        check: Mapping[str, Any] = {
            "name": self.check,
            "state": state,
            "lastTransitionTime": iso(self.pen.clock.now()),
            "message": message,
            "requeueAfterSeconds": 0,  # Kueue keeps any other number, and delays the next eviction by it
            "podSetUpdates": updates,
        }
        path = path_of(self.view, WORKLOADS, workload.key, "status")
        version = path.split("/")[3]
        body = {
            "apiVersion": f"kueue.x-k8s.io/{version}",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": namespace, "uid": workload.uid},
            "status": {"admissionChecks": [check]},
        }
        where = " on its seats" if updates else ""
        what = f"answer {state}{where} for {workload.key}"
        self.pen.patch(command, path, body, PatchKind.APPLY, what=what, params={"force": "true"})

    def _change(self, command: Command, node: str, what: str, edit: Callable[[Face], Face]) -> None:
        """Read, edit, patch; again when somebody wrote in between. A node that is gone bears nothing."""
        path = NODES.path(name=node)
        for attempt in range(TRIES):
            try:
                found = self.pen.api.get(path)
                old = face_of(found, self.pen.prefix)
                body = patch_between(found, old, edit(old), self.pen.prefix)
                if body:
                    self.pen.patch(command, path, body, PatchKind.JSON, what=what)
            except SchedulerGone:
                return
            except SchedulerConflict:
                if attempt == TRIES - 1:
                    raise
            else:
                return


def _without(face: Face, key: str) -> Face:
    """The face without a seat label, whichever command signed it."""
    what = f"label {key}={KEPT}"
    for hold in face.holds:
        if what in hold.what:
            face = face.with_hold(_stripped(hold, what))
    return replace(face, labels={name: text for name, text in face.labels.items() if name != key})


def _stripped(hold: Hold, what: str) -> Hold:
    return changed(hold, what=tuple(one for one in hold.what if one != what))
