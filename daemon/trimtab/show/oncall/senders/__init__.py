"""The catalogue of senders: each kind of target, and what is built for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from trimtab.clock import Clock
from trimtab.errors import SettingsError
from trimtab.model.oncall import Target
from trimtab.settings.oncall_targets import (
    AppriseSettings,
    DingTalkSettings,
    EmailSettings,
    FeishuSettings,
    GrafanaIrmSettings,
    JsmSettings,
    NtfySettings,
    PagerDutySettings,
    SlackSettings,
    TargetSection,
    TeamsSettings,
    WebhookSettings,
    WeComSettings,
)
from trimtab.show.oncall.post import Site
from trimtab.show.oncall.sender import Sender
from trimtab.show.oncall.senders.apprise_more import Apprise
from trimtab.show.oncall.senders.dingtalk import DingTalk
from trimtab.show.oncall.senders.email import Email
from trimtab.show.oncall.senders.feishu import Feishu
from trimtab.show.oncall.senders.grafana_irm import GrafanaIrm
from trimtab.show.oncall.senders.jsm import Jsm
from trimtab.show.oncall.senders.ntfy import Ntfy
from trimtab.show.oncall.senders.pagerduty import PagerDuty
from trimtab.show.oncall.senders.slack import Slack
from trimtab.show.oncall.senders.teams import Teams
from trimtab.show.oncall.senders.webhook import Webhook
from trimtab.show.oncall.senders.wecom import WeCom

SENDERS: tuple[tuple[type[TargetSection], Callable[[str, Any, Site], Sender]], ...] = (
    # Pagers: they keep an incident by our key, wake people by their own shifts, and show nothing twice.
    (PagerDutySettings, PagerDuty),
    (JsmSettings, Jsm),
    (GrafanaIrmSettings, GrafanaIrm),
    # Chats: Slack threads and edits, the others tell each message by itself.
    (SlackSettings, Slack),
    (TeamsSettings, Teams),
    (FeishuSettings, Feishu),
    (DingTalkSettings, DingTalk),
    (WeComSettings, WeCom),
    # Telephones, mailboxes, and whatever people have built.
    (NtfySettings, Ntfy),
    (EmailSettings, Email),
    (WebhookSettings, Webhook),
    # The long tail, last: for notices only.
    (AppriseSettings, Apprise),
)


def build(name: str, settings: TargetSection, *, clock: Clock, directory: Path) -> Sender:
    """The sender for one target; relative files are below `directory`. Raises SettingsError that names the fix.

    `clock` is the real one, whatever time the daemon lives in: signatures carry moments that the other end checks.
    """
    site = Site(clock=clock, directory=directory)
    for section, made in SENDERS:
        if type(settings) is section:
            return made(name, settings, site)
    raise SettingsError(f"oncall.targets.{name}: no sender for {type(settings).__name__}.")


def build_all(targets: Mapping[str, TargetSection], *, clock: Clock, directory: Path) -> dict[str, Sender]:
    """Every target's sender. Raises SettingsError for the first that cannot be, or if on-call would rest on nothing."""
    made = {name: build(name, settings, clock=clock, directory=directory) for name, settings in targets.items()}
    refuse_if_nothing_holds(sender.target for sender in made.values())
    return made


def refuse_if_nothing_holds(targets: Iterable[Target]) -> None:
    """Raise SettingsError if on-call would rest on targets alone that cannot tell whether anybody was reached."""
    listed = list(targets)
    if listed and not any(target.may_be_only for target in listed):
        names = ", ".join(f"{target.name} ({target.kind})" for target in listed)
        raise SettingsError(
            f"oncall: {names} cannot tell whether anybody was reached. Add a target that can (not teams, not apprise)."
        )
