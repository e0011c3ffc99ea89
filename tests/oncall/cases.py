"""Every target that speaks HTTP, each with its real end's stand-in, for the tests that hold for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
from tests.oncall.chat_receivers import (
    DingTalkReceiver,
    FeishuReceiver,
    NtfyReceiver,
    SlackReceiver,
    TeamsReceiver,
    WeComReceiver,
)
from tests.oncall.receivers import GrafanaIrmReceiver, JsmReceiver, PagerDutyReceiver, WebhookReceiver
from tests.oncall.scenes import a_sender, secret_file
from tests.oncall.server import Receiver, Reply

from trimtab.clock import Clock
from trimtab.settings.oncall_targets import TargetSection, TargetSettings
from trimtab.show.oncall.sender import Sender
from trimtab.show.oncall.webhook_body import schema

SECRET = "r0uting4key7that1nobody2may3read"
SIGNING = "SECsigning0000f00d"
KEY = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

Files = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of target and its other end."""

    kind: str
    receiver: Callable[[], Receiver]
    settings: Mapping[str, Any]
    """`$URL` stands for where the receiver listens."""
    files: Files = field(default_factory=dict)
    """Name -> content, where `$URL` stands for the same."""
    heard: Callable[[Any], list[str]]
    """First lines that somebody would have read, in order."""
    body_error: Reply | None = None
    """A refusal for good that is told in a 2xx."""
    body_later: Reply | None = None
    """A not-now that is told in a 2xx."""
    says_nothing: bool = False
    """Whether a 2xx of theirs says all there is: then a proxy's 200 cannot be told from it."""

    def sender(self, url: str, folder: Path, *, clock: Clock | None = None, **more: Any) -> Sender:
        for name, content in self.files.items():
            secret_file(folder, name, content.replace("$URL", url))
        table = {
            name: value.replace("$URL", url) if isinstance(value, str) else value
            for name, value in self.settings.items()
        }
        settings = msgspec.convert({"kind": self.kind, **table, **more}, cast(Any, TargetSettings), strict=True)
        assert isinstance(settings, TargetSection)
        return a_sender(settings, folder, clock=clock)


def _card_lines(teams: TeamsReceiver) -> list[str]:
    return [card["body"][0]["items"][0]["inlines"][0]["text"] for card in teams.shown]


CASES = (
    Case(
        kind="pagerduty",
        receiver=lambda: PagerDutyReceiver(SECRET),
        settings={"url": "$URL", "routing_key_file": "key"},
        files={"key": SECRET},
        heard=lambda pd: [summary for action, _, summary in pd.log if action == "trigger"],
        body_error=Reply(status=202, body={"status": "invalid event", "message": f"no such key {SECRET}"}),
    ),
    Case(
        kind="jsm",
        receiver=lambda: JsmReceiver(SECRET),
        settings={"url": "$URL/jsm/ops/integration/v2", "api_key_file": "key"},
        files={"key": SECRET},
        heard=lambda jsm: [alert["message"] for alert in jsm.alerts.values()],
        body_error=Reply(status=202, body={"result": "no", "took": 0.1}),
    ),
    Case(
        kind="grafana_irm",
        receiver=lambda: GrafanaIrmReceiver(SECRET),
        settings={"url_file": "address"},
        files={"address": f"$URL/integrations/v1/formatted_webhook/{SECRET}/"},
        heard=lambda irm: [request.json()["title"] for request in irm.requests],
        says_nothing=True,
    ),
    Case(
        kind="slack",
        receiver=lambda: SlackReceiver(SECRET),
        settings={"url": "$URL", "token_file": "token", "channel": "C0FLEET"},
        files={"token": SECRET},
        heard=lambda slack: slack.said,
        body_error=Reply(body={"ok": False, "error": "is_archived"}),
        body_later=Reply(body={"ok": False, "error": "ratelimited"}),
    ),
    Case(
        kind="teams",
        receiver=lambda: TeamsReceiver(f"/workflows/{SECRET}/triggers/manual/paths/invoke?sig={SECRET}"),
        settings={"url_file": "address"},
        files={"address": f"$URL/workflows/{SECRET}/triggers/manual/paths/invoke?sig={SECRET}"},
        heard=_card_lines,
        body_error=Reply(status=200, body=b"Webhook message delivery failed with error: Microsoft Teams endpoint 413"),
        says_nothing=True,
    ),
    Case(
        kind="feishu",
        receiver=lambda: FeishuReceiver(SECRET, secret=SIGNING),
        settings={"url": "$URL", "token_file": "token", "secret_file": "secret"},
        files={"token": SECRET, "secret": SIGNING},
        heard=lambda feishu: [one["card"]["header"]["title"]["content"] for one in feishu.shown],
        body_error=Reply(body={"code": 19024, "msg": "Key Words Not Found", "data": {}}),
        body_later=Reply(status=400, body={"code": 9499, "msg": "too many requests", "data": {}}),
    ),
    Case(
        kind="dingtalk",
        receiver=lambda: DingTalkReceiver(SECRET, secret=SIGNING),
        settings={"url": "$URL", "token_file": "token", "secret_file": "secret"},
        files={"token": SECRET, "secret": SIGNING},
        heard=lambda ding: [one["markdown"]["title"] for one in ding.shown],
        body_error=Reply(body={"errcode": 310000, "errmsg": f"sign not match for {SECRET}"}),
        body_later=Reply(body={"errcode": 130101, "errmsg": "send too fast"}),
    ),
    Case(
        kind="wecom",
        receiver=lambda: WeComReceiver(SECRET),
        settings={"url": "$URL", "key_file": "key"},
        files={"key": SECRET},
        heard=lambda wecom: [one["text"]["content"].split("\n")[0] for one in wecom.shown],
        body_error=Reply(body={"errcode": 93000, "errmsg": "invalid webhook url"}),
        body_later=Reply(body={"errcode": 45009, "errmsg": "api freq out of limit"}),
    ),
    Case(
        kind="ntfy",
        receiver=lambda: NtfyReceiver(token=SECRET),
        settings={"url": "$URL", "topic": "gpu-night", "token_file": "token"},
        files={"token": SECRET},
        heard=lambda ntfy: [request.json()["title"] for request in ntfy.requests],
    ),
    Case(
        kind="webhook",
        receiver=lambda: WebhookReceiver(KEY, schema()),
        settings={"url_file": "address", "keys_file": "keys"},
        files={"address": f"$URL/hook/{SECRET}", "keys": KEY},
        heard=lambda hook: [one["data"]["first_line"] for one in hook.taken],
        says_nothing=True,
    ),
)
"""E-mail speaks SMTP and apprise through its own library: they have tests of their own."""
