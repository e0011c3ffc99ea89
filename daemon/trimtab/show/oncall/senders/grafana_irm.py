"""Grafana IRM and OnCall, by their formatted webhook: one alert group an incident."""

from __future__ import annotations

from trimtab.model.oncall import Message, Target, Thread, Verb
from trimtab.settings.oncall_targets import GrafanaIrmSettings
from trimtab.show.oncall.post import Post, Site, encoded
from trimtab.show.oncall.sender import Aimed, Delivered, utf16_units
from trimtab.show.oncall.text import fitted, headline, keyed, plain

BODY_BYTES_MAX = 100_000
MESSAGE_CHARACTERS_MAX = 10_000


class GrafanaIrm(Aimed):
    """One integration of Grafana IRM. It knows opened and closed only: an acknowledgement cannot be told to it."""

    def __init__(self, name: str, settings: GrafanaIrmSettings, site: Site) -> None:
        """Raises SettingsError for an address that cannot be read."""
        verbs = frozenset({Verb.OPEN, Verb.UPDATE, Verb.RESOLVE})
        super().__init__(
            Target(
                name=name,
                kind="grafana_irm",
                locale=settings.locale,
                is_pager=True,
                is_repeat_visible=False,
                verbs=verbs,
            )
        )
        self._address = site.address(name, settings.url_file, settings)
        self._post = Post(name, settings, site, self._address)

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Fire or resolve by our key."""
        message = keyed(message)
        text = plain(message, MESSAGE_CHARACTERS_MAX, size=utf16_units)
        self._post.json(self._address.value, fitted(lambda kept: _body(message, kept), text, BODY_BYTES_MAX))
        return Delivered(remark="taken; no answer of theirs says more")


def _body(message: Message, text: str) -> bytes:
    return encoded(
        {
            "alert_uid": message.key,
            "title": headline(message),
            "state": "ok" if message.verb is Verb.RESOLVE else "alerting",
            "message": text,
            "link_to_upstream_details": message.link,
        }
    )
