"""What the cluster is at one moment: nodes, GPUs, workloads, queues, and the one whole snapshot of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class GpuKey:
    """Identity of a GPU: cluster, node, UUID. A MIG instance's uuid is `GPU-…/gi` or `GPU-…/gi/ci`."""

    cluster: str
    node: str
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as the scheduler sees it. `is_usable` is False when it, not we, took the GPU out of service."""

    uuid: str
    index: int
    model: str | None = None
    is_usable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as the scheduler sees it. `cordoned_by` names the command (`trimtab:C11`) or person, where known."""

    name: str
    gpus: tuple[Gpu, ...]
    rack: str | None = None
    is_ready: bool = True
    is_cordoned: bool = False
    cordoned_by: str | None = None
    is_spare: bool = False
    other_mover: str | None = None
    """Another mover at work here (a driver upgrade, NVSentinel …): stand back."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_schedulable(self) -> bool:
        """Whether new work can start here."""
        return self.is_ready and not self.is_cordoned


class WorkloadState(StrEnum):
    """Where a workload stands with its scheduler."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUSPENDED = "suspended"
    """Stopped by us or a person, and not asking for room."""
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One pod of a workload and the GPUs it holds."""

    pod: str
    rank: int
    node: str
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """When the work was last saved, and how often it is; None = unknown (then all since start counts as lost)."""

    last_at: datetime | None = None
    interval_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerWishes:
    """What the job's owner said about being moved."""

    is_opted_out: bool = False
    not_before: datetime | None = None
    is_ask_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The unit that moves. `pods` × `gpus_per_pod` GPUs; a gang moves whole unless `can_replace_pod`."""

    id: str
    name: str
    controller: str
    pods: int
    gpus_per_pod: int
    state: WorkloadState
    is_gang: bool = True
    queue: str | None = None
    tenant: str | None = None
    owner: str | None = None
    priority: int = 0
    is_preemptible: bool = True
    can_replace_pod: bool = False
    placements: tuple[Placement, ...] = ()
    checkpoint: Checkpoint = Checkpoint()
    wishes: OwnerWishes = OwnerWishes()
    restart_seconds: float | None = None
    started_at: datetime | None = None
    waiting_since: datetime | None = None
    waiting_reason: str | None = None
    """`quota` or `placement` or the scheduler's own words; a quota reason is never answered by a move."""
    suspended_by: str | None = None
    """The command that stopped it (`trimtab:C12`), where it is ours."""

    @property
    def gpus(self) -> int:
        """GPUs that it holds when it runs."""
        return self.pods * self.gpus_per_pod

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes that it runs on, in rank order, each once."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements))

    @property
    def is_running(self) -> bool:
        """Whether it holds GPUs and works or is about to."""
        return self.state in (WorkloadState.RUNNING, WorkloadState.STARTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue and its quota in GPUs; None = no quota known."""

    name: str
    gpus_quota: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Room kept for a workload on a node by a command."""

    node: str
    gpus: int
    workload: str
    command: str


@dataclass(frozen=True, kw_only=True)
class ClusterSnapshot:
    """The whole cluster at one moment, as its scheduler says. Made by one reader, whole or not at all."""

    cluster: str
    taken_at: datetime
    nodes: tuple[Node, ...]
    workloads: tuple[Workload, ...]
    queues: tuple[Queue, ...] = ()
    reservations: tuple[Reservation, ...] = ()

    @cached_property
    def node_by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def workload_by_id(self) -> Mapping[str, Workload]:
        """Workloads by id."""
        return {workload.id: workload for workload in self.workloads}

    @cached_property
    def holders(self) -> Mapping[tuple[str, str], Workload]:
        """(node, GPU UUID) -> the workload that holds it; terminating pods still hold theirs."""
        return {
            (placement.node, gpu): workload
            for workload in self.workloads
            for placement in workload.placements
            for gpu in placement.gpus
        }

    @cached_property
    def free_gpus(self) -> Mapping[str, tuple[Gpu, ...]]:
        """Schedulable node -> its usable GPUs that nobody holds. Reservations are not taken off."""
        return {
            node.name: tuple(gpu for gpu in node.gpus if gpu.is_usable and (node.name, gpu.uuid) not in self.holders)
            for node in self.nodes
            if node.is_schedulable
        }

    @property
    def waiting(self) -> tuple[Workload, ...]:
        """Workloads that wait, longest first."""
        found = [workload for workload in self.workloads if workload.state is WorkloadState.WAITING]
        return tuple(sorted(found, key=lambda workload: (workload.waiting_since or self.taken_at, workload.id)))
