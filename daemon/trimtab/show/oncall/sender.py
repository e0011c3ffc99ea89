"""The seam to whatever wakes people: one sender a target, and the three ways in which a message can end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from trimtab.errors import TrimtabError
from trimtab.model.oncall import Message, Target, Thread

ELLIPSIS = "…"


class TryAgain(TrimtabError):
    """Not taken, but may be later: no connection, too many, or the other end is ill.

    `after_seconds` is how long the target asked us to wait; None leaves it to the outbox's own back-off.
    `may_have_arrived`: the answer was lost and not the message, perhaps; only then is the next try a repeat.
    """

    def __init__(self, reason: str, *, after_seconds: float | None = None, may_have_arrived: bool = False) -> None:
        """The sentence for people, without secrets."""
        super().__init__(reason)
        self.reason = reason
        self.after_seconds = after_seconds
        self.may_have_arrived = may_have_arrived


class Dead(TrimtabError):
    """Refused for good: this message will never be taken as it is. Tell another target."""

    def __init__(self, reason: str) -> None:
        """The sentence for people, without secrets."""
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Taken, as far as the target's own answer says."""

    remote_id: str = ""
    """The target's id of this message, if it told one."""
    thread: Thread | None = None
    """To be kept with the incident and given back with its next message."""
    remark: str = ""
    """What the answer leaves open: `taken by the flow; whether the card was shown is not told`."""


class Aimed:
    """What each sender knows of its target."""

    def __init__(self, target: Target) -> None:
        """The target as routes see it."""
        self._target = target

    @property
    def target(self) -> Target:
        """What routes need to know of it."""
        return self._target

    @property
    def name(self) -> str:
        """The target's name in the settings."""
        return self._target.name


class Sender(Protocol):
    """Carries one message to one target. Safe to repeat; success is what the body says, never the status alone."""

    @property
    def target(self) -> Target:
        """What routes need to know of it."""
        ...

    @property
    def name(self) -> str:
        """The target's name in the settings."""
        ...

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Deliver, or raise TryAgain or Dead, within a few time-outs; each target has a thread of its own."""
        ...


def utf8_bytes(text: str) -> int:
    """Size as it goes over the wire."""
    return len(text.encode())


def utf16_units(text: str) -> int:
    """Size as those count it who say characters and mean Java's or JavaScript's."""
    return len(text) + sum(1 for character in text if ord(character) > 0xFFFF)


def cut_bytes(text: str, limit: int, *, size: Callable[[str], int] = utf8_bytes) -> str:
    """The text in at most `limit` bytes (or units of `size`): whole characters, the first line kept whole if it fits.

    What is left out is marked by an ellipsis where there is room for one.
    """
    if size(text) <= limit:
        return text
    first, _, _ = text.partition("\n")
    if size(first) <= limit < size(first) + size("\n" + ELLIPSIS):
        return first
    room = limit - size(ELLIPSIS)
    if room < 0:
        return _longest(text, limit, size)
    return _longest(text, room, size).rstrip(" ") + ELLIPSIS


def _longest(text: str, limit: int, size: Callable[[str], int]) -> str:
    """The longest beginning that fits."""
    low, high = 0, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if size(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]
