"""Jira Service Management Operations (and Opsgenie): requests are queued when taken, and asked about afterwards."""

from __future__ import annotations

import threading
from collections import OrderedDict
from urllib.parse import quote

from trimtab.model.advice import Severity
from trimtab.model.oncall import Message, Target, Thread, Verb
from trimtab.settings.oncall_targets import JsmSettings
from trimtab.show.oncall.post import Document, Post, Site
from trimtab.show.oncall.sender import Aimed, Dead, Delivered, TryAgain, cut_bytes, utf16_units
from trimtab.show.oncall.text import headline, keyed, plain

MESSAGE_CHARACTERS_MAX = 130
DESCRIPTION_CHARACTERS_MAX = 15_000
NOTE_CHARACTERS_MAX = 25_000
DETAILS_CHARACTERS_MAX = 8_000
ENTITY_CHARACTERS_MAX = 512
USER_CHARACTERS_MAX = 100
TAGS_MAX, TAG_CHARACTERS_MAX = 20, 50
WAITS_SECONDS = (0.0, 0.25, 0.5, 1.0)
"""Before each question in one go: most requests are done within a second, and one call is then one outcome."""
ASK_AGAIN_SECONDS = 5.0
ROUNDS_MAX = 3
"""Goes in which we ask what became of a request before its being taken must do."""
PENDING_MAX = 256

_PRIORITY = {Severity.CRITICAL: "P1", Severity.WARNING: "P3", Severity.INFO: "P5"}


class Jsm(Aimed):
    """One integration of JSM. Our key is the alert's alias: what is sent twice is counted there, not shown twice."""

    def __init__(self, name: str, settings: JsmSettings, site: Site) -> None:
        """Raises SettingsError for a key that cannot be read."""
        verbs = frozenset(Verb) - {Verb.NOTE}
        super().__init__(
            Target(name=name, kind="jsm", locale=settings.locale, is_pager=True, is_repeat_visible=False, verbs=verbs)
        )
        self._settings = settings
        self._url = settings.url.rstrip("/") + "/alerts"
        self._key = site.needed(name, settings.api_key_file)
        self._post = Post(name, settings, site, self._key)
        self._pending: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """By message: the request that was taken for it, and in how many goes it was asked about."""

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Create, note, acknowledge or close by our key; what is in the queue there is asked about, not sent again."""
        message = keyed(message)
        request, rounds = self._pending.pop(message.id, ("", 0))
        if not request:
            answer = self._post.json(self._address(message), self._document(message), headers=self._headers())
            request = str(self._post.read(answer).get("requestId") or "")
            if not request:
                raise Dead(f"{self._post.said(answer)}: no requestId in it")
        if not self._settings.asks_result:
            return Delivered(remote_id=request, remark="queued; its result was not asked for")
        for wait_seconds in WAITS_SECONDS:
            # A real wait, shorter than any time-out, on the thread that this target has for itself.
            threading.Event().wait(wait_seconds)
            told = self._asked(message, request)
            if told:
                return told
        if rounds + 1 >= ROUNDS_MAX:
            return Delivered(remote_id=request, remark=f"queued; asked for {ROUNDS_MAX} rounds and told nothing more")
        self._pending[message.id] = (request, rounds + 1)
        while len(self._pending) > PENDING_MAX:
            self._pending.popitem(last=False)
        raise TryAgain("queued there, not done yet", after_seconds=ASK_AGAIN_SECONDS)

    def _asked(self, message: Message, request: str) -> Delivered | None:
        """What became of a request; None while nobody knows. Whatever goes wrong here, the request stays taken."""
        address = f"{self._url}/requests/{quote(request, safe='')}"
        try:
            answer = self._post.exchange(address, None, headers=self._headers(), method="GET")
            if answer.status in (401, 403, 405):
                return Delivered(remote_id=request, remark="queued; this key may not ask what became of it")
            if answer.status != 200:
                return None
            said = self._post.read(answer)
        except TryAgain:
            return None
        data = said.get("data")
        return self._judged(message, request, data if isinstance(data, dict) else said)

    def _judged(self, message: Message, request: str, result: Document) -> Delivered:
        if result.get("isSuccess", result.get("success")) is True:
            return Delivered(remote_id=str(result.get("alertId") or request))
        status = self._post.scrubbed(str(result.get("status") or "no reason given"))
        if message.verb is not Verb.OPEN and "not exist" in status.lower():
            return Delivered(remote_id=request, remark=f"nothing to {message.verb} there: {status}")
        raise Dead(f"queued, then refused: {status}")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"GenieKey {self._key.value}"}

    def _address(self, message: Message) -> str:
        step = {Verb.UPDATE: "notes", Verb.ACKNOWLEDGE: "acknowledge", Verb.RESOLVE: "close"}.get(message.verb)
        return f"{self._url}/{quote(message.key, safe='')}/{step}?identifierType=alias" if step else self._url

    def _document(self, message: Message) -> Document:
        if message.verb is not Verb.OPEN:
            note = plain(message, NOTE_CHARACTERS_MAX, size=utf16_units)
            return {
                "source": "trimtab",
                "user": cut_bytes(message.who or "trimtab", USER_CHARACTERS_MAX, size=utf16_units),
                "note": note,
            }
        tags = (message.cluster, message.rule, *(("drill",) if message.is_drill else ()), *self._settings.tags)
        return {
            "message": cut_bytes(headline(message), MESSAGE_CHARACTERS_MAX, size=utf16_units),
            "alias": message.key,
            "description": plain(message, DESCRIPTION_CHARACTERS_MAX, size=utf16_units),
            "priority": _PRIORITY[message.severity],
            "entity": cut_bytes(message.subject.text, ENTITY_CHARACTERS_MAX, size=utf16_units),
            "source": "trimtab",
            "tags": [cut_bytes(tag, TAG_CHARACTERS_MAX, size=utf16_units) for tag in tags][:TAGS_MAX],
            "details": _details(message),
        }


def _details(message: Message) -> dict[str, str]:
    """Facts in order, as many as they take."""
    kept: dict[str, str] = {}
    room = DETAILS_CHARACTERS_MAX
    for name, value in {"queue": message.queue, "owner": message.owner, **message.facts}.items():
        room -= utf16_units(name) + utf16_units(value)
        if value and room >= 0:
            kept[name] = value
    return kept
