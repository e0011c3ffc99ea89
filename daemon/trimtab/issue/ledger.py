"""The memory that issue needs, as a shape; the history in `store` satisfies it without importing this."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from trimtab.model.command import AuditLine, Command, Outcome, Recommendation
from trimtab.model.standing import Standing, StandingKind


class Ledger(Protocol):
    """Commands, outcomes and audit lines, durable. Every method is one transaction, committed on return."""

    @property
    def ledger(self) -> str:
        """Its id: hex, made once a database and cluster. Marks of other ledgers are somebody else's."""
        ...

    def commands(self, *, live_only: bool, since: datetime | None = None) -> tuple[Command, ...]:
        """Live commands in id order; unless `live_only`, also those over whose `changed_at` is at or after `since`.

        Live = `is_live`. `since` None = all.
        """
        ...

    def holding(self) -> tuple[Command, ...]:
        """Commands that are over and keep nodes out (`is_holding`), however long ago, in id order."""
        ...

    def command(self, command_id: int) -> Command | None:
        """One command by id, or None."""
        ...

    def add(self, recommendation: Recommendation, at: datetime) -> Command:
        """A new command in state proposed with `changed_at` = at, this ledger's id, an id never used, its audit line.

        The audit line's `who` is `trimtab`, its `what` is `R11 proposed`, its `why` the recommendation's sentence.
        """
        ...

    def record(self, command: Command, *, was: Command, who: str, why: str, at: datetime) -> None:
        """Write the command's new value and one audit line, in one transaction.

        Compare-and-set: the stored row must still have `was`'s state, changed_at (to the millisecond),
        undo_requested_by and snoozed_until; else LedgerConflict and nothing is written. The whole command is stored,
        its recommendation too (a proposal's writes may change). `changed_at` moves only when the state does. The
        audit line's `at` is `at`; its `what` is `R11 proposed → approved`, or `R11 approved` where the state stays.
        """
        ...

    def record_outcome(self, outcome: Outcome) -> None:
        """Keep what came of a command; a second outcome of the same command replaces the first."""
        ...

    def outcomes(self, rule: str) -> tuple[Outcome, ...]:
        """Outcomes of the commands that a rule made, oldest first."""
        ...

    def is_paused(self) -> bool:
        """Whether new commands are stopped; survives a restart."""
        ...

    def set_paused(self, *, is_paused: bool, who: str, why: str, at: datetime) -> None:
        """Stop or allow new commands, with its audit line (`what`: `paused` or `resumed`)."""
        ...

    def standing(self, kind: StandingKind) -> tuple[Standing, ...]:
        """Everything of a kind that has not been lifted, by name; what is over by time is there too."""
        ...

    def stand(self, fact: Standing, *, what: str, at: datetime) -> None:
        """Let a fact stand, in the place of an older one of its name, with its audit line (`what`)."""
        ...

    def lift(self, kind: StandingKind, name: str, *, who: str, what: str, why: str, at: datetime) -> bool:
        """Let it stand no more, with its audit line; False (and no line) where it does not stand."""
        ...

    def audit(self, lines: Sequence[AuditLine]) -> None:
        """Append audit lines that belong to no change of a command."""
        ...

    def audit_lines(self, since: datetime) -> tuple[AuditLine, ...]:
        """Audit lines at or after `since`, oldest first."""
        ...
