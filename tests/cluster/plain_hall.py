"""Plain Kubernetes on the real control plane, driven as the issuer drives it, by what the reader's snapshots say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.schedulers.hands import Desk, a_command, over

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerUnavailable
from trimtab.issue import arrival, look
from trimtab.model.cluster import ClusterSnapshot, Workload, WorkloadState
from trimtab.model.command import Command, CommandState, Move, MoveKind, RecommendationKind, Seat
from trimtab.plan.draft import writes_of
from trimtab.schedulers.connect import connect
from trimtab.schedulers.mirror import Mirror
from trimtab.schedulers.plain import Plain
from trimtab.schedulers.reader import KubernetesReader
from trimtab.settings import KubernetesSettings

KIND = RecommendationKind.DRAIN


class Hall:
    """A space, the reader, the adapter; the mirror reads until `close`."""

    def __init__(self, plane: Plane, space: Space, *, kubeconfig: str = "") -> None:
        """`kubeconfig`: of the account that writes and reads; the administrator's by default."""
        settings = KubernetesSettings(kubeconfig=kubeconfig or str(plane.admin_kubeconfig))
        self.space = space
        self._door = connect(settings)
        self.desk = Desk(self._door, clock=SystemClock(), settings=settings)
        self._mirror = Mirror(connect(settings), settings, self.desk.clock)
        self._mirror.start()
        self.reader = KubernetesReader(
            self._mirror, api=self._door, settings=settings, cluster="test", clock=self.desk.clock
        )
        self.plain = Plain(self.desk.pen, lambda: self.reader.view, settings, self.desk.clock)

    def close(self) -> None:
        """End reading."""
        self._mirror.stop()
        self._door.close()

    def snapshot(self) -> ClusterSnapshot:
        """One whole snapshot; the first one waits for the mirror."""

        def whole() -> ClusterSnapshot | None:
            try:
                return self.reader.snapshot()
            except SchedulerUnavailable:
                return None

        return wait_for(whole, "a whole snapshot")

    def seen(self, kind: str, name: str, pods: int) -> ClusterSnapshot:
        """A snapshot that shows a workload with so many placed pods."""

        def running() -> ClusterSnapshot | None:
            snapshot = self.snapshot()
            workload = snapshot.workload_by_id.get(self.id(kind, name))
            return snapshot if workload is not None and len(workload.placements) == pods else None

        return wait_for(running, f"{name} in the snapshot with {pods} pods")

    def id(self, kind: str, name: str) -> str:
        """A workload's id."""
        return f"{self.space.namespace}/{kind}/{name}"

    def move(self, kind: str, name: str, to: dict[str, str], *, alone: bool = False, **changes: Any) -> Move:
        """The move of a workload whose pods on a node of `to` go to that node's value; `alone`: only they stop."""
        pods = len(self.space.pods(name))
        workload = self.seen(kind, name, pods).workload_by_id[self.id(kind, name)]
        before = tuple(Seat(pod=one.pod, node=one.node, gpus=len(one.gpus)) for one in workload.placements)
        return Move(
            kind=changes.pop("move_kind", MoveKind.DRAIN),
            workload=workload.id,
            controller=workload.controller,
            before=before,
            after=tuple(replace(seat, node=to.get(seat.node, seat.node)) for seat in before),
            replaced=tuple(seat.pod for seat in before if seat.node in to) if alone else (),
        )

    def waiting(self, kind: str, name: str, node: str) -> Move:
        """Room for a workload of one pod that waits."""

        def waits() -> Workload | None:
            found = self.snapshot().workload_by_id.get(self.id(kind, name))
            return found if found is not None and found.state is WorkloadState.WAITING else None

        workload = wait_for(waits, f"{name} waiting in the snapshot")
        seat = Seat(pod=f"{name}-0", node=node, gpus=workload.gpus_per_pod)
        return Move(kind=MoveKind.CONSOLIDATE, workload=workload.id, controller=workload.controller, after=(seat,))

    def command(
        self, *moves: Move, cordons: Sequence[str] = (), number: int = 11, kind: RecommendationKind = KIND
    ) -> Command:
        """The writes as the planner makes them."""
        writes = writes_of(moves, cordons=cordons)
        return replace(a_command(number, writes=writes, moves=moves, kind=kind), submitted_at=self.desk.clock.now())

    def hold(self, command: Command) -> None:
        """Hold each beat until a snapshot shows it; nothing then speaks against going on."""

        def beat() -> bool:
            if look.is_held(command, self.snapshot()):
                return True
            went(lambda: self.plain.hold(command))
            return False

        wait_for(beat, "the room held")
        assert look.why_off(command, self.snapshot()) is None

    def submit(self, command: Command, meanwhile: Callable[[], None] = lambda: None) -> ClusterSnapshot:
        """Submit each beat until a snapshot shows that it has come true."""
        command = replace(command, submitted_at=self.desk.clock.now())

        def beat() -> ClusterSnapshot | None:
            meanwhile()
            snapshot = self.snapshot()
            if arrival.is_settled(command, snapshot):
                return snapshot
            assert arrival.why_missed(command, snapshot) is None
            went(lambda: self.plain.submit(command))
            return None

        return wait_for(beat, "settled", deadline_seconds=120)

    def release(self, command: Command, state: CommandState = CommandState.SETTLED) -> None:
        """Give back each beat until no snapshot shows anything of it but what lasts."""
        ended = over(command, state)

        def beat() -> bool:
            snapshot = self.snapshot()
            if self.left(command, snapshot) == list(ended.lasting_nodes if state is CommandState.SETTLED else ()):
                return True
            went(lambda: self.plain.release(ended))
            return False

        wait_for(beat, "all given back")

    def left(self, command: Command, snapshot: ClusterSnapshot) -> list[str]:
        """What a snapshot shows of a command: cordoned nodes by name, everything else in words."""
        mark = command.mark
        found = [node.name for node in snapshot.nodes if node.is_cordoned and node.cordoned_by == mark]
        found += [f"{one.id} stopped" for one in snapshot.workloads if one.suspended_by == mark]
        found += [f"{one.gpus} GPUs of {one.node}" for one in snapshot.reservations if one.command == mark]
        return found + [one.what for one in snapshot.held if one.mark == mark]


def went(write: Callable[[], None]) -> bool:
    """Whether a write went through; what is only not now is tried again."""
    try:
        write()
    except (SchedulerBusy, SchedulerConflict):
        return False
    return True
