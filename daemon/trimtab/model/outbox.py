"""Messages on their way to on-call: who pages, who is told, what is to be sent and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.model.oncall import Incident, Message, Thread, Verb


class LetterState(StrEnum):
    """Where a message to one target stands."""

    READY = "ready"
    LEASED = "leased"
    """A worker has it in hand."""
    DONE = "done"
    DEAD = "dead"
    """Refused for good, or out of reach for too long."""
    DROPPED = "dropped"
    """Overtaken by newer news before it was sent."""

    @property
    def is_waiting(self) -> bool:
        """Whether it is still to be delivered."""
        return self in WAITING


WAITING = (LetterState.READY, LetterState.LEASED)
"""States of what is still to be delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One message for one target, not written yet; the outbox gives it its place and id."""

    target: str
    message: Message
    not_before: datetime | None = None
    may_drop: bool = True
    """Of a closing: whether it and an opening that was not sent either may both be left out."""

    @property
    def rank(self) -> int:
        """Which go first where many wait: what wakes people, then endings, then the rest."""
        if self.message.verb is Verb.OPEN or self.message.is_loud:
            return 0
        return 1 if self.message.verb is Verb.RESOLVE else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """What becomes of one incident, and the letters that say so: written in one transaction, or not at all.

    `was` is the incident as it was read (None = it is new): where somebody else has changed it since, nothing of the
    posting is written, and the next beat makes it anew.
    """

    incident: Incident
    was: Incident | None
    letters: tuple[Letter, ...] = ()
    for_others: Message | None = None
    """For targets that were told of the incident and have no letter here: another route's, or a `next`."""
    audited: tuple[tuple[str, str, str], ...] = ()
    """(who, what, why) lines of the audit that belong to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """One message to one target and what became of it."""

    id: int
    incident: int
    """Number of the incident: 17 of I17."""
    target: str
    sequence: int
    verb: Verb
    state: LetterState
    attempts: int
    created_at: datetime
    not_before: datetime
    first_line: str
    is_drill: bool = False
    is_unsure: bool = False
    """Whether an attempt may have arrived though nobody said so."""
    error: str = ""
    remark: str = ""
    remote_id: str = ""
    done_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A letter that a worker holds."""

    id: int
    owner: str
    target: str
    message: Message
    thread: Thread | None
    attempts: int
    """This one included."""
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCounts:
    """The outbox in numbers, by target and state; ages in the store's own moments."""

    letters: Mapping[tuple[str, LetterState], int] = field(default_factory=dict)
    oldest_waiting_at: Mapping[str, datetime] = field(default_factory=dict)
