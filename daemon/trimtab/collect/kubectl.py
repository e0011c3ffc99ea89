"""Nodes and pods as `kubectl get … -o json|yaml` gives them, with the GPUs they have or ask. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.collect.documents import Document, at, labels_of, quantity, table_of, tables_of, text_at, whole
from trimtab.collect.kernel_message import read_message

GPU = "nvidia.com/gpu"
_GPU_RESOURCE = re.compile(
    r"^(?:nvidia\.com/(?:gpu(?:\.shared)?|mig-[\w.]+)|amd\.com/gpu|habana\.ai/gaudi\d?|huawei\.com/\w+|"
    r"cambricon\.com/\w*mlu\w*|volcano\.sh/vgpu-number|[\w.-]+/gpu)$"
)
_HAMI_REGISTER = "hami.io/node-nvidia-register"
_STANDARD_CONDITIONS = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "ReadonlyFilesystem"}
)
_MIG_PRODUCT = re.compile(r"-MIG-(\d+)g\.(\d+)gb", re.IGNORECASE)
_COMPUTE_SLICES = 7
"""Compute slices of a card that can be split: seven of 1g, three of 2g, one of 4g."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HamiDevice:
    """A card as HAMi registers it on its node."""

    uuid: str
    count: int
    mem_mib: int
    numa: int
    health: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemCondition:
    """A condition of a problem detector that stands at True; these are never cleared by themselves."""

    type: str
    status: str
    message: str
    xid: int | None = None
    pci: str | None = None
    age_days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNode:
    """A node and its GPUs. None = cannot be told from this file, never 0."""

    name: str
    capacity: Mapping[str, int] | None
    allocatable: Mapping[str, int] | None
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: int | None = None
    """Physical cards."""
    slots: int | None = None
    """What the scheduler hands out where cards are shared."""
    slices: int | None = None
    slice_memory_mib: int | None = None
    is_layout_invalid: bool = False
    is_schedulable: bool = True
    is_ready: bool = True
    hami: tuple[HamiDevice, ...] = ()
    conditions: tuple[ProblemCondition, ...] = ()

    @property
    def allocatable_gpus(self) -> int:
        """Whole GPUs that a pod can be given; 0 where cards are split or shared."""
        if self.slices is not None or self.slots is not None or self.allocatable is None:
            return 0
        return self.allocatable.get(GPU, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePod:
    """A pod and what it asks. `gpus` is what counts for placement, `gpus_used` what runs after its start."""

    namespace: str
    name: str
    node: str | None = None
    phase: str | None = None
    reason: str | None = None
    priority: int = 0
    queue: str | None = None
    owner: str | None = None
    gpus: int = 0
    gpus_used: int = 0
    vgpus: int = 0
    vgpu_memory_mib: int | None = None
    vgpu_memory_percent: int | None = None
    vgpu_cores: int | None = None
    vgpu_mode: str | None = None
    distinct_cards: int = 0
    annotated: tuple[str, int, int] | None = None
    """Device that an annotation names: UUID, MiB, cores."""
    has_init_gpus: bool = False
    is_terminating: bool = False
    scheduling_message: str | None = None
    is_gated: bool = False
    """Held back by a scheduling gate, as Kueue does while there is no quota."""
    created_at: datetime | None = None
    started_at: datetime | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def holds_gpus(self) -> bool:
        """Whether it holds what it asked; a terminating pod still does."""
        return self.node is not None and self.phase not in ("Failed", "Succeeded")


def gpu_resources(table: Document) -> dict[str, int] | None:
    """The accelerator entries of a resource list; None where there is no list at all."""
    if not isinstance(table, Mapping):
        return None
    found = {str(key): whole(value) for key, value in table.items() if _GPU_RESOURCE.match(str(key))}
    return {key: value for key, value in found.items() if value is not None}


def name_of(item: Mapping[str, Document]) -> str:
    """The object's name, or the prefix it will get one from."""
    return text_at(item, "metadata", "name") or text_at(item, "metadata", "generateName") or "(no name)"


def key_of(item: Mapping[str, Document]) -> str:
    """`namespace/name`."""
    return f"{text_at(item, 'metadata', 'namespace') or 'default'}/{name_of(item)}"


def read_node(item: Mapping[str, Document]) -> KubeNode:
    """A Node object."""
    labels = labels_of(item, "metadata", "labels")
    capacity, allocatable = (
        gpu_resources(at(item, "status", "capacity")),
        gpu_resources(at(item, "status", "allocatable")),
    )
    hami = _read_hami(labels_of(item, "metadata", "annotations").get(_HAMI_REGISTER, ""))
    product = labels.get("nvidia.com/gpu.product", "")
    is_invalid = product.endswith("-MIG-INVALID")
    mig = _MIG_PRODUCT.search(product)
    handed_out = allocatable or capacity or {}
    count, replicas = whole(labels.get("nvidia.com/gpu.count")), whole(labels.get("nvidia.com/gpu.replicas")) or 1
    slots = handed_out.get("nvidia.com/gpu.shared") or handed_out.get(GPU, 0)
    slices = slots if mig else None
    return KubeNode(
        name=name_of(item),
        capacity=capacity,
        allocatable=allocatable,
        labels=labels,
        gpus=None
        if is_invalid
        else _cards(
            hami=hami, mig=mig, slots=slots, count=count, replicas=replicas, handed_out=handed_out, capacity=capacity
        ),
        slots=sum(device.count for device in hami) if hami else slots if replicas > 1 else None,
        slices=slices,
        slice_memory_mib=whole(labels.get("nvidia.com/gpu.memory")) if mig else None,
        is_layout_invalid=is_invalid,
        is_schedulable=at(item, "spec", "unschedulable") is not True,
        is_ready=_is_ready(item),
        hami=hami,
        conditions=tuple(_problems(item)),
    )


def _cards(
    *,
    hami: tuple[HamiDevice, ...],
    mig: re.Match[str] | None,
    slots: int,
    count: int | None,
    replicas: int,
    handed_out: Mapping[str, int],
    capacity: Mapping[str, int] | None,
) -> int | None:
    if hami:
        return len(hami)
    if mig:
        per_card = max(_COMPUTE_SLICES // int(mig[1]), 1) if int(mig[1]) else 1
        return -(-slots // per_card) if slots else None
    if replicas > 1:
        return count or (slots // replicas if slots else None)
    whole_cards = [value for key, value in {**handed_out, **(capacity or {})}.items() if "mig-" not in key]
    return max(whole_cards, default=count)


def _is_ready(item: Mapping[str, Document]) -> bool:
    ready = [one for one in tables_of(at(item, "status", "conditions")) if one.get("type") == "Ready"]
    return all(text_at(one, "status") in ("True", "true") for one in ready)


def _read_hami(register: str) -> tuple[HamiDevice, ...]:
    """`uuid,count,devmem,devcore,type,numa,health:` per card; the last colon ends the last card."""
    devices = []
    for part in register.split(":"):
        cells = [cell.strip() for cell in part.split(",")]
        if len(cells) >= 7 and all((whole(cells[place]) is not None) for place in (1, 2, 5)):
            devices.append(
                HamiDevice(
                    uuid=cells[0],
                    count=whole(cells[1]) or 0,
                    mem_mib=whole(cells[2]) or 0,
                    numa=whole(cells[5]) or 0,
                    health=cells[6].lower() == "true",
                )
            )
    return tuple(devices)


def _problems(item: Mapping[str, Document]) -> Iterable[ProblemCondition]:
    for one in tables_of(at(item, "status", "conditions")):
        kind, status = text_at(one, "type") or "", text_at(one, "status") or ""
        if kind in _STANDARD_CONDITIONS or status.lower() != "true":
            continue
        message = text_at(one, "message") or ""
        said = read_message(message)
        yield ProblemCondition(
            type=kind,
            status=status,
            message=message,
            xid=said.code if said.kind == "xid" and isinstance(said.code, int) else None,
            pci=said.pci,
            age_days=_days(text_at(one, "lastTransitionTime"), text_at(one, "lastHeartbeatTime")),
        )


def moment(text: str | None) -> datetime | None:
    """An ISO 8601 moment; None where the text is none."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _days(first: str | None, last: str | None) -> int | None:
    began, ended = moment(first), moment(last)
    return (ended - began).days if began and ended else None


def read_pod(item: Mapping[str, Document]) -> KubePod:
    """A Pod object."""
    asked = containers_ask(at(item, "spec"))
    labels, annotations = labels_of(item, "metadata", "labels"), labels_of(item, "metadata", "annotations")
    owners = tables_of(at(item, "metadata", "ownerReferences"))
    return KubePod(
        namespace=text_at(item, "metadata", "namespace") or "default",
        name=name_of(item),
        node=text_at(item, "spec", "nodeName"),
        phase=text_at(item, "status", "phase"),
        reason=text_at(item, "status", "reason"),
        priority=whole(at(item, "spec", "priority")) or 0,
        queue=labels.get("volcano.sh/queue-name") or labels.get("kueue.x-k8s.io/queue-name"),
        owner=f"{owners[0].get('kind')}/{owners[0].get('name')}" if owners else None,
        gpus=0 if asked.vgpus else asked.gpus,
        gpus_used=0 if asked.vgpus else asked.gpus_used,
        vgpus=asked.vgpus,
        vgpu_memory_mib=asked.memory_mib,
        vgpu_memory_percent=asked.memory_percent,
        vgpu_cores=asked.cores,
        vgpu_mode=annotations.get("nvidia.com/vgpu-mode"),
        distinct_cards=asked.distinct_cards,
        annotated=_annotated(annotations.get("volcano.sh/devices-to-allocate", "")),
        has_init_gpus=asked.has_init,
        is_terminating=at(item, "metadata", "deletionTimestamp") is not None,
        is_gated=bool(tables_of(at(item, "spec", "schedulingGates"))),
        created_at=moment(text_at(item, "metadata", "creationTimestamp")),
        started_at=moment(text_at(item, "status", "startTime")),
        scheduling_message=next(
            (
                text_at(one, "message")
                for one in tables_of(at(item, "status", "conditions"))
                if one.get("type") == "PodScheduled" and text_at(one, "status") in ("False", "false")
            ),
            None,
        ),
    )


def _annotated(text: str) -> tuple[str, int, int] | None:
    cells = text.split(":", 1)[0].split(",")
    if len(cells) < 4:
        return None
    memory, cores = whole(cells[2]), whole(cells[3])
    return (cells[0], memory, cores) if memory is not None and cores is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the containers of one pod ask together."""

    gpus: int = 0
    gpus_used: int = 0
    vgpus: int = 0
    memory_mib: int | None = None
    memory_percent: int | None = None
    cores: int | None = None
    distinct_cards: int = 0
    has_init: bool = False
    resource: str | None = None
    amounts: Mapping[str, float] = field(default_factory=dict)


def containers_ask(spec: Document) -> Asked:
    """Limits count where requests are missing. An init container runs before: the larger of both, not the sum."""
    main = [_amounts(one) for one in tables_of(at(spec, "containers"))]
    initial = tables_of(at(spec, "initContainers"))
    main += [_amounts(one) for one in initial if one.get("restartPolicy") == "Always"]
    before = [_amounts(one) for one in initial if one.get("restartPolicy") != "Always"]
    used = sum(_gpus(one) for one in main)
    first = max((_gpus(one) for one in before), default=0)
    shares = [share for one in main if (share := _share(one)) is not None]
    memories = [share.memory_mib * share.vgpus for share in shares if share.memory_mib is not None]
    amounts: dict[str, float] = {}
    for one in main:
        for key, value in one.items():
            amounts[key] = amounts.get(key, 0.0) + value
    return Asked(
        gpus=max(used, first),
        gpus_used=used,
        vgpus=sum(share.vgpus for share in shares),
        memory_mib=sum(memories) if memories else None,
        memory_percent=next((share.memory_percent for share in shares if share.memory_percent is not None), None),
        cores=next((share.cores for share in shares if share.cores is not None), None),
        distinct_cards=max((share.vgpus for share in shares), default=0),
        has_init=first > 0,
        resource=next((key for one in main for key in one if _GPU_RESOURCE.match(key)), None),
        amounts=amounts,
    )


def _amounts(container: Mapping[str, Document]) -> dict[str, float]:
    limits, requests = table_of(at(container, "resources", "limits")), table_of(at(container, "resources", "requests"))
    found = {str(key): quantity(value) for key, value in {**limits, **requests}.items()}
    return {key: value for key, value in found.items() if value is not None}


def _gpus(amounts: Mapping[str, float]) -> int:
    return int(sum(value for key, value in amounts.items() if _GPU_RESOURCE.match(key)))


def _share(amounts: Mapping[str, float]) -> Asked | None:
    """What one container asks of shared cards, in HAMi's or Volcano's words; None for whole GPUs."""
    number = amounts.get("volcano.sh/vgpu-number")
    if number is not None:
        memory, cores = amounts.get("volcano.sh/vgpu-memory"), amounts.get("volcano.sh/vgpu-cores")
        return Asked(vgpus=int(number), memory_mib=_int(memory), cores=_int(cores))
    words = ("gpumem", "gpumem-percentage", "gpucores")
    memory, percent, cores = (amounts.get(f"nvidia.com/{word}") for word in words)
    if GPU not in amounts or (memory is None and percent is None and cores is None):
        return None
    return Asked(vgpus=int(amounts[GPU]), memory_mib=_int(memory), memory_percent=_int(percent), cores=_int(cores))


def _int(value: float | None) -> int | None:
    return None if value is None else int(value)
