"""Which GPU is held by which pod: as the agents or DRA say, else by placeholders that no real UUID can equal. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from trimtab.model.cluster import Gpu
from trimtab.model.devices import Device, NodeDevices
from trimtab.schedulers.devices_read import DraDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a node's device plugin says: GPUs that there are, and those that it gives out."""

    name: str
    capacity: int
    allocatable: int
    model: str | None
    is_parted: bool = False
    """Its GPUs are given out in parts (time-slicing, or MIG under the name of whole GPUs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A pod on the node: how many whole GPUs it takes, and those that are certain."""

    pod: str
    uid: str
    gpus: int
    certain: tuple[str, ...] = ()


def gpus_of(offer: Offer, known: NodeDevices | None, dra: Sequence[DraDevice]) -> tuple[Gpu, ...]:
    """A node's GPUs by index. Those that nothing gives out are not usable: sick ones, parents of MIG instances."""
    devices = known.gpus if known is not None else tuple(one.device for one in dra)
    ours = {one.device.uuid: one for one in dra}
    whole = [_gpu(device, number, offer, ours.get(device.uuid)) for number, device in enumerate(devices)]
    placeholders = _placeholders(offer, {gpu.index for gpu in whole}, offer.capacity + len(dra) - len(whole))
    gpus = sorted([*whole, *placeholders], key=lambda gpu: (gpu.index, gpu.uuid))
    offered = offer.allocatable + sum(not one.is_closed for one in dra)
    if offer.is_parted or len(gpus) <= offered:
        return tuple(gpus)
    closed = {one.device.uuid for one in dra if one.is_closed}
    worst = sorted(gpus, key=lambda gpu: _doubt(gpu, known, closed), reverse=True)
    out = {gpu.uuid for gpu in worst[: len(gpus) - offered]}
    return tuple(replace(gpu, is_usable=False) if gpu.uuid in out else gpu for gpu in gpus)


def _gpu(device: Device, number: int, offer: Offer, dra: DraDevice | None) -> Gpu:
    return Gpu(
        uuid=device.uuid,
        index=number if device.index is None else device.index,
        model=device.model or offer.model,
        is_separable=dra is not None and dra.is_separable,
        tainted_by=dra.closed_by if dra is not None else None,
    )


def _placeholders(offer: Offer, used: Collection[int], count: int) -> Iterable[Gpu]:
    index = 0
    for _ in range(max(count, 0)):
        while index in used:
            index += 1
        yield Gpu(uuid=f"{offer.name}#{index}", index=index, model=offer.model)
        index += 1


def _doubt(gpu: Gpu, known: NodeDevices | None, closed: Collection[str]) -> tuple[int, int]:
    """How likely it is this one that nothing gives out; most likely last."""
    if gpu.uuid in closed:
        return 5, gpu.index
    if known is None:
        return 0, gpu.index
    device = next((one for one in known.devices if one.uuid == gpu.uuid), None)
    if device is None:
        return 4, gpu.index  # the plugin counts it, and the driver does not show it
    if not device.is_ok:
        return 3, gpu.index
    if any(one.is_slice and one.uuid.startswith(f"{gpu.uuid}/") for one in known.devices):
        return 2, gpu.index
    return (0 if device.holders else 1), gpu.index


def held_gpus(
    gpus: Sequence[Gpu], known: NodeDevices | None, wants: Sequence[Want], before: Mapping[str, tuple[str, ...]]
) -> Mapping[str, tuple[str, ...]]:
    """Pod -> GPUs that it holds. What agents or DRA say comes first; the rest is dealt out and stays as it was dealt.

    `before`: pod uid -> the GPUs that it was given the last time.
    """
    said = _said(known, {want.pod for want in wants})
    held = {want.pod: _certain(want, said) for want in wants}
    taken = {uuid for uuids in held.values() for uuid in uuids}
    names = {gpu.uuid for gpu in gpus}
    for want in wants:
        kept = [uuid for uuid in before.get(want.uid, ()) if uuid in names and uuid not in taken]
        lacking = max(want.gpus - len(held[want.pod]), 0)
        found = kept[:lacking]
        taken.update(found)
        held[want.pod] = (*held[want.pod], *found)
    spare = sorted((gpu for gpu in gpus if gpu.uuid not in taken), key=lambda gpu: _unlikely(gpu, known, said))
    for want in wants:
        lacking = max(want.gpus - len(held[want.pod]), 0)
        held[want.pod] = (*held[want.pod], *(gpu.uuid for gpu in spare[:lacking]))
        spare = spare[lacking:]
    return held


def _said(known: NodeDevices | None, pods: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Pod -> GPUs that the agent says it holds, MIG instances by their parents, of pods that there are."""
    said: dict[str, dict[str, None]] = {}
    for device in known.devices if known is not None else ():
        parent = device.uuid.partition("/")[0] if device.is_slice else device.uuid
        for pod in device.holders:
            if pod in pods:
                said.setdefault(pod, {})[parent] = None
    return {pod: tuple(found) for pod, found in said.items()}


def _certain(want: Want, said: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    own = tuple(dict.fromkeys((*want.certain, *said.get(want.pod, ()))))
    return own[: want.gpus] if want.gpus else own


def _unlikely(gpu: Gpu, known: NodeDevices | None, said: Mapping[str, tuple[str, ...]]) -> tuple[bool, bool, int]:
    """Least likely last: GPUs that another pod is said to hold, then those that nothing gives out."""
    is_said = any(gpu.uuid in uuids for uuids in said.values())
    is_held = known is not None and any(one.uuid == gpu.uuid and one.holders for one in known.devices)
    return is_said or is_held, not gpu.is_usable, gpu.index
