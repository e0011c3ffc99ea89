"""A person's decisions bound to one daemon's ledger, clock and settings: what the API calls."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.clock import Clock
from trimtab.issue import decisions
from trimtab.issue.ledger import Ledger
from trimtab.model.command import Command
from trimtab.settings import DaemonSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What people decide, over one ledger."""

    ledger: Ledger
    clock: Clock
    settings: DaemonSettings

    def approve(self, command_id: int, *, fingerprint: str, who: str) -> Command:
        """Agree to exactly these writes."""
        return decisions.approve(
            self.ledger,
            command_id,
            fingerprint=fingerprint,
            who=who,
            now=self.clock.now(),
            settings=self.settings.issue,
        )

    def reject(self, command_id: int, *, reason: str, who: str) -> Command:
        """Say no."""
        return decisions.reject(self.ledger, command_id, reason=reason, who=who, now=self.clock.now())

    def snooze(self, command_id: int, *, seconds: float, who: str) -> Command:
        """Ask again later."""
        return decisions.snooze(self.ledger, command_id, seconds=seconds, who=who, now=self.clock.now())

    def undo(self, command_id: int, *, reason: str, who: str) -> Command:
        """Give back what the command did."""
        return decisions.undo(self.ledger, command_id, reason=reason, who=who, now=self.clock.now())

    def pause(self, *, reason: str, who: str) -> None:
        """Start nothing new."""
        decisions.pause(self.ledger, reason=reason, who=who, now=self.clock.now())

    def resume(self, *, who: str) -> None:
        """Go on."""
        decisions.resume(self.ledger, who=who, now=self.clock.now())
