"""A person's decisions bound to one daemon's ledger, clock and settings: what the API calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from trimtab.clock import Clock
from trimtab.issue import decisions
from trimtab.issue.ledger import Ledger
from trimtab.model.command import Command
from trimtab.model.standing import StandingKind
from trimtab.settings import DaemonSettings


def _not_paused_there() -> str | None:
    """No cluster says anything."""
    return None


@dataclass(slots=True, kw_only=True)
class Verdicts:
    """What people decide, over one ledger. A reload replaces `settings`, and nothing else."""

    ledger: Ledger
    clock: Clock
    settings: DaemonSettings
    pause_reason: Callable[[], str | None] = _not_paused_there
    """Why the cluster itself says to pause, as last seen; None = it does not."""

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

    def resume(self, *, who: str) -> str:
        """Go on; the sentence that says what still stops new commands, or ""."""
        still = decisions.resume(
            self.ledger,
            who=who,
            now=self.clock.now(),
            pause_reason=self.pause_reason(),
            kubernetes=self.settings.kubernetes,
        )
        if self.ledger.standing(StandingKind.RELEASE):
            still = f"Nothing new begins before everything is given back. {still}".strip()
        return still

    def resume_rule(self, rule: str, *, who: str) -> None:
        """Let a rule go on that its breaker had stopped."""
        decisions.resume_rule(self.ledger, rule, who=who, now=self.clock.now())

    def allow(self, node: str, *, who: str) -> None:
        """Lift the veto on a node."""
        decisions.lift_veto(self.ledger, node, who=who, now=self.clock.now())

    def release_all(self, *, reason: str, marks: Sequence[str], who: str) -> datetime:
        """Ask for everything to be given back; when that was."""
        return decisions.release_all(self.ledger, who=who, now=self.clock.now(), reason=reason, marks=marks).since
