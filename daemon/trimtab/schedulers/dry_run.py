"""Around any scheduler: notes what would be written and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, Move, Recommendation, Refusal, Verb, Way
from trimtab.schedulers.scheduler import Scheduler

log = structlog.get_logger()

NOTED_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """One call that would have written: hold, submit or release, by whom, and its writes in words."""

    what: str
    mark: str
    writes: tuple[str, ...]


class DryRun:
    """Asks the inner scheduler for its opinion and never for a write."""

    def __init__(self, inner: Scheduler) -> None:
        """Wrap a scheduler; its name stays."""
        self.name = inner.name
        self.noted: list[Noted] = []
        """What would have been written, each once, the last thousand."""
        self._inner = inner

    def refusal(self, move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
        """The inner scheduler's opinion."""
        return self._inner.refusal(move, snapshot)

    def way(self, recommendation: Recommendation, snapshot: ClusterSnapshot) -> Way:
        """The inner scheduler's way."""
        return self._inner.way(recommendation, snapshot)

    def hold(self, command: Command) -> None:
        """Note what would be held."""
        self._note("hold", command, (Verb.CORDON, Verb.RESERVE, Verb.TAINT_DEVICE))

    def submit(self, command: Command) -> None:
        """Note what would be written."""
        self._note("submit", command, (Verb.UNCORDON, Verb.SUSPEND, Verb.RESUME, Verb.REPLACE, Verb.UNTAINT_DEVICE))

    def release(self, command: Command) -> None:
        """Note that all would be given back."""
        self._note("release", command, ())

    def _note(self, what: str, command: Command, verbs: tuple[Verb, ...]) -> None:
        writes = tuple(write.text for write in command.recommendation.writes if write.verb in verbs)
        noted = Noted(what=what, mark=command.mark, writes=writes)
        if noted in self.noted:
            return
        self.noted = [*self.noted[-NOTED_MAX + 1 :], noted]
        log.info("dry run: not written", command_id=command.id, what=what, writes=writes)
