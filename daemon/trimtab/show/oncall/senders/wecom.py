"""WeCom (WeChat Work), by a group's robot."""

from __future__ import annotations

from urllib.parse import urlencode

from trimtab.model.oncall import Message, Target, Thread
from trimtab.settings.oncall_targets import WeComSettings
from trimtab.show.oncall.post import Document, Post, Site
from trimtab.show.oncall.sender import Aimed, Dead, Delivered, TryAgain
from trimtab.show.oncall.text import plain, wants_notice

TEXT_BYTES_MAX = 2_048
MARKDOWN_BYTES_MAX = 4_096
TOO_MANY_SECONDS = 60.0

_AGAIN = {-1: None, 45009: TOO_MANY_SECONDS, 45033: TOO_MANY_SECONDS}
_MEANING = {40058: "too large for them, or not as they ask", 93000: "no such robot: see key_file"}


class WeCom(Aimed):
    """One group. The robot can neither edit nor answer: each message stands for itself."""

    def __init__(self, name: str, settings: WeComSettings, site: Site) -> None:
        """Raises SettingsError for a key that cannot be read."""
        super().__init__(Target(name=name, kind="wecom", locale=settings.locale))
        self._settings = settings
        self._key = site.needed(name, settings.key_file)
        self._post = Post(name, settings, site, self._key)

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Post text or markdown."""
        query = urlencode({"key": self._key.value})
        address = f"{self._settings.url.rstrip('/')}/cgi-bin/webhook/send?{query}"
        answer = self._post.json(address, self._document(message))
        code = self._post.read(answer).get("errcode")
        if isinstance(code, int) and code in _AGAIN:
            raise TryAgain(self._post.said(answer), after_seconds=_AGAIN[code], may_have_arrived=code == -1)
        if code != 0:
            meaning = _MEANING.get(code, "") if isinstance(code, int) else ""
            raise Dead(self._post.said(answer) + (f" ({meaning})" if meaning else ""))
        return Delivered()

    def _document(self, message: Message) -> Document:
        if self._settings.format == "markdown":
            # Angle brackets would be mentions and colours.
            text = plain(message, MARKDOWN_BYTES_MAX, size=_shown_bytes)
            return {"msgtype": "markdown", "markdown": {"content": _shown(text)}}
        called = list(self._settings.mention_mobiles) if wants_notice(message) else []
        content = plain(message, TEXT_BYTES_MAX)
        return {"msgtype": "text", "text": {"content": content, "mentioned_mobile_list": called}}


def _shown(text: str) -> str:
    return text.replace("<", "＜").replace(">", "＞")


def _shown_bytes(text: str) -> int:
    return len(_shown(text).encode())
