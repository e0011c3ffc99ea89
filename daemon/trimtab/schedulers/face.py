"""A node as far as we write it, and the JSON patch that turns one such face into another. Pure.

Everything of ours on a node changes in one patch together with the annotation that owns it, tested against the
resourceVersion that was read: no crash and no concurrent writer can part the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec.structs import replace as changed

from trimtab.errors import SchedulerRefused
from trimtab.model.command import read_mark
from trimtab.schedulers.marks import CORDON, UNREADABLE, Hold, annotation, hold_text, read_holds

Operation = dict[str, Any]
Taint = Mapping[str, Any]

CLAIM = "claim"
"""In `what` of a node: we need it closed, and somebody else had closed it; we never open it."""
SEAT = "seat"
"""Name of the taint and toleration that keep room (`trimtab/seat`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """What we read and change of a node."""

    name: str
    is_closed: bool = False
    closer: str | None = None
    """Field manager that closed it, where the server says."""
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()

    def is_closed_by_us(self, manager: str) -> bool:
        """Whether the cordon that stands is ours: some hold claims it, and nobody has set it anew since."""
        claimed = any(CORDON in one.what for one in self.holds)
        return self.is_closed and claimed and self.closer in (None, manager)

    def hold(self, mark: str, workload: str | None = None) -> Hold:
        """What a command holds here, by itself or for one workload; empty where nothing."""
        return next((one for one in self.holds if _key(one) == (mark, workload)), Hold(mark=mark, workload=workload))

    def with_hold(self, hold: Hold) -> Face:
        """The same with one hold changed; one that holds nothing goes."""
        is_known = any(_key(one) == _key(hold) for one in self.holds)
        holds = [hold if _key(one) == _key(hold) else one for one in self.holds]
        holds += [] if is_known else [hold]
        return replace(self, holds=tuple(one for one in holds if one.what or one.seats))


def _key(hold: Hold) -> tuple[str, str | None]:
    return hold.mark, hold.workload


def value_of(mark: str) -> str:
    """A mark as a taint's, label's or toleration's value: `3fa9c1-R11`; without a ledger `R11`."""
    return mark.removeprefix("trimtab:").replace(":", "-")


def mark_of_value(value: str) -> str | None:
    """The mark behind such a value; None where it is none of ours."""
    mark = f"trimtab:{value.replace('-', ':')}"
    return mark if read_mark(mark) is not None else None


def taint_text(taint: Taint) -> str:
    """`trimtab/seat=3fa9c1-R11:NoSchedule`, of the taint as the server sends it."""
    return f"{taint.get('key', '')}={taint.get('value') or ''}:{taint.get('effect', '')}"


def face_of(node: Mapping[str, Any], prefix: str) -> Face:
    """The face of a Node as the server sends it."""
    metadata, spec = node.get("metadata") or {}, node.get("spec") or {}
    return Face(
        name=metadata.get("name", ""),
        is_closed=bool(spec.get("unschedulable")),
        closer=_closer(metadata),
        taints=tuple(spec.get("taints") or ()),
        labels=metadata.get("labels") or {},
        holds=tuple(one for one in read_holds(metadata.get("annotations") or {}, prefix) if one.mark != UNREADABLE),
    )


def _closer(metadata: Mapping[str, Any]) -> str | None:
    for managed in metadata.get("managedFields") or ():
        if "f:unschedulable" in ((managed.get("fieldsV1") or {}).get("f:spec") or {}):
            return str(managed.get("manager") or "")
    return None


def opened(face: Face, mark: str, manager: str) -> Face:
    """The face without one command's cordon or claim. The node opens when the cordon was ours and nobody else's."""
    hold = face.hold(mark)
    rest = tuple(what for what in hold.what if what not in (CORDON, CLAIM))
    without = face.with_hold(changed(hold, what=rest, lasts=False))
    is_still_ours = any(CORDON in one.what for one in without.holds)
    if CORDON in hold.what and face.is_closed_by_us(manager) and not is_still_ours:
        without = replace(without, is_closed=False)
    return without


def given_back(face: Face, mark: str, manager: str, *, keeps_cordon: bool) -> Face:
    """The face without anything that one command holds; with `keeps_cordon` a lasting cordon stays."""
    hold = face.hold(mark)
    without = taken_off(replace(face, holds=tuple(one for one in face.holds if one.mark != mark or one == hold)), hold)
    rest = tuple(what for what in hold.what if what in (CORDON, CLAIM))
    without = without.with_hold(changed(hold, what=rest, seats=()))
    return without if keeps_cordon and hold.lasts and CORDON in rest else opened(without, mark, manager)


def taken_off(face: Face, hold: Hold) -> Face:
    """The face without the taints and labels of a hold, but for what others of our commands hold too."""
    shared = {what for one in face.holds if one.mark != hold.mark for what in one.what}
    ours = [what.partition(" ")[::2] for what in hold.what if what not in shared]
    taints = {text for kind, text in ours if kind == "taint"}
    labels = dict(text.split("=", 1) for kind, text in ours if kind == "label")
    return replace(
        face,
        taints=tuple(taint for taint in face.taints if taint_text(taint) not in taints),
        labels={key: value for key, value in face.labels.items() if labels.get(key) != value},
    )


def patch_between(node: Mapping[str, Any], old: Face, new: Face, prefix: str) -> list[Operation]:
    """The JSON patch from one face to another; empty when nothing changes.

    Raises SchedulerRefused where it would write over an annotation that cannot be read.
    """
    operations = [
        *_of_spec(node, old, new),
        *_of_labels(node, old, new),
        *_of_annotation(node, new, prefix),
    ]
    if not operations:
        return []
    version = (node.get("metadata") or {}).get("resourceVersion")
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *operations]


def _of_spec(node: Mapping[str, Any], old: Face, new: Face) -> list[Operation]:
    operations: list[Operation] = []
    if new.is_closed and not old.is_closed:
        operations.append({"op": "add", "path": "/spec/unschedulable", "value": True})
    elif old.is_closed and not new.is_closed:
        operations.append({"op": "remove", "path": "/spec/unschedulable"})
    kept = {taint_text(taint) for taint in new.taints}
    for index in reversed(range(len(old.taints))):
        if taint_text(old.taints[index]) not in kept:
            path = f"/spec/taints/{index}"
            operations += [
                {"op": "test", "path": path, "value": old.taints[index]},
                {"op": "remove", "path": path},
            ]
    known = {taint_text(taint) for taint in old.taints}
    added = [taint for taint in new.taints if taint_text(taint) not in known]
    if added and "taints" not in (node.get("spec") or {}):
        return [*operations, {"op": "add", "path": "/spec/taints", "value": added}]
    return [*operations, *({"op": "add", "path": "/spec/taints/-", "value": taint} for taint in added)]


def _of_labels(node: Mapping[str, Any], old: Face, new: Face) -> list[Operation]:
    gone = [key for key in old.labels if key not in new.labels]
    operations: list[Operation] = [{"op": "remove", "path": f"/metadata/labels/{escaped(key)}"} for key in gone]
    added = {key: value for key, value in new.labels.items() if old.labels.get(key) != value}
    return [*operations, *map_operations((node.get("metadata") or {}).get("labels"), "/metadata/labels", added)]


def _of_annotation(node: Mapping[str, Any], new: Face, prefix: str) -> list[Operation]:
    annotations = (node.get("metadata") or {}).get("annotations")
    key, text = annotation(prefix), hold_text(new.holds)
    if any(one.mark == UNREADABLE for one in read_holds(annotations or {}, prefix)):
        if text is None:
            return []  # nothing of ours is to be written, so what nobody can read stays for a person to look at
        how = f"Look at it, then: kubectl annotate node {new.name} {key}-"
        raise SchedulerRefused(f"The annotation {key} of node {new.name} cannot be read and is not written over. {how}")
    if text is None:
        is_there = key in (annotations or {})
        return [{"op": "remove", "path": f"/metadata/annotations/{escaped(key)}"}] if is_there else []
    if (annotations or {}).get(key) == text:
        return []
    return map_operations(annotations, "/metadata/annotations", {key: text})


def map_operations(there: Mapping[str, Any] | None, path: str, added: Mapping[str, str]) -> list[Operation]:
    """Operations that put keys into a map, making the map where there is none."""
    if not added:
        return []
    if not there:
        return [{"op": "add", "path": path, "value": dict(added)}]
    return [{"op": "add", "path": f"{path}/{escaped(key)}", "value": value} for key, value in added.items()]


def escaped(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
