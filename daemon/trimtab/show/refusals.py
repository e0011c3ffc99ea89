"""What was refused, told twice over: in the audit where somebody tried to be or do what they may not, else in the log.

The first of a kind is told at once, then one a minute with how many there were. The audit is append-only, and whoever
is outside must not be able to fill the disk with it, nor to hide in the noise: both have bounds of their own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import structlog

from trimtab.clock import Clock
from trimtab.errors import StoreError

QUIET_SECONDS = 60.0
"""Between two lines about the same."""
LINES_PER_MINUTE_MAX = 60
"""Of all refusals together; what is past it is counted into later lines."""
LINES_PER_DAY_MAX = 5000
"""So much a day at most, however long somebody goes on: about 2 MB of audit."""
KINDS_MAX = 1024
DAY_SECONDS = 86400.0

log = structlog.get_logger()

Write = Callable[[str, str, str], None]
"""Writes one audit line: who, what, why."""


@dataclass(slots=True)
class _Kind:
    told_at_seconds: float
    untold: int = 0


class Answer(StrEnum):
    """What the door said, as it is counted."""

    SIGNED_IN = "signed_in"
    WRONG = "wrong"
    HELD_UP = "held_up"
    FORGED_HEADERS = "forged_headers"
    ROLE = "role"
    OTHER_PAGE = "other_page"
    TWO_SESSIONS = "two_sessions"
    """Two session cookies in one request: none of them is believed."""
    OTHER_HOST = "other_host"
    """Under a name that is not ours: a page that rebinds its own to our address."""
    UNSIGNED = "unsigned"
    """A call-back without a signature that fits."""
    UNREAD = "unread"
    """/metrics or /sd, by nobody who may read them."""
    STRANGER = "stranger"
    """Reports with a token that no node has."""
    OTHER_NODE = "other_node"
    """Reports of another node or cluster than the token's."""
    UNFIT = "unfit"
    """A body that is too large, damaged or of no known shape: counted and logged."""
    BROKEN = "broken"
    """No HTTP as we take it, or beyond its bounds: counted and logged."""


class _Pace:
    """Which refusals get a line of their own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: OrderedDict[tuple[str, str], _Kind] = OrderedDict()
        self._minute_began_seconds = self._day_began_seconds = clock.monotonic_seconds()
        self._lines_this_minute = self._lines_this_day = 0

    def may_tell(self, key: tuple[str, str]) -> int | None:
        """How many were not told since the last line of this kind; None while it is quiet."""
        now = self._clock.monotonic_seconds()
        with self._lock:
            self._turn(now)
            kind = self._kinds.get(key)
            is_quiet = kind is not None and now - kind.told_at_seconds < QUIET_SECONDS
            if is_quiet or self._is_full:
                self._count(key, kind, now)
                return None
            self._lines_this_minute += 1
            self._lines_this_day += 1
            self._kinds[key] = _Kind(told_at_seconds=now)
            self._kinds.move_to_end(key)
            self._bound()
            return kind.untold if kind is not None else 0

    @property
    def _is_full(self) -> bool:
        return self._lines_this_minute >= LINES_PER_MINUTE_MAX or self._lines_this_day >= LINES_PER_DAY_MAX

    def _turn(self, now: float) -> None:
        if now - self._minute_began_seconds >= 60.0:
            self._minute_began_seconds, self._lines_this_minute = now, 0
        if now - self._day_began_seconds >= DAY_SECONDS:
            self._day_began_seconds, self._lines_this_day = now, 0

    def _count(self, key: tuple[str, str], kind: _Kind | None, now: float) -> None:
        if kind is None:
            kind = self._kinds[key] = _Kind(told_at_seconds=now - QUIET_SECONDS)
            self._bound()
        kind.untold += 1

    def _bound(self) -> None:
        while len(self._kinds) > KINDS_MAX:
            self._kinds.popitem(last=False)


class Refusals:
    """Tells the audit and the log of refusals, bounded; counts what the door said, without bound."""

    def __init__(self, *, clock: Clock, write: Write) -> None:
        """`write` may raise StoreError: a refusal stands although its line could not be kept."""
        self._write = write
        self._lock = threading.Lock()
        self._audited, self._logged = _Pace(clock), _Pace(clock)
        self._answers = dict.fromkeys(Answer, 0)

    def answers_total(self) -> Mapping[str, int]:
        """How often the door gave each answer, since the start."""
        with self._lock:
            return {answer.value: count for answer, count in self._answers.items()}

    def count(self, answer: Answer) -> None:
        """Count an answer that needs no line of its own."""
        with self._lock:
            self._answers[answer] += 1

    def tell(self, answer: Answer, *, who: str, what: str, why: str) -> None:
        """Note one refusal in the audit: somebody wanted to be, or to do, what they may not. May write to the store."""
        self.count(answer)
        untold = self._audited.may_tell((who, what))
        if untold is None:
            return
        log.warning("refused", who=who, what=what, why=why, more_since=untold)
        try:
            self._write(who, what, why + _more(untold))
        except StoreError as error:
            log.warning("the audit line of a refusal could not be kept", who=who, what=what, error=str(error))

    def note(self, answer: Answer, *, who: str, what: str, why: str) -> None:
        """Note one refusal in the log alone: noise, whoever made it. Waits for nothing."""
        self.count(answer)
        untold = self._logged.may_tell((who, what))
        if untold is not None:
            log.warning("refused", who=who, what=what, why=why, more_since=untold)


def _more(untold: int) -> str:
    return f" ({untold} more like it since the last line)" if untold else ""
