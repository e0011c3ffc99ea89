"""A ledger in memory, held to the promises of `issue.ledger.Ledger`; a test can stop its daemon at each write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from trimtab.errors import LedgerConflict
from trimtab.model.command import AuditLine, Command, CommandState, Outcome, Recommendation
from trimtab.model.standing import Standing, StandingKind


def _nothing(point: str) -> None:
    """No crash is planned."""


class FakeLedger:
    """`at_point` is called before and after each write; a crash test raises from it."""

    def __init__(self, at_point: Callable[[str], None] = _nothing, *, ledger: str = "1ed9e0") -> None:
        self.at_point = at_point
        self.ledger = ledger
        self.facts: dict[tuple[StandingKind, str], Standing] = {}
        self.stored: dict[int, Command] = {}
        self.lines: list[AuditLine] = []
        self.results: dict[int, Outcome] = {}
        self.paused = False
        self.next_record_hook: Callable[[], None] | None = None
        """Runs once, before the next record: somebody else's decision at that very moment."""

    def commands(self, *, live_only: bool, since: datetime | None = None) -> tuple[Command, ...]:
        wanted = [
            command
            for command in self.stored.values()
            if command.is_live or (not live_only and (since is None or command.changed_at >= since))
        ]
        return tuple(sorted(wanted, key=lambda command: command.id))

    def holding(self) -> tuple[Command, ...]:
        return tuple(self.stored[number] for number in sorted(self.stored) if self.stored[number].is_holding)

    def command(self, command_id: int) -> Command | None:
        return self.stored.get(command_id)

    def add(self, recommendation: Recommendation, at: datetime) -> Command:
        self.at_point("before add")
        command = Command(
            id=max(self.stored, default=0) + 1,
            recommendation=recommendation,
            state=CommandState.PROPOSED,
            changed_at=at,
            ledger=self.ledger,
        )
        self.stored[command.id] = command
        self.lines.append(
            AuditLine(
                at=at,
                who="trimtab",
                what=f"{command.name} proposed",
                why=recommendation.sentence,
                command_id=command.id,
            )
        )
        self.at_point("after add")
        return command

    def record(self, command: Command, *, was: Command, who: str, why: str, at: datetime) -> None:
        self.at_point(f"before {command.state}")
        if self.next_record_hook is not None:
            hook, self.next_record_hook = self.next_record_hook, None
            hook()
        stored = self.stored[command.id]
        if _version(stored) != _version(was):
            raise LedgerConflict(f"{command.name} is {stored.state} by now.")
        moved = f"{was.state} → {command.state}" if was.state is not command.state else str(command.state)
        self.stored[command.id] = command
        self.lines.append(AuditLine(at=at, who=who, what=f"{command.name} {moved}", why=why, command_id=command.id))
        self.at_point(f"after {command.state}")

    def record_outcome(self, outcome: Outcome) -> None:
        self.at_point("before outcome")
        self.results[outcome.command_id] = outcome
        self.at_point("after outcome")

    def outcomes(self, rule: str) -> tuple[Outcome, ...]:
        found = [one for one in self.results.values() if self.stored[one.command_id].recommendation.rule == rule]
        return tuple(sorted(found, key=lambda one: one.measured_at))

    def is_paused(self) -> bool:
        return self.paused

    def set_paused(self, *, is_paused: bool, who: str, why: str, at: datetime) -> None:
        self.paused = is_paused
        self.lines.append(AuditLine(at=at, who=who, what="paused" if is_paused else "resumed", why=why))

    def standing(self, kind: StandingKind) -> tuple[Standing, ...]:
        return tuple(self.facts[key] for key in sorted(self.facts) if key[0] is kind)

    def stand(self, fact: Standing, *, what: str, at: datetime) -> None:
        self.at_point(f"before {what}")
        self.facts[(fact.kind, fact.name)] = fact
        self.lines.append(AuditLine(at=at, who=fact.who, what=what, why=fact.why, command_id=fact.command_id))
        self.at_point(f"after {what}")

    def lift(self, kind: StandingKind, name: str, *, who: str, what: str, why: str, at: datetime) -> bool:
        self.at_point(f"before {what}")
        if self.facts.pop((kind, name), None) is None:
            return False
        self.lines.append(AuditLine(at=at, who=who, what=what, why=why))
        self.at_point(f"after {what}")
        return True

    def audit(self, lines: Sequence[AuditLine]) -> None:
        self.at_point("before audit")
        self.lines.extend(lines)
        self.at_point("after audit")

    def audit_lines(self, since: datetime) -> tuple[AuditLine, ...]:
        return tuple(line for line in self.lines if line.at >= since)


def _version(command: Command) -> tuple[CommandState, datetime, str | None, datetime | None]:
    return command.state, command.changed_at, command.undo_requested_by, command.snoozed_until
