"""Kubernetes Events on the node and the workload for each change of a command: best effort, bounded, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import structlog

from trimtab.clock import Clock, unix_ms
from trimtab.errors import SchedulerError
from trimtab.model.command import Command, CommandState, Verb
from trimtab.schedulers.kubernetes import Api, PatchKind, Resource
from trimtab.schedulers.objects import Metadata
from trimtab.schedulers.view import View

log = structlog.get_logger()

EVENTS = Resource(group="events.k8s.io", version="v1", plural="events")
NODE_NAMESPACE = "default"
"""Where Events of objects without a namespace live."""
NOTE_BYTES_MAX = 1024
SERIES_SECONDS = 600.0
"""The same words about the same object within so long are one Event with a count."""
KEPT_MAX = 500
PER_MINUTE_MAX = 60
"""A storm of changes is told in part; what was left out is counted."""
ABOUT_MAX = 20
"""Objects that one change is told about at most."""

_KINDS = {
    "job": ("batch/v1", "Job"),
    "jobset": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "deployment": ("apps/v1", "Deployment"),
    "replicaset": ("apps/v1", "ReplicaSet"),
    "statefulset": ("apps/v1", "StatefulSet"),
    "daemonset": ("apps/v1", "DaemonSet"),
    "vcjob": ("batch.volcano.sh/v1alpha1", "Job"),
}
_BAD = (CommandState.REFUSED, CommandState.MISSED, CommandState.ABANDONED, CommandState.EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regarding:
    """The object that an Event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    @property
    def body(self) -> dict[str, str]:
        """As an Event carries it."""
        found = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}
        return {**found, **({"namespace": self.namespace} if self.namespace else {})}


@dataclass(slots=True)
class _Told:
    path: str
    count: int
    at_seconds: float


class Events:
    """Tells people where they look first: `kubectl describe node`, `kubectl describe job`."""

    def __init__(self, api: Api, view: Callable[[], View], clock: Clock, *, prefix: str, instance: str) -> None:
        """`prefix` is the reporting controller, `instance` which daemon it is (its host)."""
        self._api, self._view, self._clock = api, view, clock
        self._prefix, self._instance = prefix, instance[:128] or "trimtab"
        self._told: dict[tuple[str, str, str], _Told] = {}
        self._minute = (0.0, 0)
        self._number = 0
        self._counts = {"told": 0, "repeated": 0, "failed": 0, "left_out": 0}
        self._lock = Lock()

    def counts(self) -> Mapping[str, int]:
        """Events told, repeated (a series), failed and left out, since start."""
        with self._lock:
            return dict(self._counts)

    def tell(self, command: Command, was: CommandState | None) -> None:
        """Tell a change of state of a command; never raises for what the cluster answers."""
        if command.state is was:
            return
        note = _bounded(note_of(command), NOTE_BYTES_MAX)
        with self._lock:
            for about in list(self._about(command))[:ABOUT_MAX]:
                self._tell(about, command, note)

    def notify(self, command: Command, workload: str, sentence: str) -> None:
        """Tell the owner of a workload that it is about to be moved; never raises for what the cluster answers."""
        about = _workload(self._view(), workload)
        if about is not None:
            with self._lock:
                self._tell(about, command, _bounded(sentence, NOTE_BYTES_MAX), reason="MoveAhead")

    def _tell(self, about: Regarding, command: Command, note: str, *, reason: str = "") -> None:
        reason = reason or f"Command{command.state.value.capitalize()}"
        key = (about.uid or f"{about.kind}/{about.namespace}/{about.name}", reason, note)
        if not self._may():
            self._counts["left_out"] += 1
            return
        try:
            if not self._repeat(key):
                self._create(key, about, command, reason, note)
        except SchedulerError as error:
            self._counts["failed"] += 1
            log.debug("event not told", command_id=command.id, about=about.name, said=str(error))

    def _may(self) -> bool:
        since, count = self._minute
        now = self._clock.monotonic_seconds()
        if now - since >= 60.0:
            since, count = now, 0
        self._minute = (since, count + 1)
        return count < PER_MINUTE_MAX

    def _repeat(self, key: tuple[str, str, str]) -> bool:
        """Count up the Event of the same words; False where there is none young enough."""
        told = self._told.get(key)
        if told is None or self._clock.monotonic_seconds() - told.at_seconds > SERIES_SECONDS:
            return False
        series = {"count": told.count + 1, "lastObservedTime": _micro(self._clock.now())}
        params = {"fieldManager": self._prefix}
        self._api.patch(told.path, {"series": series}, PatchKind.MERGE, params)
        told.count += 1
        self._counts["repeated"] += 1
        return True

    def _create(self, key: tuple[str, str, str], about: Regarding, command: Command, reason: str, note: str) -> None:
        now = self._clock.now()
        self._number += 1
        namespace = about.namespace or NODE_NAMESPACE
        name = f"{about.name[:200]}.{unix_ms(now):x}{self._number:04x}"
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace, "annotations": {f"{self._prefix}/by": command.mark}},
            "eventTime": _micro(now),
            "reportingController": self._prefix,
            "reportingInstance": self._instance,
            "action": command.recommendation.kind.value.capitalize(),
            "reason": reason,
            "type": "Warning" if command.state in _BAD else "Normal",
            "regarding": about.body,
            "note": note,
        }
        self._api.post(EVENTS.path(namespace), body, {"fieldManager": self._prefix})
        self._counts["told"] += 1
        self._told.pop(key, None)
        path = EVENTS.path(namespace, name)
        self._told[key] = _Told(path, 1, self._clock.monotonic_seconds())
        while len(self._told) > KEPT_MAX:
            del self._told[next(iter(self._told))]

    def _about(self, command: Command) -> Iterator[Regarding]:
        """Nodes that are written on, and the owners of the workloads that move."""
        view = self._view()
        writes, moves = command.recommendation.writes, command.recommendation.moves
        verbs = (Verb.CORDON, Verb.UNCORDON, Verb.TAINT_DEVICE)
        names = [write.node for write in writes if write.node and write.verb in verbs]
        names += [move.node for move in moves if move.node]
        for name in dict.fromkeys(names):
            node = view.nodes.get(name)
            if node is not None:
                yield Regarding(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
        for workload in dict.fromkeys(move.workload for move in moves if move.workload):
            found = _workload(view, workload)
            if found is not None:
                yield found


def _workload(view: View, workload: str) -> Regarding | None:
    """The owner, or where there is none its first pod."""
    owner = view.owner_of.get(workload)
    if owner is not None:
        # Items of a list of a built-in kind do not say what they are; the workload's id does.
        known = _KINDS.get((*workload.split("/"), "")[1], (owner.api_version, owner.kind))
        if all(known):
            return _regarding(*known, owner.metadata)
    pods = view.pods_of.get(workload)
    return _regarding("v1", "Pod", pods[0].metadata) if pods else None


def _regarding(api_version: str, kind: str, metadata: Metadata) -> Regarding:
    return Regarding(
        api_version=api_version, kind=kind, name=metadata.name, namespace=metadata.namespace, uid=metadata.uid
    )


def note_of(command: Command) -> str:
    """`R11 held: Take gpu-07 out of service (XID 79). Keeping its room.`"""
    recommendation = command.recommendation
    why = f" ({recommendation.reason})" if recommendation.reason else ""
    said = f". {command.reason}" if command.reason else ""
    dry = "dry run, nothing is written: " if command.is_dry else ""
    return f"{command.name} {command.state}: {dry}{recommendation.sentence.rstrip('.')}{why}{said}"


def _bounded(text: str, bytes_max: int) -> str:
    raw = text.encode()
    if len(raw) <= bytes_max:
        return text
    return raw[: bytes_max - 3].decode(errors="ignore") + "…"


def _micro(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
