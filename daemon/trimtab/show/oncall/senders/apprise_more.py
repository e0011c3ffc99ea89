"""The long tail, by apprise: notices only, since it tells neither what the other end said nor when to try again."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from trimtab.errors import SettingsError
from trimtab.model.advice import Severity
from trimtab.model.oncall import Message, Target, Thread, Verb
from trimtab.settings.oncall_targets import AppriseSettings
from trimtab.show.oncall.post import Site
from trimtab.show.oncall.sender import Aimed, Delivered, TryAgain, cut_bytes
from trimtab.show.oncall.text import headline, plain

TITLE_CHARACTERS_MAX = 200

OWN_KIND = {
    "pagerduty": "pagerduty",
    "opsgenie": "jsm",
    "jira": "jsm",
    "slack": "slack",
    "workflow": "teams",
    "workflows": "teams",
    "msteams": "teams",
    "feishu": "feishu",
    "lark": "feishu",
    "dingtalk": "dingtalk",
    "wecombot": "wecom",
    "ntfy": "ntfy",
    "ntfys": "ntfy",
    "mailto": "email",
    "mailtos": "email",
}
"""Services with a sender of our own: apprise reads a refusal of some of them as success, and keys none."""


class Apprise(Aimed):
    """One apprise URL. On-call cannot rest on it: `may_be_only` is false."""

    def __init__(self, name: str, settings: AppriseSettings, site: Site) -> None:
        """Raises SettingsError where apprise is missing, the URL is not one of its own, or we have a sender for it."""
        super().__init__(Target(name=name, kind="apprise", locale=settings.locale, may_be_only=False))
        self._settings = settings
        self._address = site.needed(name, settings.url_file)
        scheme = self._address.value.partition("://")[0].lower()
        if scheme in OWN_KIND:
            raise SettingsError(
                f'oncall.targets.{name}: {scheme} has a sender of its own; use kind = "{OWN_KIND[scheme]}".'
            )
        if settings.ca_file or settings.proxy_url or settings.proxy_url_file or settings.allow_plaintext:
            raise SettingsError(
                f"oncall.targets.{name}: apprise takes no ca_file, proxy or allow_plaintext; see its URL."
            )
        self._apprise: Any = _loaded(name)
        self._plugin()

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Notify. What apprise calls a failure may be anything: it is tried again."""
        plugin = self._plugin()
        limit = min(self._settings.body_bytes_max, int(plugin.body_maxlen))
        one = self._apprise.Apprise()
        one.add(plugin)
        try:
            taken = one.notify(
                body=plain(message, limit, headed=False) or headline(message),
                title=cut_bytes(headline(message), TITLE_CHARACTERS_MAX, size=len),
                notify_type=self._kind(message),
            )
        except TypeError as error:
            raise TryAgain(f"apprise failed: {type(error).__name__}", may_have_arrived=True) from None
        if not taken:
            raise TryAgain("apprise could not deliver; it does not say why", may_have_arrived=True)
        return Delivered(remark="apprise calls it delivered; what the other end said is not told")

    def _plugin(self) -> Any:  # noqa: ANN401 - apprise has no types
        plugin = self._apprise.Apprise.instantiate(self._address.value, suppress_exceptions=True)
        if plugin is None:
            raise SettingsError(
                f"oncall.targets.{self.name}: {self._settings.url_file} holds no URL that apprise knows."
            )
        return plugin

    def _kind(self, message: Message) -> Any:  # noqa: ANN401 - apprise has no types
        kinds = self._apprise.NotifyType
        if message.verb is Verb.RESOLVE:
            return kinds.SUCCESS
        return {Severity.CRITICAL: kinds.FAILURE, Severity.WARNING: kinds.WARNING}.get(message.severity, kinds.INFO)


def _loaded(name: str) -> Any:  # noqa: ANN401 - apprise has no types
    try:
        made = importlib.import_module("apprise")
    except ImportError as error:
        raise SettingsError(
            f"oncall.targets.{name}: kind \"apprise\" needs: pip install 'trimtab[oncall-more]'."
        ) from error
    # Its log shows addresses with the secrets in them.
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    return made
