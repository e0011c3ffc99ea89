"""Slack, by its Web API: one message an incident that is kept true by edits, and its story in the thread below.

Slack has no keys. Each message carries its id as metadata, by which a repeat can be found out before it is sent.
"""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from trimtab.model.oncall import Message, Target, Thread, Verb
from trimtab.settings.oncall_targets import SlackSettings
from trimtab.show.catalogue import Catalogue
from trimtab.show.oncall.post import Document, Post, Site
from trimtab.show.oncall.sender import Aimed, Dead, Delivered, TryAgain, cut_bytes, utf16_units
from trimtab.show.oncall.text import detail, headline, links, wants_notice

TEXT_CHARACTERS_MAX = 3_000
"""They take 40,000 and show a line of it."""
HEADER_CHARACTERS_MAX = 150
SECTION_CHARACTERS_MAX = 3_000
BLOCKS_CHARACTERS_MAX = 12_000
"""All blocks together; past about 13,200 they refuse the whole."""
HREF_CHARACTERS_MAX = 3_000
METADATA_TYPE = "trimtab_message"
LOOKS_BACK_MAX = 50
"""Messages among which a repeat is looked for."""
ACKNOWLEDGE_ACTION = "trimtab_acknowledge"
"""How our button names itself when it is pressed."""

_AGAIN = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)
_LOST = frozenset({"message_not_found", "thread_not_found", "invalid_thread_ts", "cannot_reply_to_message"})
_NOT_EDITABLE = frozenset({"cant_update_message", "edit_window_closed", "is_inactive", "message_not_found"})


class _Metadata(Struct, frozen=True):
    event_payload: dict[str, object] = {}


class _Message(Struct, frozen=True):
    ts: str
    metadata: _Metadata = _Metadata()


class _Told(Struct, frozen=True):
    messages: tuple[_Message, ...] = ()


class _SlackError(Exception):
    """`ok` was false; the text is Slack's own word for why."""


class Slack(Aimed):
    """One channel. What may have arrived before says so itself, or is looked for first."""

    def __init__(self, name: str, settings: SlackSettings, site: Site) -> None:
        """Raises SettingsError for a token that cannot be read."""
        super().__init__(
            Target(name=name, kind="slack", locale=settings.locale, is_repeat_visible=not settings.looks_back)
        )
        self._settings = settings
        self._token = site.needed(name, settings.token_file)
        self._post = Post(name, settings, site, self._token)

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Post at the opening; afterwards edit that message, and tell the change below it."""
        try:
            if thread is None or message.verb is Verb.NOTE:
                return self._opened(message)
            return self._went_on(message, thread)
        except _SlackError as error:
            word = str(error)
            if word in _AGAIN:
                raise TryAgain(f"Slack said {word}") from None
            raise Dead(f"Slack said {word}") from None

    def _opened(self, message: Message) -> Delivered:
        place = self._settings.channel
        stamp = self._seen(message, "conversations.history", {"channel": place})
        if not stamp:
            said = self._posted(message, {"channel": place})
            stamp, place = str(said["ts"]), str(said.get("channel") or place)
        thread = None if message.verb is Verb.NOTE else Thread(root=stamp, place=place)
        return Delivered(remote_id=stamp, thread=thread)

    def _went_on(self, message: Message, thread: Thread) -> Delivered:
        place = thread.place or self._settings.channel
        # The edit goes first: it can be repeated unseen, should the line below it fail.
        try:
            self._called("chat.update", {"channel": place, "ts": thread.root, **self._content(message, is_root=True)})
        except _SlackError as error:
            if str(error) not in _NOT_EDITABLE:
                raise
        kept = Thread(root=thread.root, place=place)
        if stamp := self._seen(message, "conversations.replies", {"channel": place, "ts": thread.root}):
            return Delivered(remote_id=stamp, thread=kept)
        is_for_all = wants_notice(message) or message.verb is Verb.RESOLVE
        try:
            said = self._posted(message, {"channel": place, "thread_ts": thread.root, "reply_broadcast": is_for_all})
        except _SlackError as error:
            if str(error) not in _LOST:
                raise
            return self._opened(message)
        return Delivered(remote_id=str(said["ts"]), thread=kept)

    def _posted(self, message: Message, where: Document) -> dict[str, object]:
        metadata = {"event_type": METADATA_TYPE, "event_payload": {"id": message.id}}
        return self._called("chat.postMessage", {**where, **self._content(message), "metadata": metadata})

    def _seen(self, message: Message, method: str, where: dict[str, str]) -> str:
        """Where a repeat stands already; empty if it does not, or nobody can tell."""
        if not (message.is_repeat and self._settings.looks_back):
            return ""
        query = urlencode({**where, "limit": str(LOOKS_BACK_MAX), "include_all_metadata": "true"})
        address = f"{self._settings.url.rstrip('/')}/api/{method}?{query}"
        answer = self._post.exchange(address, None, headers=self._headers(), method="GET")
        try:
            told = msgspec.json.decode(answer.body, type=_Told)
        except msgspec.DecodeError:
            return ""
        return next((one.ts for one in told.messages if one.metadata.event_payload.get("id") == message.id), "")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token.value}"}

    def _called(self, method: str, document: Document) -> dict[str, object]:
        address = f"{self._settings.url.rstrip('/')}/api/{method}"
        answer = self._post.json(address, document, headers=self._headers())
        said = self._post.read(answer)
        if said.get("ok") is not True:
            raise _SlackError(self._post.scrubbed(str(said.get("error") or self._post.said(answer))))
        if not isinstance(said.get("ts"), str):
            raise TryAgain(f"{self._post.said(answer)}: ok without a ts")
        return said

    def _content(self, message: Message, *, is_root: bool = False) -> dict[str, object]:
        head = headline(message)
        mention = self._settings.mention if wants_notice(message) and not is_root else ""
        # `text` is the lock screen's line; it is parsed, so that a job called <!channel> would wake everybody.
        text = f"{mention} {_escaped(head)}".strip()
        return {
            "text": cut_bytes(text, TEXT_CHARACTERS_MAX, size=utf16_units),
            "blocks": self._blocks(message, head, mention),
            "unfurl_links": False,
            "unfurl_media": False,
        }

    def _blocks(self, message: Message, head: str, mention: str) -> list[dict[str, object]]:
        blocks: list[dict[str, object]] = [{"type": "header", "text": _words(head, HEADER_CHARACTERS_MAX)}]
        if mention:
            blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": mention}})
        rest = cut_bytes(detail(message), BLOCKS_CHARACTERS_MAX, size=utf16_units)
        while rest:
            piece = _first_piece(rest)
            blocks.append({"type": "section", "text": _words(piece, SECTION_CHARACTERS_MAX)})
            rest = rest[len(piece) :].lstrip("\n")
        buttons = self._buttons(message)
        return [*blocks, {"type": "actions", "elements": buttons}] if buttons else blocks

    def _buttons(self, message: Message) -> list[dict[str, object]]:
        buttons: list[dict[str, object]] = [
            {"type": "button", "text": _words(link.text, 75), "url": link.href, "action_id": f"trimtab_link_{index}"}
            for index, link in enumerate(links(message))
            if len(link.href) <= HREF_CHARACTERS_MAX
        ]
        if self._settings.signing_secret_file and message.verb in (Verb.OPEN, Verb.UPDATE):
            said = Catalogue(message.locale).say("oncall-acknowledge")
            buttons.append(
                {"type": "button", "text": _words(said, 75), "value": message.key, "action_id": ACKNOWLEDGE_ACTION}
            )
        return buttons


def _words(text: str, limit: int) -> dict[str, object]:
    """Text that Slack shows as it stands: nothing in it is a mention, a link or a style."""
    return {"type": "plain_text", "text": cut_bytes(text, limit, size=utf16_units), "emoji": False}


def _first_piece(text: str) -> str:
    """As many whole lines as one section takes; of a longer line, as much as it takes."""
    if utf16_units(text) <= SECTION_CHARACTERS_MAX:
        return text
    # Every character may count twice.
    room = text[: SECTION_CHARACTERS_MAX // 2]
    cut = room.rfind("\n")
    return room[:cut] if cut > 0 else room


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
