"""One GPU taken out of service where the cluster hands GPUs out by DRA: a DeviceTaintRule, the smallest scope.

A rule keeps new work off one device and ends nothing that runs: effect NoSchedule. The effect None, a rehearsal, tells
only what NoExecute would end, which we never use; the server-side dry run of the pen shows the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerGone, SchedulerRefused
from trimtab.model.command import Command, CommandState, Verb, Write
from trimtab.schedulers.face import value_of
from trimtab.schedulers.kubernetes import Resource
from trimtab.schedulers.marks import Hold, annotation, hold_of, hold_text, read_holds
from trimtab.schedulers.objects import Loose
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.view import View
from trimtab.settings import KubernetesSettings

SLICES, RULES = "resourceslices.resource.k8s.io", "devicetaintrules.resource.k8s.io"
DEVICE_TAINT = "device taint"
"""In `what` of a DeviceTaintRule of ours."""
OUT = "out-of-service"
"""Name of the taint: `trimtab/out-of-service`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A device as DRA names it."""

    driver: str
    pool: str
    device: str

    @property
    def selector(self) -> dict[str, str]:
        """As `deviceSelector` of a rule."""
        return {"driver": self.driver, "pool": self.pool, "device": self.device}


def place_of(view: View, node: str, gpu_uuid: str) -> Place | None:
    """Where a GPU stands in the slices of its node; a MIG instance stands for its whole GPU."""
    wanted = gpu_uuid.partition("/")[0]
    for item in view.kind(SLICES).values():
        if item.spec.get("nodeName") != node:
            continue
        for entry in item.spec.get("devices") or ():
            if _uuid_of(entry) == wanted:
                pool = str((item.spec.get("pool") or {}).get("name", ""))
                return Place(driver=str(item.spec.get("driver", "")), pool=pool, device=str(entry.get("name", "")))
    return None


def _uuid_of(entry: Mapping[str, Any]) -> str:
    attributes = entry.get("attributes") or (entry.get("basic") or {}).get("attributes") or {}
    return str((attributes.get("uuid") or {}).get("string") or "")


def lines_of(writes: Iterable[Write], view: View, prefix: str) -> Iterator[str]:
    """The device taints among writes as lines to copy."""
    for write in writes:
        place = place_of(view, write.node or "", write.gpu or "")
        if place is None or RULES not in view.served:
            continue
        if write.verb is Verb.TAINT_DEVICE:
            taint = {"key": f"{prefix}/{OUT}", "value": "held", "effect": "NoSchedule"}
            body = {
                "apiVersion": f"resource.k8s.io/{view.served[RULES]}",
                "kind": "DeviceTaintRule",
                "metadata": {"name": f"{prefix}-{_digest(place)}".replace("/", "-")},
                "spec": {"deviceSelector": place.selector, "taint": taint},
            }
            yield f"kubectl create -f - <<< '{json.dumps(body, separators=(',', ':'))}'"
        elif write.verb is Verb.UNTAINT_DEVICE:
            for rule in view.kind(RULES).values():
                if rule.spec.get("deviceSelector") == place.selector and _is_of(rule, write.lifts, prefix):
                    yield f"kubectl delete devicetaintrule {rule.metadata.name}"


def _is_of(rule: Loose, mark: str | None, prefix: str) -> bool:
    """Whether a rule is of the command with this mark; of any command of ours where none is named."""
    marks = [hold.mark for hold in read_holds(rule.metadata.annotations, prefix)]
    return bool(marks) and mark in (None, *marks)


def _digest(place: Place) -> str:
    return hashlib.sha256(f"{place.driver}/{place.pool}/{place.device}".encode()).hexdigest()[:10]


def why_not_one_gpu(view: View, node: str, gpu_uuid: str) -> str | None:
    """Why the whole node has to be cordoned for one GPU, as a sentence; None = a device taint suffices."""
    if SLICES not in view.served:
        return "This cluster does not hand out GPUs by DRA (no ResourceSlices): one GPU cannot be taken out alone."
    if RULES not in view.served:
        return "This cluster serves no DeviceTaintRule (feature gate DRADeviceTaintRules): one GPU cannot be taken out."
    if place_of(view, node, gpu_uuid) is None:
        return f"No ResourceSlice of {node} names {gpu_uuid}: it is not handed out by DRA."
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Device taints by one command each, signed in the rule's annotation; safe to repeat."""

    pen: Pen
    view: Callable[[], View]
    settings: KubernetesSettings

    def taint(self, command: Command, node: str, gpu_uuid: str, *, lasts: bool = True) -> None:
        """Keep new work off one GPU. SchedulerRefused with the reason where the cluster cannot."""
        view = self.view()
        place = place_of(view, node, gpu_uuid)
        if place is None or RULES not in view.served:
            raise SchedulerRefused(why_not_one_gpu(view, node, gpu_uuid) or f"{gpu_uuid} is not there.")
        path = self._resource(view).path(name=self._name(command, place))
        try:
            self._check(command, self.pen.api.get(path))
        except SchedulerGone:
            body = self._rule(command, view, place, node, lasts=lasts)
            what = f"taint device {place.device} of {node} ({gpu_uuid})"
            try:
                self.pen.post(command, self._resource(view).path(), body, what=what)
            except SchedulerConflict:
                self._check(command, self.pen.api.get(path))  # a lost reply: it is there

    def untaint(self, command: Command, node: str, gpu_uuid: str) -> None:
        """Take this command's taint off one GPU."""
        view = self.view()
        place = place_of(view, node, gpu_uuid)
        if place is not None and RULES in view.served:
            self._delete(command, self._resource(view).path(name=self._name(command, place)))

    def lift(self, command: Command, node: str, gpu_uuid: str, *, lifts: str | None) -> None:
        """Return one GPU to service: the rule of the command with the mark `lifts` goes."""
        view = self.view()
        place = place_of(view, node, gpu_uuid)
        for rule in view.kind(RULES).values():
            is_its = lifts is not None and hold_of(rule.metadata.annotations, self.settings.prefix, lifts) is not None
            if place is not None and is_its and rule.spec.get("deviceSelector") == place.selector:
                path = self._resource(view).path(name=rule.metadata.name)
                body = {"preconditions": {"uid": rule.metadata.uid}}
                with suppress(SchedulerGone):
                    self.pen.delete(command, path, body, what=f"untaint device {place.device} of {node} ({gpu_uuid})")

    def give_back(self, command: Command) -> None:
        """Delete every rule of this command; those that last stay once it has settled."""
        view = self.view()
        for rule in self.rules_of(command):
            hold = hold_of(rule.metadata.annotations, self.settings.prefix, command.mark)
            if command.state is CommandState.SETTLED and hold is not None and hold.lasts:
                continue
            self._delete(command, self._resource(view).path(name=rule.metadata.name))

    def rules_of(self, command: Command) -> Iterator[Loose]:
        """Rules that bear this command's mark."""
        for rule in self.view().kind(RULES).values():
            if hold_of(rule.metadata.annotations, self.settings.prefix, command.mark) is not None:
                yield rule

    def _resource(self, view: View) -> Resource:
        version = view.served[RULES]
        return Resource(group="resource.k8s.io", version=version, plural="devicetaintrules", is_namespaced=False)

    def _name(self, command: Command, place: Place) -> str:
        """The same command and device give the same name, so that a repeated write finds the first."""
        return f"{self.settings.prefix}-{value_of(command.mark).lower()}-{_digest(place)}".replace("/", "-")

    def _rule(self, command: Command, view: View, place: Place, node: str, *, lasts: bool) -> dict[str, Any]:
        why = command.recommendation.reason or command.recommendation.sentence
        what = (f"{DEVICE_TAINT} {place.device} of {node}",)
        hold = Hold(mark=command.mark, what=what, why=why, at=self.pen.clock.now(), lasts=lasts)
        key = f"{self.settings.prefix}/{OUT}"
        return {
            "apiVersion": f"resource.k8s.io/{view.served[RULES]}",
            "kind": "DeviceTaintRule",
            "metadata": {
                "name": self._name(command, place),
                "annotations": {annotation(self.settings.prefix): hold_text([hold])},
            },
            "spec": {
                "deviceSelector": place.selector,
                "taint": {"key": key, "value": value_of(command.mark), "effect": "NoSchedule"},
            },
        }

    def _check(self, command: Command, rule: Mapping[str, Any]) -> None:
        metadata = rule.get("metadata") or {}
        if hold_of(metadata.get("annotations") or {}, self.settings.prefix, command.mark) is None:
            raise SchedulerBusy(f"Somebody else's DeviceTaintRule {metadata.get('name')} has the name of ours.")

    def _delete(self, command: Command, path: str) -> None:
        try:
            found = self.pen.api.get(path)
        except SchedulerGone:
            return
        metadata = found.get("metadata") or {}
        if not read_holds(metadata.get("annotations") or {}, self.settings.prefix):
            return  # somebody has made it theirs
        body = {"preconditions": {"uid": metadata["uid"]}}
        try:
            self.pen.delete(command, path, body, what=f"untaint device: DeviceTaintRule {metadata['name']}")
        except SchedulerGone:
            return
