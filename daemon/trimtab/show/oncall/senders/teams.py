"""Microsoft Teams, by a Workflows webhook: one adaptive card a message."""

from __future__ import annotations

import json

import msgspec

from trimtab.model.oncall import Message, Target, Thread
from trimtab.outbound import Answer
from trimtab.settings.oncall_targets import TeamsSettings
from trimtab.show.oncall.post import Document, Post, Site
from trimtab.show.oncall.sender import Aimed, Dead, Delivered
from trimtab.show.oncall.text import colour, detail, fitted, headline, links

CARD_BYTES_MAX = 20_000
"""They refuse 28,672 bytes, counted after they have written the card anew, larger than we sent it."""

_CARD = "application/vnd.microsoft.card.adaptive"


class Teams(Aimed):
    """One flow. It says that it took the card, not that the card was shown: nothing to rest on-call on alone."""

    def __init__(self, name: str, settings: TeamsSettings, site: Site) -> None:
        """Raises SettingsError for an address that cannot be read."""
        super().__init__(Target(name=name, kind="teams", locale=settings.locale, may_be_only=False))
        self._address = site.address(name, settings.url_file, settings)
        self._post = Post(name, settings, site, self._address)

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Post a card."""
        body = fitted(lambda text: _body(message, text), detail(message), CARD_BYTES_MAX, size=_inflated_bytes)
        answer = self._post.json(self._address.value, body)
        self._read(answer)
        return Delivered(remark="taken by the flow; whether the card was shown is not told")

    def _read(self, answer: Answer) -> None:
        """An error told in a 2xx is an error."""
        text = answer.body.decode(errors="replace")
        if "error" in text.lower() or "failed" in text.lower():
            raise Dead(self._post.said(answer))


def _inflated_bytes(body: bytes) -> int:
    """Size with everything beyond ASCII written as escapes, as it may be on its way."""
    return len(json.dumps(json.loads(body)))


def _body(message: Message, text: str) -> bytes:
    style = colour(message, bad="attention", warned="warning", told="accent", good="good")
    head = _line(headline(message), weight="Bolder", size="Medium")
    # Rich text is shown as it stands; a TextBlock would read markdown out of the names of other people's jobs.
    lines = [_line(line) for line in text.splitlines()]
    content: dict[str, object] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": headline(message),
        "msteams": {"width": "Full"},
        "body": [{"type": "Container", "style": style, "bleed": True, "items": [head]}, *lines],
        "actions": [{"type": "Action.OpenUrl", "title": link.text, "url": link.href} for link in links(message)],
    }
    card = {"contentType": _CARD, "contentUrl": None, "content": content}
    return msgspec.json.encode({"type": "message", "summary": headline(message), "attachments": [card]})


def _line(text: str, **style: str) -> Document:
    run = {"type": "TextRun", "text": text, **style}
    return {"type": "RichTextBlock", "inlines": [run]}
