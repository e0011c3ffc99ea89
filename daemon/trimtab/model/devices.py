"""What the agents say of a node's devices: which GPU is which, and which pod holds it. Made of a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from trimtab.model.reading import GpuReading, GpuState
from trimtab.model.window import GpuNow, NodeNow, Window

AGE_SECONDS_MAX = 60.0
"""What a node said longer ago, and longer than three of its intervals, says nothing of who holds what now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU, or one MIG instance (`GPU-…/gi/ci`), as the node's agent sees it."""

    uuid: str
    index: int | None = None
    model: str | None = None
    holders: tuple[str, ...] = ()
    """Pods that hold it, `namespace/pod`; more than one where it is shared."""
    is_ok: bool = True
    is_slice: bool = False
    """Whether it is a MIG instance of a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevices:
    """A node's devices."""

    devices: tuple[Device, ...]

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The whole GPUs, by index."""
        return tuple(one for one in self.devices if not one.is_slice)


def devices_of(window: Window) -> Mapping[str, NodeDevices]:
    """Node -> its devices, of the nodes that reported lately; what a node no longer names is not there."""
    found: dict[str, list[Device]] = {}
    fresh = {name: node for name, node in window.nodes.items() if is_fresh(node, window.at)}
    for key, now in window.gpus.items():
        node = fresh.get(key.node)
        if node is None or not _is_of_last_report(now, node):
            continue
        devices = found.get(key.node)
        if devices is None:
            devices = found[key.node] = []
        devices.append(_gpu(now.reading))
        if now.reading.instances:
            devices += _slices(now.reading)
    return {name: _node_devices(devices) for name, devices in found.items()}


def is_fresh(node: NodeNow, at: datetime) -> bool:
    """Whether a node has reported lately enough to say who holds what now."""
    return (at - node.received_at).total_seconds() <= max(AGE_SECONDS_MAX, 3 * node.interval_seconds)


def _is_of_last_report(now: GpuNow, node: NodeNow) -> bool:
    if now.received_at == node.received_at:
        return True
    return (node.received_at - now.received_at).total_seconds() <= 1.5 * node.interval_seconds


def _node_devices(devices: list[Device]) -> NodeDevices:
    devices.sort(key=_order)
    return NodeDevices(devices=tuple(devices))


def _order(device: Device) -> tuple[int, str]:
    return (1 << 30 if device.index is None else device.index), device.uuid


def _gpu(reading: GpuReading) -> Device:
    info = reading.info
    return Device(
        uuid=info.uuid,
        index=info.index,
        model=info.model,
        holders=_pods(reading.holder, reading.shared_by),
        is_ok=reading.state is GpuState.OK,
    )


def _slices(reading: GpuReading) -> Iterable[Device]:
    for each in reading.instances:
        parts = [reading.uuid, str(each.gi), *([] if each.ci is None else [str(each.ci)])]
        yield Device(
            uuid="/".join(parts),
            index=reading.info.index,
            model=reading.info.model,
            holders=_pods(each.holder, ()),
            is_ok=reading.state is GpuState.OK,
            is_slice=True,
        )


@lru_cache(maxsize=65_536)
def _pods(holder: str | None, shared_by: tuple[str, ...]) -> tuple[str, ...]:
    """Those holders that are pods: a job id of another scheduler says nothing here."""
    names = dict.fromkeys((*(holder or "").split(", "), *shared_by))
    return tuple(name for name in names if name.count("/") == 1)
