"""Feishu and Lark, by a group's custom bot."""

from __future__ import annotations

import base64
import hashlib
import hmac

from trimtab.clock import unix_seconds
from trimtab.model.oncall import Message, Target, Thread
from trimtab.settings.oncall_targets import FeishuSettings
from trimtab.show.oncall.post import Document, Post, Site, encoded
from trimtab.show.oncall.sender import Aimed, Dead, Delivered, TryAgain
from trimtab.show.oncall.text import colour, detail, fitted, headline, links

BODY_BYTES_MAX = 19_000
"""They take 20 KB."""

_AGAIN = frozenset({9499, 11232, 1254290, 1254607})
"""Too many, or not now."""
_MEANING = {
    19001: "no such bot: see token_file",
    19021: "the signature does not fit, or our clock is off by an hour: see secret_file",
    19022: "our address is not on the bot's list",
    19024: "the bot asks for a keyword: see keyword",
}


def signature(secret: str, timestamp_seconds: int) -> str:
    """Feishu's own use of HMAC: time and secret are the key, and what is signed is empty."""
    key = f"{timestamp_seconds}\n{secret}".encode()
    return base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()


class Feishu(Aimed):
    """One group. The bot can neither edit nor answer: each message stands for itself."""

    def __init__(self, name: str, settings: FeishuSettings, site: Site) -> None:
        """Raises SettingsError for a token or secret that cannot be read."""
        super().__init__(Target(name=name, kind="feishu", locale=settings.locale))
        self._settings = settings
        self._clock = site.clock
        self._token = site.needed(name, settings.token_file)
        self._secret = site.secret(name, settings.secret_file)
        secrets = (self._token, self._secret) if self._secret else (self._token,)
        self._post = Post(name, settings, site, *secrets)

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Post a card."""
        address = f"{self._settings.url.rstrip('/')}/open-apis/bot/v2/hook/{self._token.value}"
        body = fitted(lambda text: self._body(message, text), detail(message), BODY_BYTES_MAX)
        answer = self._post.exchange(address, body)
        # The code in the body comes first: it is told in a 200 and in a 400 alike.
        if answer.status not in (200, 400):
            self._post.checked(answer)
        said = self._post.read(answer)
        code = said.get("code", said.get("StatusCode"))
        if code in _AGAIN:
            raise TryAgain(self._post.said(answer), after_seconds=self._post.retry_after_seconds(answer))
        if code != 0 or answer.status != 200:
            meaning = _MEANING.get(code, "") if isinstance(code, int) else ""
            raise Dead(self._post.said(answer) + (f" ({meaning})" if meaning else ""))
        return Delivered()

    def _body(self, message: Message, text: str) -> bytes:
        document: dict[str, object] = {"msg_type": "interactive", "card": self._card(message, text)}
        if self._secret:
            now = int(unix_seconds(self._clock.now()))
            document |= {"timestamp": str(now), "sign": signature(self._secret.value, now)}
        return encoded(document)

    def _card(self, message: Message, text: str) -> Document:
        keyword = self._settings.keyword
        head = headline(message)
        if keyword and keyword not in head + text:
            text = f"{text}\n{keyword}".strip()
        # Plain text throughout: in a card's markdown a job's name could call the whole group.
        elements: list[Document] = [{"tag": "div", "text": _plain(text)}] if text else []
        buttons = [
            {"tag": "button", "text": _plain(link.text), "url": link.href, "type": "default"} for link in links(message)
        ]
        if buttons:
            elements.append({"tag": "action", "actions": buttons})
        return {
            "config": {"wide_screen_mode": True},
            "header": {
                "title": _plain(head),
                "template": colour(message, bad="red", warned="orange", told="blue", good="green"),
            },
            "elements": elements,
        }


def _plain(text: str) -> Document:
    return {"tag": "plain_text", "content": text}
