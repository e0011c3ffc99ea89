"""GPUs handed out by DRA: which devices a node offers, and which of them a claim holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.model.devices import Device
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.objects import Loose
from trimtab.schedulers.pods import NOTHING, Need, Resources

SLICES, CLAIMS, RULES = (
    "resourceslices.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "devicetaintrules.resource.k8s.io",
)
PART = "mig (DRA)"
"""Under this name MIG instances that a claim holds are counted."""
_KEEPS_OFF = ("NoSchedule", "NoExecute")
Place = tuple[str, str]
"""Pool and device: a device's name in its driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraDevice:
    """One device of a slice."""

    node: str
    device: Device
    is_gpu: bool
    is_closed: bool
    is_separable: bool = False
    """Whether a rule of ours can close it: the cluster serves them."""
    closed_by: str | None = None
    """The mark of the command whose rule closes it."""


class Dra:
    """The DRA objects of one moment, for one driver."""

    def __init__(self, others: Mapping[str, Mapping[str, Loose]], resources: Resources, prefix: str) -> None:
        """Look at slices, claims and taint rules."""
        self._driver = resources.driver
        self._claims = others.get(CLAIMS, {})
        slices = [one for one in others.get(SLICES, {}).values() if one.spec.get("driver") == self._driver]
        closed = _closed_by_rules(others.get(RULES, {}).values(), self._driver, prefix) if slices else []
        has_rules = RULES in others
        self._devices = {
            place: device for one in slices for place, device in _devices_of(one, closed, has_rules=has_rules)
        }
        self.by_node: dict[str, list[DraDevice]] = {}
        for found in self._devices.values():
            if found.is_gpu:
                self.by_node.setdefault(found.node, []).append(found)

    def need(self, claims: Iterable[str]) -> Need:
        """Devices that these claims hold, or ask for where nothing is allocated yet."""
        gpus = parts = 0
        for key in claims:
            claim = self._claims.get(key)
            if claim is None:
                continue
            held = list(self._held(claim))
            gpus += sum(one.is_gpu for one in held)
            parts += sum(not one.is_gpu for one in held)
            gpus += 0 if held else self._asked(claim)
        return Need(gpus=gpus, parts=((PART, parts),) if parts else ()) if gpus or parts else NOTHING

    def gpus(self, claims: Iterable[str]) -> tuple[str, ...]:
        """UUIDs of the whole GPUs that these claims hold."""
        found = (self._claims.get(key) for key in claims)
        return tuple(one.device.uuid for claim in found if claim is not None for one in self._held(claim) if one.is_gpu)

    def _held(self, claim: Loose) -> Iterator[DraDevice]:
        allocation = claim.status.get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            if result.get("driver") == self._driver and not result.get("adminAccess"):
                found = self._devices.get((str(result.get("pool")), str(result.get("device"))))
                if found is not None:
                    yield found

    def _asked(self, claim: Loose) -> int:
        """Whole GPUs that an unallocated claim asks for, by the name of its device class."""
        requests = (claim.spec.get("devices") or {}).get("requests") or ()
        exact = [one.get("exactly") or one for one in requests]
        return sum(int(one.get("count") or 1) for one in exact if one.get("deviceClassName") == self._driver)


def _devices_of(
    item: Loose, closed: Sequence[tuple[Mapping[str, Any], str | None]], *, has_rules: bool
) -> Iterator[tuple[Place, DraDevice]]:
    pool = str((item.spec.get("pool") or {}).get("name", ""))
    node = str(item.spec.get("nodeName") or "")
    for entry in item.spec.get("devices") or ():
        name = str(entry.get("name", ""))
        attributes = entry.get("attributes") or (entry.get("basic") or {}).get("attributes") or {}
        kind = _text(attributes, "type") or ("gpu" if name.startswith("gpu-") else "")
        index = (attributes.get("index") or {}).get("int")
        covering = [mark for selector, mark in closed if _covers(selector, pool, name)]
        yield (
            (pool, name),
            DraDevice(
                node=node,
                device=Device(
                    uuid=_text(attributes, "uuid") or f"{node}#{name}",
                    index=index if isinstance(index, int) else _number(name),
                    model=_text(attributes, "productName") or None,
                ),
                is_gpu=kind == "gpu",
                is_closed=_is_tainted(entry.get("taints") or ()) or bool(covering),
                is_separable=has_rules and bool(_text(attributes, "uuid")),
                closed_by=next((mark for mark in covering if mark is not None), None),
            ),
        )


def _text(attributes: Mapping[str, Any], name: str) -> str:
    return str((attributes.get(name) or {}).get("string") or "")


def _number(name: str) -> int | None:
    end = name.rpartition("-")[2]
    return int(end) if end.isdecimal() else None


def _is_tainted(taints: Iterable[Mapping[str, Any]]) -> bool:
    return any(taint.get("effect") in _KEEPS_OFF for taint in taints)


def _closed_by_rules(rules: Iterable[Loose], driver: str, prefix: str) -> list[tuple[Mapping[str, Any], str | None]]:
    """Selectors of the rules that keep work off devices of this driver, each with our mark where it is ours."""
    found = []
    for rule in rules:
        selector = rule.spec.get("deviceSelector") or {}
        if _is_tainted([rule.spec.get("taint") or {}]) and selector.get("driver", driver) == driver:
            holds = read_holds(rule.metadata.annotations, prefix)
            found.append((selector, holds[0].mark if holds else None))
    return found


def _covers(selector: Mapping[str, Any], pool: str, device: str) -> bool:
    return bool(selector.get("pool", pool) == pool and selector.get("device", device) == device)
