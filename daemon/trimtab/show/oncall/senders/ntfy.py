"""ntfy, public or one's own: a notification an incident, edited in place where the server can."""

from __future__ import annotations

import hashlib

from trimtab.errors import SettingsError
from trimtab.model.advice import Severity
from trimtab.model.oncall import Message, Target, Thread, Verb
from trimtab.settings.oncall_targets import NtfySettings
from trimtab.show.oncall.post import Document, Post, Site
from trimtab.show.oncall.sender import Aimed, Delivered, TryAgain, cut_bytes
from trimtab.show.oncall.text import colour, detail, headline, links, wants_notice

TITLE_BYTES_MAX = 500
TEXT_BYTES_MAX = 3_500
"""Past 4,096 bytes the text becomes a file to open."""

_PRIORITY = {Severity.CRITICAL: 5, Severity.WARNING: 4, Severity.INFO: 3}
_QUIET = 2


class Ntfy(Aimed):
    """One topic. From 2.16 on, a server shows one notification an incident; an older one shows each message."""

    def __init__(self, name: str, settings: NtfySettings, site: Site) -> None:
        """Raises SettingsError without a topic, or for a token that cannot be read."""
        super().__init__(Target(name=name, kind="ntfy", locale=settings.locale))
        self._settings = settings
        self._topic = site.secret(name, settings.topic_file)
        self._token = site.secret(name, settings.token_file)
        if bool(self._topic) == bool(settings.topic):
            raise SettingsError(f"oncall.targets.{name}: set either topic or topic_file.")
        self._post = Post(name, settings, site, *(secret for secret in (self._topic, self._token) if secret))

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Publish, or edit what stands for this incident already."""
        headers = {"Authorization": f"Bearer {self._token.value}"} if self._token else {}
        document = self._document(message)
        answer = self._post.json(self._settings.url, document, headers=headers)
        said = self._post.read(answer)
        remote_id = said.get("id")
        if not isinstance(remote_id, str) or said.get("event") != "message":
            raise TryAgain(f"{self._post.said(answer)}: not what ntfy answers")
        can_edit = said.get("sequence_id") == document["sequence_id"]
        remark = "" if can_edit else "this server is older than 2.16: it shows each message by itself"
        return Delivered(remote_id=remote_id, remark=remark)

    def _document(self, message: Message) -> dict[str, object]:
        # A note stands for itself; the messages of an incident share one place.
        place = message.id if message.verb is Verb.NOTE else message.key
        actions: list[Document] = [
            {"action": "view", "label": link.text, "url": link.href, "clear": False} for link in links(message)
        ]
        document: dict[str, object] = {
            "topic": self._topic.value if self._topic else self._settings.topic,
            "title": cut_bytes(headline(message), TITLE_BYTES_MAX),
            "message": cut_bytes(detail(message), TEXT_BYTES_MAX) or headline(message),
            "priority": _PRIORITY[message.severity] if wants_notice(message) else _QUIET,
            "tags": [
                colour(message, bad="rotating_light", warned="warning", told="speech_balloon", good="white_check_mark")
            ],
            "sequence_id": hashlib.sha256(place.encode()).hexdigest()[:32],
            "actions": actions,
        }
        return {**document, "click": message.link} if message.link else document
