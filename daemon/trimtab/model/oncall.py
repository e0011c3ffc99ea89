"""What on-call is told: incidents, messages about them, and the targets that take them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.model.advice import Action, Severity, Subject

FIRST_LINE_CHARACTERS_MAX = 110
"""What a lock screen shows."""

KEY_BYTES_MAX = 255
"""PagerDuty's limit, the tightest of those who keep a key."""


class Pager(StrEnum):
    """Who pages for an incident, from its opening to its end."""

    OUTBOX = "outbox"
    ALERTMANAGER = "alertmanager"
    NONE = "none"


class Audience(StrEnum):
    """Whom a message speaks to."""

    ONCALL = "oncall"
    OWNER = "owner"


class Verb(StrEnum):
    """What a message does to its incident at the other end."""

    OPEN = "open"
    UPDATE = "update"
    ACKNOWLEDGE = "acknowledge"
    RESOLVE = "resolve"
    NOTE = "note"
    """Told once and opens nothing: a cordon, a move, a digest. Pages nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing said about one incident, as every target gets it; a sender turns it into its target's form.

    `id` is equal on every retry and different for every message: whoever can, drops repeats by it.
    """

    id: str
    key: str
    """The incident at the other end, `trimtab/<cluster>/<incident-id>`: see `incident_key`."""
    verb: Verb
    sequence: int
    """Place among the messages of its incident, from 1."""
    at: datetime
    """When what it says happened."""
    opened_at: datetime
    """When its incident began."""
    cluster: str
    rule: str
    """The finding's rule, or the command's kind."""
    severity: Severity
    subject: Subject
    first_line: str
    """Stands alone on a lock screen; at most 110 characters, no markup, no line break."""
    title: str
    """The first line at opening: what threads and mails are called from then on."""
    lines: tuple[str, ...] = ()
    """Whom it hits, since when, what was done or is proposed; plain text, the most important first."""
    link: str = ""
    """Where to see and approve; carries no token and changes nothing."""
    runbook: str = ""
    queue: str = ""
    owner: str = ""
    """Whose workload it is."""
    who: str = ""
    """Who acknowledged or closed it."""
    locale: str = "en"
    facts: Mapping[str, str] = field(default_factory=dict)
    """For machines: finding, action, GPUs hit, and the like."""
    html: str = ""
    """The same at length, for targets that show a whole page (mail); "" = the lines are all there is."""
    is_loud: bool = False
    """Whether an update is to sound again: it got worse, or hits somebody new."""
    is_drill: bool = False
    is_repeat: bool = False
    """Whether an earlier attempt may have arrived: said where the target cannot tell by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Where a target keeps an incident: kept beside the incident, given back with its next message."""

    root: str
    """The target's own id of the first message (Slack's `ts`)."""
    place: str = ""
    """Where it stands, if the target asks for that too (Slack's channel id)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What routes and outbox need to know of one configured target; how to reach it is its sender's business."""

    name: str
    kind: str
    locale: str = "en"
    is_pager: bool = False
    """It keeps the incident by our key and wakes people by its own shifts."""
    may_be_only: bool = True
    """Whether on-call may rest on it alone."""
    is_repeat_visible: bool = True
    """Whether a message sent twice is seen twice there."""
    verbs: frozenset[Verb] = frozenset(Verb)
    """What it can be told; the rest is not for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """What people were told is wrong: one a finding, kept until it is closed everywhere."""

    id: str
    cluster: str
    rule: str
    severity: Severity
    subject: Subject
    title: str
    opened_at: datetime
    sequence: int = 0
    """Of the newest message about it."""
    first_line: str = ""
    """As last told."""
    queue: str = ""
    owner: str = ""
    acknowledged_at: datetime | None = None
    acknowledged_by: str = ""
    closed_at: datetime | None = None
    is_drill: bool = False
    number: int = 0
    """17 of I17; counted up once per cluster and never used again."""
    version: int = 0
    """Grows with each change: who changes it says which one was read."""
    incident: str = ""
    """The finding's own name for it: equal for all findings of one incident, and for those that come back."""
    finding: int | None = None
    pager: Pager = Pager.OUTBOX
    """Who opened it, and therefore who closes it."""
    worst: Severity = Severity.INFO
    """The highest severity that was told: only a higher one pages again."""
    action: Action = Action.NONE
    sentence: str = ""
    """The finding's own, as last told."""
    impact: str = ""
    victims: tuple[str, ...] = ()
    """Workloads that it was told to hit."""
    quiet: str = ""
    """Why nobody was paged for it (yet): a silence, a maintenance window, the noise budget."""
    summed_in: int | None = None
    """Number of the summary that speaks for it, where there was too much news at once."""
    told: Mapping[str, tuple[Audience, str]] = field(default_factory=dict)
    """Target -> whom it speaks to there, and in which language."""
    members_told: int = 0
    """Of a summary: for how many it spoke when it was last told."""
    paged_at: datetime | None = None
    """When the opening was put into the outbox; None = nobody was told."""
    changed_at: datetime | None = None
    close_reason: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    """Commands about it as last told: R11 -> proposed."""
    acted: tuple[str, ...] = ()
    """Who approved or undid what about it."""
    loss_gpus: float = 0.0
    """GPUs' worth of work that is lost while it lasts."""
    gpu_hours_lost: float = 0.0
    dry_run: tuple[str, ...] = ()
    """Of a drill: what would have been done, as lines."""
    ends_at: datetime | None = None
    """Of a drill: when it is over by itself."""

    @property
    def name(self) -> str:
        """`I17`."""
        return f"I{self.number}"

    @property
    def is_open(self) -> bool:
        """Whether it still stands."""
        return self.closed_at is None

    @property
    def key(self) -> str:
        """Its name at every target."""
        return incident_key(self.cluster, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundAct:
    """What somebody did at the other end: acknowledged or resolved. Equal `id`s are the same act."""

    kind: Verb
    key: str
    who: str
    id: str


def incident_key(cluster: str, incident_id: str) -> str:
    """`trimtab/<cluster>/<incident-id>` in at most 255 bytes: a longer one ends in its hash, so no two are equal."""
    key = f"trimtab/{cluster}/{incident_id}"
    raw = key.encode()
    if len(raw) <= KEY_BYTES_MAX:
        return key
    digest = hashlib.sha256(raw).hexdigest()[:32]
    return raw[: KEY_BYTES_MAX - len(digest) - 1].decode(errors="ignore") + "~" + digest
