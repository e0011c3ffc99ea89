"""What every part of the issuer writes with: steps into the ledger first, then calls to the schedulers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import structlog

from trimtab.errors import LedgerConflict, SchedulerError, SchedulerRefused, SchedulerVetoed
from trimtab.issue.beat import Beat
from trimtab.issue.hands import Hands
from trimtab.issue.ledger import Ledger
from trimtab.issue.outcome import measure
from trimtab.model.command import AuditLine, Command, CommandState
from trimtab.settings import IssueSettings

log = structlog.get_logger()

WHO = "trimtab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Ledger, hands and settings, and the few ways in which a command changes."""

    ledger: Ledger
    hands: Hands
    settings: IssueSettings

    def record(self, command: Command, *, was: Command, why: str, beat: Beat, who: str = WHO) -> bool:
        """Write a step to the ledger; False when a person was quicker, and the next beat looks at it anew."""
        try:
            self.ledger.record(command, was=was, who=who, why=why, at=beat.now)
        except LedgerConflict:
            beat.refuse(was, "conflict", f"{was.name} was changed by somebody at this moment; next beat.")
            return False
        if command.state is not was.state:
            beat.said.append(f"{command.name} {was.state} → {command.state}" + (f" ({why})" if why else ""))
            log.info("command changed", command_id=command.id, was=was.state, state=command.state, why=why)
        return True

    def do(self, what: str, command: Command, beat: Beat) -> bool:
        """One call to the schedulers. Out of reach: try again next beat. A no: the command ends, all given back."""
        try:
            self.hands.do(what, command)
        except SchedulerVetoed as error:
            beat.refuse(command, "veto", f"{command.name}: {error}")
            if command.state.is_begun:
                beat.vetoed.append((command, error))
            return False
        except SchedulerRefused as error:
            beat.refuse(command, "scheduler", f"{command.name}: the scheduler refused to {what}: {error}")
            if command.state.is_begun:
                self.end(command, CommandState.REFUSED, str(error), was=command, beat=beat)
            return False
        except SchedulerError as error:
            beat.refuse(command, "scheduler", f"{command.name} waits to {what}: {error}")
            return False
        return True

    def end(self, command: Command, state: CommandState, why: str, *, was: Command, beat: Beat) -> None:
        """Over: in the ledger first, then given back. What is left after a crash here, the next beat gives back."""
        ended = replace(command, state=state, changed_at=beat.now, reason=why)
        if was.submitted_at is not None and not was.is_dry:
            self.ledger.record_outcome(measure(command, beat.snapshot, state=state, now=beat.now))
        if self.record(ended, was=was, why=why, beat=beat) and (was.state.is_begun or was.state.is_over):
            self.do("release", ended, beat)

    def undo(self, command: Command, beat: Beat, *, was: Command | None = None) -> None:
        """Give everything of it back, for whoever asked. `was`: as the ledger has it, where nobody asked there."""
        why = f"undone for {command.undo_requested_by}" + (f": {command.reason}" if command.reason else "")
        self.end(command, CommandState.UNDONE, why, was=was or command, beat=beat)

    def audit(self, beat: Beat, what: str, why: str, command_id: int | None = None) -> None:
        """One line about no change of a command."""
        self.ledger.audit([AuditLine(at=beat.now, who=WHO, what=what, why=why, command_id=command_id)])
