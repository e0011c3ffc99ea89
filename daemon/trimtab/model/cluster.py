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
    is_separable: bool = False
    """Whether it can be taken out of service alone, while its node goes on (a DRA device taint)."""
    tainted_by: str | None = None
    """The mark of the command that has done so."""


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
    pool: str | None = None
    """Nodes of one pool (flavor, node group) are alike; work is moved within it."""
    why_closed: str | None = None
    """What keeps off all work that does not tolerate it (`taint dedicated=research`); None = nothing."""

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
    opt_out_reason: str = ""
    """Which mark says so, for the sentence of a refusal: `karpenter.sh/do-not-disrupt on pod a-0`."""
    not_before: datetime | None = None
    is_ask_first: bool = False
    ask_url: str | None = None
    """Whom to ask before a move; None = the one of the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """Between how many pods a job can run, and who changes that: `torchrun`, `kueue` or `volcano`."""

    pods_min: int
    pods_max: int
    by: str


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
    """The command that stopped it (`trimtab:3fa9c1:R12`), where it is ours."""
    replace_seconds: float | None = None
    """How long one replaced pod takes to run again, where `can_replace_pod`."""
    stop_seconds: float = 0.0
    """How long its pods may take to end: their grace period."""
    together: str | None = None
    """All pods must be in one domain of this topology: `rack`; None = anywhere."""
    pool: str | None = None
    """The pool that its pods must stay in; None = any."""
    tolerates: tuple[str, ...] = ()
    """What of `Node.why_closed` does not keep it off."""
    why_fixed: str | None = None
    """Why it cannot be moved at all (no controller brings it back, a static pod, a PDB), as the end of a sentence."""
    elastic: Elastic | None = None

    @property
    def gpus(self) -> int:
        """GPUs that it holds when it runs."""
        return self.pods * self.gpus_per_pod

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes that it runs on, in rank order, each once."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements))

    def may_use(self, node: Node) -> bool:
        """Whether one of its pods could ever be placed there: its pool, and nothing that keeps it off."""
        return (self.pool is None or node.pool == self.pool) and (
            node.why_closed is None or node.why_closed in self.tolerates
        )

    @property
    def is_running(self) -> bool:
        """Whether it holds GPUs and works or is about to."""
        return self.state in (WorkloadState.RUNNING, WorkloadState.STARTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue and its quota in GPUs; None = no quota known."""

    name: str
    gpus_quota: int | None = None
    cohort: str | None = None
    """Queues of one cohort borrow from each other."""
    held_by: str | None = None
    """Who keeps it from admitting anything: a command's mark, or `somebody`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Room kept for a workload on a node by a command."""

    node: str
    gpus: int
    workload: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One thing of ours in the cluster: the command's mark and what it is (`taint trimtab/seat on gpu-07`)."""

    mark: str
    what: str
    lasts: bool = False
    """Meant to stay once its command has settled."""
    node: str = ""
    """The node that bears it; empty where another object does."""


@dataclass(frozen=True, kw_only=True)
class ClusterSnapshot:
    """The whole cluster at one moment, as its scheduler says. Made by one reader, whole or not at all."""

    cluster: str
    taken_at: datetime
    nodes: tuple[Node, ...]
    workloads: tuple[Workload, ...]
    queues: tuple[Queue, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    held: tuple[Held, ...] = ()
    """Everything of ours that the cluster bears besides cordons, stopped workloads and reservations."""
    pause_reason: str | None = None
    """Why somebody paused us inside the cluster itself (the pause ConfigMap); None = not paused there."""
    ended_pods: frozenset[str] = frozenset()
    """Pods (`namespace/pod`) that are over and still listed: an agent may go on naming them as holders for a while."""

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
