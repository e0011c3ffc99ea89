"""What a message says in words, before a sender puts it into its target's form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from trimtab.model.advice import Severity
from trimtab.model.oncall import Message, Verb
from trimtab.show.catalogue import Catalogue
from trimtab.show.oncall.sender import cut_bytes, utf8_bytes, utf16_units

HEADLINE_CHARACTERS_MAX = 400
"""A first line has 110 and its marks; this holds whatever was written there by mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Where a message points, and what the link is called."""

    text: str
    href: str


def keyed(message: Message) -> Message:
    """The message for a target that tells repeats by our key: it need not say that it may be one."""
    return replace(message, is_repeat=False) if message.is_repeat else message


def headline(message: Message) -> str:
    """The first line with its marks: drill, and may be a repeat. One line, whatever came in."""
    words = Catalogue(message.locale)
    marks = [words.say("oncall-mark-drill")] if message.is_drill else []
    if message.is_repeat:
        marks.append(words.say("oncall-mark-repeat"))
    return _bounded(" ".join((*marks, message.first_line)))


def title(message: Message) -> str:
    """What threads and mails are called, the same from opening to end."""
    mark = Catalogue(message.locale).say("oncall-mark-drill") + " " if message.is_drill else ""
    return _bounded(mark + message.title)


def detail(message: Message) -> str:
    """The lines below the first one."""
    return "\n".join(one_line(line) for line in message.lines)


def links(message: Message) -> tuple[Link, ...]:
    """Where to see and approve, and what to do."""
    words = Catalogue(message.locale)
    named = (("oncall-open", message.link), ("oncall-runbook", message.runbook))
    return tuple(Link(text=words.say(key), href=href) for key, href in named if href)


def plain(message: Message, limit: int, *, size: Callable[[str], int] = utf8_bytes, headed: bool = True) -> str:
    """Everything as plain text in at most `limit`: first line and links whole, the lines between cut to fit."""
    # What stays goes first and last; what can be spared stands between them.
    tail = "".join(f"\n{link.text}: {link.href}" for link in links(message))
    text = "\n".join(part for part in (headline(message) if headed else "", detail(message)) if part)
    room = limit - size(tail)
    head = headline(message) if headed else ""
    if room < size(head) + size("\n…"):
        return cut_bytes(text, limit, size=size)
    return cut_bytes(text, room, size=size) + (tail if text else tail.lstrip("\n"))


def fitted(build: Callable[[str], bytes], text: str, limit: int, *, size: Callable[[bytes], int] = len) -> bytes:
    """`build` of as much of the text as keeps the whole body within `limit`; escapes of the encoding count."""
    whole = build(text)
    if size(whole) <= limit:
        return whole
    low, high = 0, utf8_bytes(text)
    while low < high:
        middle = (low + high + 1) // 2
        if size(build(cut_bytes(text, middle))) <= limit:
            low = middle
        else:
            high = middle - 1
    return build(cut_bytes(text, low))


def colour(message: Message, *, bad: str, warned: str, told: str, good: str) -> str:
    """A target's own word for how bad it is: never the only thing that says so."""
    if message.verb is Verb.RESOLVE:
        return good
    return {Severity.CRITICAL: bad, Severity.WARNING: warned, Severity.INFO: told}[message.severity]


def wants_notice(message: Message) -> bool:
    """Whether somebody is to be called by name: at the opening, and when it gets worse."""
    return message.verb is Verb.OPEN or (message.verb is Verb.UPDATE and message.is_loud)


def _bounded(text: str) -> str:
    """On one line, and never so long that it alone fills a target's room."""
    return cut_bytes(one_line(text), HEADLINE_CHARACTERS_MAX, size=utf16_units)


def one_line(text: str) -> str:
    """Without line breaks and control characters, whatever a node or a tenant called its things."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
