"""One scheduling cycle's picture of the cluster: tasks, nodes, gangs. Decisions change the picture first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.cluster.volcano.api import Object
from tests.cluster.volcano.objects import (
    Resources,
    annotation,
    condition,
    is_terminating,
    key_of,
    minus,
    phase_of,
    plus,
    quantity,
    requests_of,
    uid_of,
)
from tests.cluster.volcano.vcjobs import GROUP

PENDING, ALLOCATED, PIPELINED, BINDING = "Pending", "Allocated", "Pipelined", "Binding"
BOUND, RUNNING, RELEASING, SUCCEEDED, FAILED = "Bound", "Running", "Releasing", "Succeeded", "Failed"
HAS_RESOURCES = (ALLOCATED, BINDING, BOUND, RUNNING)
IS_READY = (*HAS_RESOURCES, SUCCEEDED)
IS_VALID = (*IS_READY, PIPELINED, PENDING)
IS_SCHEDULED = (RUNNING, BOUND, FAILED, SUCCEEDED)
IS_COMPLETED = (FAILED, SUCCEEDED)


@dataclass(eq=False)
class Task:
    """A pod as the scheduler sees it."""

    pod: Object
    requests: Resources
    status: str
    node: str
    last: tuple[str, str] | None = None
    """What was tried with it in this cycle and taken back: status and node."""
    is_making_room: bool = False
    """Others were evicted for it in this cycle."""

    @property
    def uid(self) -> str:
        return uid_of(self.pod)

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def role(self) -> str:
        return annotation(self.pod, "volcano.sh/task-spec")

    @property
    def order(self) -> tuple[int, str, str]:
        """Priority first, then age, then the pod's index."""
        metadata = self.pod["metadata"]
        return -int(self.pod["spec"].get("priority", 0)), str(metadata["creationTimestamp"]), self.name


@dataclass(eq=False)
class Seat:
    """A node with what is used on it."""

    node: Object
    allocatable: Resources
    used: Resources = field(default_factory=dict)
    releasing: Resources = field(default_factory=dict)
    pipelined: Resources = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def idle(self) -> Resources:
        return minus(self.allocatable, self.used)

    @property
    def future_idle(self) -> Resources:
        return minus(plus(self.idle, self.releasing), self.pipelined)


@dataclass(eq=False)
class Gang:
    """A PodGroup with its tasks."""

    group: Object
    priority: int
    tasks: list[Task] = field(default_factory=list)
    phase: str = ""
    conditions: list[Object] = field(default_factory=list)
    is_unschedulable: bool = False
    """Said in this cycle, not left over from an earlier one."""
    fit_errors: dict[str, str] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        return str(self.group["spec"].get("queue", "default"))

    @property
    def min_member(self) -> int:
        return int(self.group["spec"].get("minMember", 0))

    @property
    def min_resources(self) -> Resources:
        asked = self.group["spec"].get("minResources") or {}
        return {name: quantity(value) for name, value in asked.items() if name in ("cpu", "memory", "nvidia.com/gpu")}

    @property
    def min_per_role(self) -> dict[str, int]:
        members = self.group["spec"].get("minTaskMember") or {}
        return {name: int(value) for name, value in members.items()}

    @property
    def age(self) -> tuple[str, str]:
        return str(self.group["metadata"]["creationTimestamp"]), uid_of(self.group)

    def with_status(self, *statuses: str) -> list[Task]:
        return [task for task in self.tasks if task.status in statuses]

    @property
    def ready_count(self) -> int:
        best_effort = [task for task in self.with_status(PENDING) if not task.requests]
        return len(self.with_status(*IS_READY)) + len(best_effort)

    @property
    def is_ready(self) -> bool:
        """Enough tasks have their place."""
        return self.ready_count >= self.min_member

    @property
    def is_satisfied(self) -> bool:
        """Ready, and every role of it."""
        return self.is_ready and self._has_each_role(IS_READY)

    @property
    def is_pipelined(self) -> bool:
        """Ready once what is on its way out is gone."""
        waiting = len(self.with_status(PIPELINED))
        return waiting + self.ready_count >= self.min_member and self._has_each_role((*IS_READY, PIPELINED))

    @property
    def is_valid(self) -> bool:
        """Enough tasks are there to try."""
        return len(self.with_status(*IS_VALID)) >= self.min_member and self._has_each_role(IS_VALID)

    @property
    def is_starving(self) -> bool:
        return len(self.with_status(*IS_READY, PIPELINED)) < self.min_member

    def _has_each_role(self, statuses: Iterable[str]) -> bool:
        if self.min_member < sum(self.min_per_role.values()):
            return True
        there = [task.role for task in self.with_status(*statuses)]
        return all(there.count(role) >= count for role, count in self.min_per_role.items())

    @property
    def allocated(self) -> Resources:
        total: Resources = {}
        for task in self.with_status(*HAS_RESOURCES):
            total = plus(total, task.requests)
        return total

    def next_phase(self) -> str:
        """The PodGroup's phase as it follows at the end of the cycle."""
        if self.with_status(RUNNING) and self.is_unschedulable:
            return "Unknown"
        scheduled = len(self.with_status(*IS_SCHEDULED))
        if scheduled >= self.min_member:
            return "Completed" if scheduled == len(self.with_status(*IS_COMPLETED)) else "Running"
        return "Inqueue" if self.phase == "Inqueue" else "Pending"


def status_of(pod: Object) -> str:
    """A pod's status in the scheduler's words."""
    phase = phase_of(pod)
    if phase in ("Succeeded", "Failed"):
        return phase
    if is_terminating(pod):
        return RELEASING
    if phase == "Running":
        return RUNNING
    return BOUND if pod["spec"].get("nodeName") else PENDING


@dataclass(eq=False)
class Session:
    """The picture of one cycle."""

    seats: dict[str, Seat]
    gangs: list[Gang]
    queues: dict[str, Object]

    @property
    def total(self) -> Resources:
        """What the nodes have together, the cordoned ones too."""
        total: Resources = {}
        for seat in self.seats.values():
            total = plus(total, seat.allocatable)
        return total

    def gang_of(self, task: Task) -> Gang:
        return next(gang for gang in self.gangs if task in gang.tasks)

    def place(self, task: Task, node: str, status: str) -> None:
        """Gives the task a place in the picture: ALLOCATED now, or PIPELINED once room comes."""
        seat = self.seats[node]
        task.status, task.node = status, node
        if status == PIPELINED:
            seat.pipelined = plus(seat.pipelined, task.requests)
        else:
            seat.used = plus(seat.used, task.requests)

    def take_back(self, task: Task) -> None:
        """Undoes `place`; what had been tried stays known."""
        seat = self.seats[task.node]
        if task.status == PIPELINED:
            seat.pipelined = minus(seat.pipelined, task.requests)
        else:
            seat.used = minus(seat.used, task.requests)
        task.last = (task.status, task.node)
        task.status, task.node = PENDING, ""

    def release(self, task: Task) -> None:
        """The task is being evicted: its resources are on their way out."""
        seat = self.seats[task.node]
        seat.releasing = plus(seat.releasing, task.requests)
        task.status = RELEASING

    def restore(self, task: Task) -> None:
        """Undoes `release`."""
        seat = self.seats[task.node]
        seat.releasing = minus(seat.releasing, task.requests)
        task.status = RUNNING


def open_session(
    *,
    nodes: Iterable[Object],
    pods: Iterable[Object],
    groups: Iterable[Object],
    queues: Iterable[Object],
    priorities: dict[str, int],
) -> Session:
    """The picture of what there is now."""
    seats = {node["metadata"]["name"]: Seat(node, _allocatable(node)) for node in nodes if _is_ready(node)}
    gangs: dict[tuple[str, str], Gang] = {}
    for group in groups:
        status = group.get("status") or {}
        priority = priorities.get(group["spec"].get("priorityClassName", ""), 0)
        conditions = [dict(one) for one in status.get("conditions") or []]
        gangs[key_of(group)] = Gang(group, priority, phase=status.get("phase", ""), conditions=conditions)
    for pod in pods:
        task = Task(pod, requests_of(pod["spec"]), status_of(pod), str(pod["spec"].get("nodeName", "")))
        _count(task, seats.get(task.node))
        gang = gangs.get((pod["metadata"]["namespace"], annotation(pod, GROUP)))
        if gang is not None:
            gang.tasks.append(task)
    for gang in gangs.values():
        gang.tasks.sort(key=lambda task: task.order)
    return Session(seats, list(gangs.values()), {queue["metadata"]["name"]: queue for queue in queues})


def _count(task: Task, seat: Seat | None) -> None:
    if seat is None or task.status in IS_COMPLETED:
        return
    seat.used = plus(seat.used, task.requests)
    if task.status == RELEASING:
        seat.releasing = plus(seat.releasing, task.requests)


def _allocatable(node: Object) -> Resources:
    there = (node.get("status") or {}).get("allocatable") or {}
    return {name: quantity(value) for name, value in there.items() if name in ("cpu", "memory", "nvidia.com/gpu")}


def _is_ready(node: Object) -> bool:
    ready = condition(node, "Ready")
    return ready is not None and ready["status"] == "True"
