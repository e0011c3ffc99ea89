"""What the API takes and gives about on-call: incidents, the outbox, who pages, drills, call-backs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from trimtab.model.oncall import Incident, Pager
from trimtab.model.outbox import LetterState, OutboxRow
from trimtab.show.api_types import Limit, Name, Reason, SinceSeconds

_DrillKind = Annotated[str, Meta(pattern="^(xid[0-9]{1,3}|silent)$")]


class _Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request's body."""


class IncidentsQuery(Struct, frozen=True, kw_only=True):
    """Which incidents."""

    state: Literal["open", "closed", "all"] = "open"
    since_seconds: SinceSeconds = 7 * 86400.0
    limit: Limit = 1000


class OutboxQuery(Struct, frozen=True, kw_only=True):
    """Which messages."""

    state: Literal["waiting", "dead", "all"] = "dead"
    limit: Limit = 200


class Acknowledgement(_Body, frozen=True, kw_only=True):
    """Somebody has it."""


class PagerChoice(_Body, frozen=True, kw_only=True):
    """Who pages for what opens from now on, with the reason."""

    pager: Pager
    reason: Reason


class DrillOrder(_Body, frozen=True, kw_only=True):
    """A synthetic fault: `xid79` and other XIDs of a GPU (index or UUID), or `silent` of a node."""

    kind: _DrillKind
    node: Name
    gpu: Name | None = None
    seconds: Annotated[float, Meta(ge=1, le=3600)] = 120.0
    """It ends by itself after so long."""


class Incidents(Struct, frozen=True, kw_only=True):
    """Some incidents, newest first."""

    pager: Pager
    """Who pages for what opens now."""
    incidents: tuple[Incident, ...]


class IncidentStory(Struct, frozen=True, kw_only=True):
    """One incident and every message about it, oldest first."""

    incident: Incident
    letters: tuple[OutboxRow, ...]


class OutboxLetters(Struct, frozen=True, kw_only=True):
    """Some messages, newest first, and how many there are in each state by target."""

    letters: tuple[OutboxRow, ...]
    counts: Mapping[str, Mapping[LetterState, int]]


class Resent(Struct, frozen=True, kw_only=True):
    """A dead message that is tried again."""

    id: int


class TargetRow(Struct, frozen=True, kw_only=True):
    """One target and how it does."""

    name: str
    kind: str
    locale: str
    is_pager: bool
    waiting: int = 0
    dead: int = 0
    delivered_at: datetime | None = None
    trouble: str = ""
    next: str = ""


class OnCall(Struct, frozen=True, kw_only=True):
    """Who pages, and the targets."""

    pager: Pager
    setting: Pager
    """What the settings say; the switch wins."""
    targets: tuple[TargetRow, ...]


class CallbackTaken(Struct, frozen=True, kw_only=True):
    """What came of a call-back."""

    is_taken: bool
    sentence: str = ""


class WebhookSchema(Struct, frozen=True, kw_only=True):
    """JSON Schema (2020-12) of the body of our own webhooks."""

    dialect: str = field(name="$schema")
    title: str
    ref: str = field(name="$ref")
    defs: dict[str, Any] = field(name="$defs")
