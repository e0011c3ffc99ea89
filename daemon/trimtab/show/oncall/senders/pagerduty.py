"""PagerDuty: incidents by Events API v2, and change events for what pages nobody."""

from __future__ import annotations

from trimtab.clock import iso
from trimtab.model.advice import Severity
from trimtab.model.oncall import Message, Target, Thread, Verb
from trimtab.settings.oncall_targets import PagerDutySettings
from trimtab.show.oncall.post import Document, Post, Site, encoded
from trimtab.show.oncall.sender import Aimed, Dead, Delivered, cut_bytes, utf16_units
from trimtab.show.oncall.text import fitted, headline, keyed, links, plain

SUMMARY_CHARACTERS_MAX = 1024
BODY_BYTES_MAX = 500_000
"""They take 512 KB."""
TEXT_BYTES_MAX = 50_000
"""Nobody reads more on a pager."""

_ACTIONS = {
    Verb.OPEN: "trigger",
    Verb.UPDATE: "trigger",
    Verb.ACKNOWLEDGE: "acknowledge",
    Verb.RESOLVE: "resolve",
}


class PagerDuty(Aimed):
    """One service of PagerDuty. A trigger on an open key becomes a line of its log and wakes nobody again."""

    def __init__(self, name: str, settings: PagerDutySettings, site: Site) -> None:
        """Raises SettingsError for a key that cannot be read."""
        super().__init__(
            Target(name=name, kind="pagerduty", locale=settings.locale, is_pager=True, is_repeat_visible=False)
        )
        self._url = settings.url.rstrip("/")
        self._key = site.needed(name, settings.routing_key_file)
        self._post = Post(name, settings, site, self._key)

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Trigger, acknowledge or resolve by our key; a note becomes a change event."""
        message = keyed(message) if message.verb is not Verb.NOTE else message
        if message.verb is Verb.NOTE:
            return self._sent(
                "/v2/change/enqueue", fitted(lambda text: self._change(message, text), _text(message), BODY_BYTES_MAX)
            )
        if message.verb in (Verb.OPEN, Verb.UPDATE):
            body = fitted(lambda text: self._trigger(message, text), _text(message), BODY_BYTES_MAX)
        else:
            body = encoded(self._event(message))
        return self._sent("/v2/enqueue", body, key=message.key)

    def _sent(self, path: str, body: bytes, *, key: str = "") -> Delivered:
        answer = self._post.json(self._url + path, body)
        said = self._post.read(answer)
        # A key of theirs means that ours was not taken: then nothing could ever close this incident.
        if said.get("status") != "success" or (key and said.get("dedup_key") != key):
            raise Dead(self._post.said(answer))
        return Delivered(remote_id=str(said.get("dedup_key") or ""))

    def _event(self, message: Message) -> dict[str, object]:
        return {
            "routing_key": self._key.value,
            "event_action": _ACTIONS[message.verb],
            "dedup_key": message.key,
        }

    def _trigger(self, message: Message, text: str) -> bytes:
        subject = message.subject
        payload: Document = {
            "summary": cut_bytes(headline(message), SUMMARY_CHARACTERS_MAX, size=utf16_units),
            "source": subject.node or message.cluster,
            "severity": "critical" if message.severity is Severity.CRITICAL else message.severity.value,
            "timestamp": iso(message.at),
            "component": subject.gpu or subject.workload or subject.text,
            "group": message.queue or message.cluster,
            "class": message.rule,
            "custom_details": {**message.facts, **_known(message), "text": text},
        }
        document = {**self._event(message), "payload": payload, "client": "trimtab", "links": _links(message)}
        return encoded({**document, "client_url": message.link} if message.link else document)

    def _change(self, message: Message, text: str) -> bytes:
        payload: Document = {
            "summary": cut_bytes(headline(message), SUMMARY_CHARACTERS_MAX, size=utf16_units),
            "source": message.subject.node or message.cluster,
            "timestamp": iso(message.at),
            "custom_details": {**message.facts, "text": text},
        }
        return encoded({"routing_key": self._key.value, "payload": payload, "links": _links(message)})


def _text(message: Message) -> str:
    return plain(message, TEXT_BYTES_MAX, headed=False)


def _links(message: Message) -> list[dict[str, str]]:
    return [{"href": link.href, "text": link.text} for link in links(message)]


def _known(message: Message) -> dict[str, str]:
    """What else is known, without the empty ones."""
    known = {"cluster": message.cluster, "queue": message.queue, "owner": message.owner}
    marks = {"drill": "yes"} if message.is_drill else {}
    return {name: value for name, value in known.items() if value} | marks
