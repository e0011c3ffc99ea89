"""What the API for people takes and gives, and the two protocols through which it reaches decisions and history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct

from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.board import CommandRow, GpuHistory
from trimtab.model.command import AuditLine, Command, Outcome

ID_MAX = 2**53
"""Past this a number is no id of ours (and no exact number in a browser)."""

_SINCE_SECONDS_MAX = 10 * 366 * 86400.0

Reason = Annotated[str, Meta(min_length=1, max_length=500)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Mark = Annotated[str, Meta(pattern="^trimtab:([0-9a-f]+:)?R[0-9]+$", max_length=100)]
SinceSeconds = Annotated[float, Meta(gt=0, le=_SINCE_SECONDS_MAX)]
Limit = Annotated[int, Meta(ge=1, le=10_000)]


class Decisions(Protocol):
    """A person's decisions; bound to the ledger by the root. A no is a TrimtabError whose text is the sentence."""

    def approve(self, command_id: int, *, fingerprint: str, who: str) -> object:
        """Agree to the exact writes that `fingerprint` stands for."""
        ...

    def reject(self, command_id: int, *, reason: str, who: str) -> object:
        """Say no, with a reason that is kept."""
        ...

    def snooze(self, command_id: int, *, seconds: float, who: str) -> object:
        """Ask again later."""
        ...

    def undo(self, command_id: int, *, reason: str, who: str) -> object:
        """Give back what the command holds or changed."""
        ...

    def pause(self, *, reason: str, who: str) -> object:
        """Start nothing new."""
        ...

    def resume(self, *, who: str) -> str:
        """Go on; the sentence that says what still stops new commands, or ""."""
        ...

    def resume_rule(self, rule: str, *, who: str) -> object:
        """Let a rule go on that its breaker had stopped."""
        ...

    def allow(self, node: str, *, who: str) -> object:
        """Lift the veto on a node."""
        ...

    def release_all(self, *, reason: str, marks: Sequence[str], who: str) -> datetime:
        """Ask for everything to be given back; when that was."""
        ...


class Memory(Protocol):
    """What the API reads of the past; the history satisfies it by shape."""

    def finding(self, finding_id: int) -> OpenFinding | None:
        """One finding, open or closed."""
        ...

    def findings(
        self, state: FindingState | None = None, since: datetime | None = None, limit: int = 1000
    ) -> tuple[OpenFinding, ...]:
        """Findings, newest first."""
        ...

    def command(self, command_id: int) -> Command | None:
        """One command."""
        ...

    def commands(self, *, live_only: bool, since: datetime | None = None) -> tuple[Command, ...]:
        """Commands in id order; unless `live_only`, also those over since then."""
        ...

    def outcome(self, command_id: int) -> Outcome | None:
        """What came of a command, once it is known."""
        ...

    def audit_lines(self, since: datetime) -> tuple[AuditLine, ...]:
        """Audit lines from then on, oldest first."""
        ...

    def gpu_history(
        self, cluster: str, node: str, gpu: str, *, since: datetime, until: datetime, metrics: Sequence[str]
    ) -> GpuHistory:
        """One GPU's series."""
        ...


class _Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request's body."""


class Approval(_Body, frozen=True, kw_only=True):
    """Agree to exactly these writes: the fingerprint is the recommendation's as it was shown."""

    fingerprint: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]


class Rejection(_Body, frozen=True, kw_only=True):
    """Say no, with a reason that is kept with the rule's record."""

    reason: Reason


class Snooze(_Body, frozen=True, kw_only=True):
    """Ask again in this many seconds."""

    seconds: Annotated[float, Meta(gt=0, le=7 * 86400)]


class Undo(_Body, frozen=True, kw_only=True):
    """Give back what the command did, with the reason."""

    reason: Reason


class Pause(_Body, frozen=True, kw_only=True):
    """Start nothing new, with the reason."""

    reason: Reason


class Resume(_Body, frozen=True, kw_only=True):
    """Allow new commands again; with `rule`, let go on only that rule, which its breaker had stopped."""

    rule: Name | None = None


class Allow(_Body, frozen=True, kw_only=True):
    """Lift the veto on a node."""

    node: Name


class ReleaseAll(_Body, frozen=True, kw_only=True):
    """Give everything back and stay paused. `marks`: of other daemons, what is to go too, each by its full name."""

    reason: Annotated[str, Meta(max_length=500)] = ""
    marks: Annotated[tuple[Mark, ...], Meta(max_length=1000)] = ()


class Nothing(_Body, frozen=True, kw_only=True):
    """An empty object."""


class FindingsQuery(Struct, frozen=True, kw_only=True):
    """Which findings."""

    state: Literal["open", "closed", "all"] = "open"
    since_seconds: SinceSeconds = 7 * 86400.0
    limit: Limit = 1000


class RecommendationsQuery(Struct, frozen=True, kw_only=True):
    """Which recommendations."""

    state: Literal["live", "all"] = "live"
    since_seconds: SinceSeconds = 7 * 86400.0


class HistoryQuery(Struct, frozen=True, kw_only=True):
    """Which GPU, which metrics (sample keys, comma between them), how far back."""

    node: Name
    gpu: Name
    metric: Annotated[str, Meta(max_length=2000)] = "sm_active_ratio,temperature_celsius,power_watts"
    since_seconds: SinceSeconds = 3600.0


class AuditQuery(Struct, frozen=True, kw_only=True):
    """How far back."""

    since_seconds: SinceSeconds = 86400.0


class Findings(Struct, frozen=True, kw_only=True):
    """Some findings."""

    findings: tuple[OpenFinding, ...]


class Recommendations(Struct, frozen=True, kw_only=True):
    """Some recommendations, as commands with what people need beside them."""

    recommendations: tuple[CommandRow, ...]


class Audit(Struct, frozen=True, kw_only=True):
    """Who did what, oldest first."""

    lines: tuple[AuditLine, ...]


class Check(Struct, frozen=True, kw_only=True):
    """One thing that doctor looked at; `fix` is what to do when it is not well."""

    name: str
    is_ok: bool
    sentence: str
    fix: str = ""


class Doctor(Struct, frozen=True, kw_only=True):
    """What doctor found."""

    checks: tuple[Check, ...]


class Paused(Struct, frozen=True, kw_only=True):
    """Whether new commands are stopped now, and what still stops them after a resume."""

    is_paused: bool
    sentence: str = ""


class Allowed(Struct, frozen=True, kw_only=True):
    """A node on which no veto stands any more."""

    node: str


class ReleaseAsked(Struct, frozen=True, kw_only=True):
    """A release of everything that was asked for; the board's `release` of this `asked_at` says how far it is."""

    asked_at: datetime


class Link(Struct, frozen=True, kw_only=True):
    """A page address that works once, within ten minutes."""

    url: str


class Health(Struct, frozen=True, kw_only=True):
    """Alive, and how old the board is; null before the first beat."""

    status: Literal["ok", "starting"]
    board_age_seconds: float | None


class Problem(Struct, frozen=True, kw_only=True):
    """Why not, as a sentence."""

    error: str
