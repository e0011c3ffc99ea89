"""The seam to what places work: one reader of the whole cluster, and adapters that carry commands out."""

from __future__ import annotations

from typing import Protocol

from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, Move, Recommendation, Refusal, Way


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

    def way(self, recommendation: Recommendation, snapshot: ClusterSnapshot) -> Way:
        """How it would carry its part of the advice out: exact writes as lines to copy, and the expected time.

        The same advice on the same cluster gives the same steps: an approval binds to them.
        """
        ...

    def hold(self, command: Command) -> None:
        """Keep new work off what the command needs (cordon, reserve); idempotent."""
        ...

    def submit(self, command: Command) -> None:
        """Do the next of the command's other writes that can be done now; called again each beat until it settled.

        Level, not edge: every call reads what is there and goes on from it, so a crash between two calls loses
        nothing. Raises SchedulerRefused where it can never be done (the command then ends and all is given back), any
        other SchedulerError where it is to be tried again.
        """
        ...

    def release(self, command: Command) -> None:
        """Give back what the command still holds; safe when nothing is held.

        A settled command keeps its lasting writes (a bad node stays cordoned); in any other state everything of it
        goes back, and a job that it stopped is started again.
        """
        ...
