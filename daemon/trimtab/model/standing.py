"""What stands until somebody lifts it or its time is over: vetoes, breakers, releases; and what owners answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class StandingKind(StrEnum):
    """What a standing fact is."""

    VETO = "veto"
    """A person opened a node that we had cordoned. Its name is the node."""
    BREAKER = "breaker"
    """A rule made most of the cordons and is stopped. Its name is the detector's rule."""
    RESET = "reset"
    """A person let a stopped rule go on: cordons before this moment no longer count. Its name is the rule."""
    RELEASE = "release"
    """Everything of ours is to be given back. Its name is `all`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One fact that stands for a cluster; `kind` and `name` are its key. `until` None = until it is lifted."""

    kind: StandingKind
    name: str
    since: datetime
    who: str
    why: str
    """A sentence."""
    until: datetime | None = None
    command_id: int | None = None
    causes: tuple[str, ...] = ()
    """Of a veto: the detectors' rules that the vetoed command rested on."""
    marks: tuple[str, ...] = ()
    """Of a release: marks of other ledgers that are to be given back too, by explicit name."""


class Answer(StrEnum):
    """What a job's owner says to a move."""

    YES = "yes"
    NO = "no"
    NOT_BEFORE = "not_before"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAnswer:
    """A question to a job's owner and what came of it; `answer` None = nothing yet."""

    asked_at: datetime
    deadline: datetime
    answer: Answer | None = None
    answered_at: datetime | None = None
    not_before: datetime | None = None
    said: str = ""
    """Their words, or why there are none."""
