"""The seam to what places work: one reader of the whole cluster, and adapters that carry commands out."""

from __future__ import annotations

from typing import Protocol

from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, Move, Refusal


class ClusterReader(Protocol):
    """Makes the one snapshot of the cluster."""

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is now, whole, or SchedulerUnavailable."""
        ...


class Scheduler(Protocol):
    """Carries out commands for the workloads that its controller owns."""

    name: str

    def refusal(self, move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
        """Why this adapter cannot carry the move out, or None."""
        ...

    def hold(self, command: Command) -> None:
        """Keep new work off what the command needs (cordon, reserve); idempotent."""
        ...

    def submit(self, command: Command) -> None:
        """Do the command's other writes; idempotent by command id."""
        ...

    def release(self, command: Command) -> None:
        """Give back what the command still holds; safe when nothing is held.

        A settled command keeps its lasting writes (a bad node stays cordoned); in any other state everything of it
        goes back, and a job that it stopped is started again.
        """
        ...
