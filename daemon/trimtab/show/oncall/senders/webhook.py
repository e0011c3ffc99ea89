"""Anything else that can receive: Standard Webhooks, signed, with a published schema."""

from __future__ import annotations

from trimtab.clock import unix_seconds
from trimtab.errors import SettingsError
from trimtab.model.oncall import Message, Target, Thread
from trimtab.settings.oncall_targets import WebhookSettings
from trimtab.show.oncall.post import Post, Site, encoded
from trimtab.show.oncall.secret import Secret
from trimtab.show.oncall.sender import Aimed, Dead, Delivered
from trimtab.show.oncall.standard_webhook import headers, key_bytes
from trimtab.show.oncall.text import detail, fitted, keyed
from trimtab.show.oncall.webhook_body import body_of

BODY_BYTES_MAX = 19_000
"""The standard asks for less than 20 kB."""


class Webhook(Aimed):
    """One receiver. The id is the same on every try, the timestamp is the attempt's: what is replayed is seen."""

    def __init__(self, name: str, settings: WebhookSettings, site: Site) -> None:
        """Raises SettingsError without an address or a good key."""
        super().__init__(
            Target(
                name=name,
                kind="webhook",
                locale=settings.locale,
                is_pager=settings.is_pager,
                is_repeat_visible=False,
            )
        )
        self._settings = settings
        self._clock = site.clock
        self._address: Secret | None = site.address(name, settings.url_file, settings) if settings.url_file else None
        if bool(self._address) == bool(settings.url):
            raise SettingsError(f"oncall.targets.{name}: set either url or url_file.")
        self._keys = site.needed(name, settings.keys_file)
        self._signing_keys()
        self._post = Post(name, settings, site, self._keys, *((self._address,) if self._address else ()))

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Post the body, signed by every key. 2xx is taken; 410 says that nobody listens there any more."""
        url = self._address.value if self._address else self._settings.url or ""
        told = keyed(message)
        body = fitted(lambda text: encoded(body_of(told, text.splitlines())), detail(told), BODY_BYTES_MAX)
        now = int(unix_seconds(self._clock.now()))
        signed = headers(self._signing_keys(), id=message.id, timestamp_seconds=now, body=body)
        answer = self._post.exchange(url, body, headers=signed)
        if answer.status == 410:
            raise Dead("answered 410: the receiver has been closed; take it out of oncall.targets")
        self._post.checked(answer)
        return Delivered(remote_id=message.id)

    def _signing_keys(self) -> list[bytes]:
        return [key_bytes(line, of=f"oncall.targets.{self.name}") for line in self._keys.lines]
