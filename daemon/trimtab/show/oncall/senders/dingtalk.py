"""DingTalk, by a group's custom robot."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import urlencode

from trimtab.clock import unix_ms
from trimtab.model.oncall import Message, Target, Thread
from trimtab.settings.oncall_targets import DingTalkSettings
from trimtab.show.oncall.post import Document, Post, Site, encoded
from trimtab.show.oncall.sender import Aimed, Dead, Delivered, TryAgain
from trimtab.show.oncall.text import detail, fitted, headline, links, wants_notice

BODY_BYTES_MAX = 19_000
"""They take 20,000 bytes."""
BLOCKED_SECONDS = 600.0
"""Whoever sends too many in a minute is not heard for ten."""

_MEANING = {
    300001: "no such robot: see token_file",
    310000: "signature, keyword or address list: see secret_file and keyword",
    460101: "too large for them",
}
_TOO_MANY = frozenset({130101, 410100})


def signature(secret: str, timestamp_ms: int) -> str:
    """DingTalk's signature in base64; it is percent-encoded once, where it enters the address."""
    said = f"{timestamp_ms}\n{secret}".encode()
    return base64.b64encode(hmac.new(secret.encode(), said, hashlib.sha256).digest()).decode()


class DingTalk(Aimed):
    """One group. The robot can neither edit nor answer: each message stands for itself."""

    def __init__(self, name: str, settings: DingTalkSettings, site: Site) -> None:
        """Raises SettingsError for a token or secret that cannot be read."""
        super().__init__(Target(name=name, kind="dingtalk", locale=settings.locale))
        self._settings = settings
        self._clock = site.clock
        self._token = site.needed(name, settings.token_file)
        self._secret = site.secret(name, settings.secret_file)
        secrets = (self._token, self._secret) if self._secret else (self._token,)
        self._post = Post(name, settings, site, *secrets)

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Post markdown."""
        body = fitted(lambda text: self._body(message, text), detail(message), BODY_BYTES_MAX)
        answer = self._post.json(self._address(), body)
        said = self._post.read(answer)
        code = said.get("errcode")
        if code in _TOO_MANY:
            raise TryAgain(self._post.said(answer), after_seconds=BLOCKED_SECONDS)
        if code == -1:
            raise TryAgain(self._post.said(answer), may_have_arrived=True)
        if code != 0:
            meaning = _MEANING.get(code, "") if isinstance(code, int) else ""
            raise Dead(self._post.said(answer) + (f" ({meaning})" if meaning else ""))
        return Delivered()

    def _address(self) -> str:
        query = {"access_token": self._token.value}
        if self._secret:
            now = unix_ms(self._clock.now())
            query |= {"timestamp": str(now), "sign": signature(self._secret.value, now)}
        return f"{self._settings.url.rstrip('/')}/robot/send?{urlencode(query)}"

    def _body(self, message: Message, text: str) -> bytes:
        head = headline(message)
        keyword = self._settings.keyword
        parts = [f"**{_escaped(head)}**", *(_escaped(line) for line in text.splitlines())]
        parts += [f"[{_escaped(link.text)}]({link.href})" for link in links(message)]
        if keyword and not any(keyword in part for part in parts):
            parts.append(keyword)
        called = self._settings.mention_mobiles if wants_notice(message) else ()
        # Who is to be called must stand in the text too, or the robot calls nobody.
        if called:
            parts.append(" ".join(f"@{mobile}" for mobile in called))
        document: Document = {
            "msgtype": "markdown",
            "markdown": {"title": head, "text": "\n\n".join(parts)},
            "at": {"atMobiles": list(called), "isAtAll": self._settings.mentions_all and wants_notice(message)},
        }
        return encoded(document)


def _escaped(text: str) -> str:
    """Text in which nothing is markdown: a job's name must not become a link."""
    return "".join("\\" + character if character in "\\`*[]<>#!" else character for character in text)
