"""The shape of one route of the API, read by the application and by the OpenAPI document. No HTTP library here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from trimtab.clock import Clock
from trimtab.errors import TrimtabError
from trimtab.model.command import Mode
from trimtab.model.people import Role
from trimtab.model.window import Window
from trimtab.show.api_types import Check, Decisions, Memory
from trimtab.show.api_types_history import PastMemory
from trimtab.show.auth import Caller, Door, Knock
from trimtab.show.board import BoardBox
from trimtab.show.digest.desk import DigestDesk
from trimtab.show.oncall.desk import Desk

if TYPE_CHECKING:
    from trimtab.show.api_alerts import Alerting
    from trimtab.show.api_enrolment import Enrolment


class Scope(StrEnum):
    """Who may call a route."""

    OPEN = "open"
    """Anybody who reaches the listener under a name of ours."""
    METRICS = "metrics"
    """The metrics token or a person's, or anybody on loopback where no metrics token is set."""
    VIEWER = "viewer"
    """Whoever is signed in, by token, session or a listed proxy."""
    OPERATOR = "operator"
    """Who decides; from the page a POST also needs the page's own Origin."""
    ADMIN = "admin"
    """Who gives and takes away tokens and sessions, and releases everything."""
    WEBHOOK = "webhook"
    """Programs that deliver, by a token of role webhook."""

    @property
    def needed(self) -> Role | None:
        """The role that a caller must have; None where no role is asked for."""
        return None if self in (Scope.OPEN, Scope.METRICS) else Role(self.value)


class ApiError(TrimtabError):
    """The API says no: a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        """Keep both."""
        super().__init__(sentence)
        self.status = status


@dataclass(slots=True, kw_only=True)
class People:
    """What the handlers work on. Only a reload of the settings changes it: `rule_modes` and `notice_seconds`."""

    cluster: str
    box: BoardBox
    decisions: Decisions
    memory: Memory
    door: Door
    clock: Clock
    rule_modes: Mapping[str, Mode]
    notice_seconds: float
    checks: Callable[[], tuple[Check, ...]]
    exposition: Callable[[str], tuple[bytes, str]]
    heartbeat_seconds: float
    window: Callable[[], Window | None] | None = None
    """The last readings of all GPUs."""
    oncall: Desk | None = None
    """Incidents, the outbox, who pages."""
    alerting: Alerting | None = None
    """Alerts of others, silences, maintenance windows."""
    digests: DigestDesk | None = None
    """Where digests are made."""
    past: PastMemory | None = None
    """What roll-ups tell of the past; None = there are none."""
    enrolment: Enrolment | None = None
    """Join tokens and nodes' credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, authenticated and decoded."""

    caller: Caller
    knock: Knock
    base_url: str
    now: datetime
    id: int = 0
    name: str = ""
    """The name in the path, where a route has one."""
    query: Any = None
    body: Any = None
    raw: bytes = b""
    """The body as it came, where the route asks for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that also gives the browser a session, or takes it away (empty)."""

    value: object
    session: str


Handler = Callable[[People, Call], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One row of the table. `handler` runs on a worker thread and returns a value of type `response`."""

    method: str
    path: str
    handler: Handler
    response: Any
    scope: Scope
    summary: str
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    errors: tuple[int, ...] = ()
    media_type: str = "application/json"
    is_raw: bool = False
    """The handler gets the body as it came, whatever it is: what is signed is checked byte by byte."""
    body_bytes_max: int = 64 * 1024
    """A decision is a few hundred bytes."""
    is_slow: Callable[[Any], bool] = lambda _: False
    """Whether a query reads the past: of those only some run at once (api_slow.py)."""
    tags: tuple[str, ...] = field(default=("board",))
