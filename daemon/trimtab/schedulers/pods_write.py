"""Writes on pods that every adapter needs: let one pass our taint, tell its node, evict it, take our signature off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.errors import SchedulerGone
from trimtab.model.command import Command
from trimtab.schedulers.face import SEAT, map_operations, value_of
from trimtab.schedulers.kubernetes import PatchKind, Resource
from trimtab.schedulers.marks import Hold, annotation, hold_of, hold_text, read_holds, with_hold, without_hold
from trimtab.schedulers.objects import Pod
from trimtab.schedulers.pen import Pen
from trimtab.settings import KubernetesSettings

PODS = Resource(group="", version="v1", plural="pods")
NO_SCHEDULE = "NoSchedule"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Writes on pods by one command each, signed in the pod's annotation; all of it safe to repeat."""

    pen: Pen
    settings: KubernetesSettings

    @property
    def prefix(self) -> str:
        """Prefix of all our names."""
        return self.settings.prefix

    def tolerate(
        self, command: Command, pod: Pod, *, suffix: str = SEAT, value: str = "", effect: str = NO_SCHEDULE
    ) -> bool:
        """Let one pod that is not placed yet pass our taint; False when it is gone, placed or lets itself pass already.

        A toleration can be added to a pod and never taken away; its value dies with the command.
        """
        wanted = {
            "key": f"{self.prefix}/{suffix}",
            "operator": "Equal",
            "value": value or value_of(command.mark),
            "effect": effect,
        }
        found = self._same(pod)
        if found is None or found["spec"].get("nodeName"):
            return False
        tolerations = found["spec"].get("tolerations")
        if any({**one, "operator": one.get("operator", "Equal")} == wanted for one in tolerations or ()):
            return False
        place = "/spec/tolerations/-" if tolerations else "/spec/tolerations"
        words = f"toleration {wanted['key']}={wanted['value']}"
        body: list[Any] = [
            {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
            {"op": "add", "path": place, "value": wanted if tolerations else [wanted]},
            *self._signature(command, found, words),
        ]
        what = f"tolerate {wanted['key']}={wanted['value']} by pod {pod.metadata.key}"
        self.pen.patch(command, _path(pod), body, PatchKind.JSON, what=what)
        return True

    def sign(self, command: Command, pod: Pod, words: str, *, what: str) -> bool:
        """Write on a pod what this command will do to it; False when it is gone."""
        found = self._same(pod)
        if found is None:
            return False
        body = [{"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid}]
        self.pen.patch(command, _path(pod), [*body, *self._signature(command, found, words)], PatchKind.JSON, what=what)
        return True

    def nominate(self, command: Command, pod: Pod, node: str) -> bool:
        """Have the scheduler try this node first for a pod that waits; False when it is placed, gone or told already.

        It reserves nothing and is dropped where it does not fit. Before the toleration, so that the pod's next try
        sees both.
        """
        found = self._same(pod)
        told = ((found or {}).get("status") or {}).get("nominatedNodeName")
        if found is None or found["spec"].get("nodeName") or told == node:
            return False
        self._tell(command, pod, node, what=f"nominate {node} for pod {pod.metadata.key}")
        return True

    def evict(self, command: Command, pod: Pod) -> bool:
        """Ask for a pod's eviction; False when it is gone or going already. A disruption budget's no is SchedulerBusy.

        An eviction with a wrong uid is refused and still uses the budget up for two minutes: so the uid is compared
        by a GET first, and by the dry run, which costs nothing.
        """
        found = self._same(pod)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return False
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.metadata.uid}},
        }
        try:
            self.pen.post(command, f"{_path(pod)}/eviction", body, what=f"evict pod {pod.metadata.key}")
        except SchedulerGone:
            return False
        return True

    def give_back(self, command: Command, pods: Iterable[Pod]) -> None:
        """Take its signature, and a nomination of ours that still waits, off each pod that this command has signed."""
        for pod in pods:
            if hold_of(pod.metadata.annotations, self.prefix, command.mark) is None:
                continue
            found = self._same(pod)
            if found is None or found["metadata"].get("deletionTimestamp"):
                continue
            self._withdraw(command, pod, found)
            self._unsign(command, pod, found)

    def withdraw(self, command: Command, pod: Pod) -> None:
        """Take back a nomination of ours that the pod still waits with: it would keep others off that node."""
        found = self._same(pod) if pod.status.nominated_node_name else None
        if found is not None:
            self._withdraw(command, pod, found)

    def _withdraw(self, command: Command, pod: Pod, found: Json) -> None:
        told = (found.get("status") or {}).get("nominatedNodeName")
        if told and not found["spec"].get("nodeName") and _nominated_by(found) in (None, self.prefix):
            self._tell(command, pod, None, what=f"withdraw nomination of {told} for pod {pod.metadata.key}")

    def _unsign(self, command: Command, pod: Pod, found: Json) -> None:
        annotations = found["metadata"].get("annotations") or {}
        rest = hold_text(without_hold(read_holds(annotations, self.prefix), command.mark))
        body = {"metadata": {"uid": pod.metadata.uid, "annotations": {annotation(self.prefix): rest}}}
        try:
            self.pen.patch(command, _path(pod), body, PatchKind.MERGE, what=f"release pod {pod.metadata.key}")
        except SchedulerGone:
            return

    def _tell(self, command: Command, pod: Pod, node: str | None, *, what: str) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node}}
        self.pen.patch(command, f"{_path(pod)}/status", body, PatchKind.MERGE, what=what)

    def _signature(self, command: Command, found: Json, words: str) -> list[Json]:
        """Operations that add words to this command's hold on a pod."""
        annotations = found["metadata"].get("annotations")
        holds = read_holds(annotations or {}, self.prefix)
        old = hold_of(annotations or {}, self.prefix, command.mark)
        why = command.recommendation.reason or command.recommendation.sentence
        what = tuple(dict.fromkeys((*(old.what if old is not None else ()), words)))
        at = old.at if old is not None else self.pen.clock.now()
        text = hold_text(with_hold(holds, Hold(mark=command.mark, what=what, why=why, at=at))) or ""
        return map_operations(annotations, "/metadata/annotations", {annotation(self.prefix): text})

    def _same(self, pod: Pod) -> Json | None:
        """The pod as it is now; None when it is gone or another one has its name."""
        try:
            found = self.pen.api.get(_path(pod))
        except SchedulerGone:
            return None
        return found if found["metadata"].get("uid") == pod.metadata.uid else None


def _path(pod: Pod) -> str:
    return PODS.path(pod.metadata.namespace, pod.metadata.name)


def _nominated_by(found: Mapping[str, Any]) -> str | None:
    """The field manager that nominated a pod, where the server says."""
    for managed in found["metadata"].get("managedFields") or ():
        if "f:nominatedNodeName" in ((managed.get("fieldsV1") or {}).get("f:status") or {}):
            return str(managed.get("manager") or "")
    return None
