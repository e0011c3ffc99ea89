"""Where on-call messages go: `[oncall.targets.NAME]`, one table a target, told apart by `kind`.

Secrets (keys, tokens, and those addresses that are keys themselves) are never settings but files that settings name;
each is read again when it changes. Every address can be set: a region, a proxy of the site's own, a receiver in a test.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from trimtab.settings.shape import Count, Positive, Section

Url = Annotated[str, Meta(pattern=r"^https?://[^/?#\s@]+(/\S*)?$")]
"""Without credentials: those belong in a file."""
File = Annotated[str, Meta(min_length=1)]


class TargetSection(Section, frozen=True, kw_only=True, tag_field="kind"):
    """What every target has."""

    locale: Literal["en", "zh-CN"] = "en"
    """Language of what is sent there."""
    next: str = ""
    """Target that is told instead where this one refuses for good or stays out of reach."""
    per_minute_max: Positive | None = None
    """Messages a minute at most; unset = what the service itself allows (`PER_MINUTE`)."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=30)] = 10.0
    """For the connection, and again for each wait for its answer."""
    ca_file: str = ""
    """The site's own CA (PEM) in place of the public ones."""
    allow_plaintext: bool = False
    """Speak HTTP without TLS off this host: whoever listens on the way reads secrets and messages."""
    proxy_url: Url | None = None
    """Proxy without credentials; the environment's proxies are never used."""
    proxy_url_file: str = ""
    """The same with credentials, in a file."""


class PagerDutySettings(TargetSection, frozen=True, kw_only=True, tag="pagerduty"):
    """PagerDuty, by Events API v2; acknowledgements come back by its webhook."""

    routing_key_file: File
    """The integration key of a service (32 characters)."""
    url: Url = "https://events.pagerduty.com"
    """EU accounts: https://events.eu.pagerduty.com."""
    webhook_secrets_file: str = ""
    """Secrets of its webhook subscription, one a line (two while they are rotated)."""


class JsmSettings(TargetSection, frozen=True, kw_only=True, tag="jsm"):
    """Jira Service Management Operations, or Opsgenie by its own address."""

    api_key_file: File
    """Key of an API integration."""
    url: Url = "https://api.atlassian.com/jsm/ops/integration/v2"
    """Opsgenie: https://api.opsgenie.com/v2 (ends in April 2027)."""
    tags: tuple[str, ...] = ()
    """Added to every alert, for JSM's own routing."""
    asks_result: bool = True
    """Ask what became of each request, since it is only queued when it is taken."""


class GrafanaIrmSettings(TargetSection, frozen=True, kw_only=True, tag="grafana_irm"):
    """Grafana IRM or OnCall, by a formatted-webhook integration."""

    url_file: File
    """The integration's whole address: it is the secret."""


class SlackSettings(TargetSection, frozen=True, kw_only=True, tag="slack"):
    """Slack, by a bot's token: one message an incident, edited, with a thread below."""

    token_file: File
    """Bot token (xoxb-...) with chat:write."""
    channel: Annotated[str, Meta(min_length=1)]
    """Channel id, better than its name: names change."""
    url: Url = "https://slack.com"
    """Another address for a proxy of the site\'s own."""
    mention: str = ""
    """Put before a message that is to be noticed: `<!here>`, `<!subteam^S0123>`."""
    signing_secret_file: str = ""
    """Set: messages get an Acknowledge button, and what it sends is checked with this."""
    looks_back: bool = False
    """Before a repeat, look whether it is there already; the bot needs channels:history, or groups:history."""


class TeamsSettings(TargetSection, frozen=True, kw_only=True, tag="teams"):
    """Microsoft Teams, by a Workflows webhook."""

    url_file: File
    """The flow's whole address: it is the secret."""


class FeishuSettings(TargetSection, frozen=True, kw_only=True, tag="feishu"):
    """Feishu or Lark, by a group's custom bot."""

    token_file: File
    """The last part of the bot's address: it is the secret."""
    secret_file: str = ""
    """The bot's signing secret; empty where the bot checks no signature."""
    url: Url = "https://open.feishu.cn"
    """Lark: https://open.larksuite.com."""
    keyword: str = ""
    """Word that the bot asks for in each message."""


class DingTalkSettings(TargetSection, frozen=True, kw_only=True, tag="dingtalk"):
    """DingTalk, by a group's custom robot."""

    token_file: File
    """The robot's access_token."""
    secret_file: str = ""
    """Its signing secret (SEC...); empty where the robot checks no signature."""
    url: Url = "https://oapi.dingtalk.com"
    """Another address for a proxy of the site\'s own."""
    keyword: str = ""
    """Word that the robot asks for in each message."""
    mention_mobiles: tuple[str, ...] = ()
    """Telephone numbers of whom to call by name in a message that is to be noticed."""
    mentions_all: bool = False
    """Call everybody in the group in a message that is to be noticed."""


class WeComSettings(TargetSection, frozen=True, kw_only=True, tag="wecom"):
    """WeCom (WeChat Work), by a group's robot."""

    key_file: File
    """The robot's key."""
    url: Url = "https://qyapi.weixin.qq.com"
    """Another address for a proxy of the site\'s own."""
    format: Literal["text", "markdown"] = "text"
    """`text` can call people by name (2,048 bytes); `markdown` holds more (4,096 bytes) and cannot."""
    mention_mobiles: tuple[str, ...] = ()
    """Telephone numbers, or `@all`; in text only."""


class NtfySettings(TargetSection, frozen=True, kw_only=True, tag="ntfy"):
    """ntfy, public or one's own."""

    topic: Annotated[str, Meta(pattern=r"^[-_A-Za-z0-9]{1,64}$")] | None = None
    """Topic that people subscribe to."""
    topic_file: str = ""
    """In place of `topic`: on a public server the topic is the password."""
    url: Url = "https://ntfy.sh"
    """Another address for a proxy of the site\'s own."""
    token_file: str = ""
    """Access token (tk_...)."""


class EmailSettings(TargetSection, frozen=True, kw_only=True, tag="email"):
    """E-mail: one thread an incident."""

    host: Annotated[str, Meta(min_length=1)]
    """Mail server."""
    port: Count = 587
    """587 with STARTTLS, 465 with TLS from the start, 25 inside a site."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls` refuses to go on where the server offers none; `none` is for a relay on this host."""
    user: str = ""
    """For signing in to the mail server; empty = without."""
    password_file: str = ""
    """File with the password of `user`."""
    sender: Annotated[str, Meta(pattern=r"^[^@\s<>]+@[^@\s<>]+$")]
    """Address in From, for example trimtab@example.com."""
    to: Annotated[tuple[Annotated[str, Meta(pattern=r"^([^@\s<>]+@[^@\s<>]+|\{owner\})$")], ...], Meta(min_length=1)]
    """Who gets it. `{owner}@example.com`: whoever owns the workload, by the scheduler's name for them."""


class WebhookSettings(TargetSection, frozen=True, kw_only=True, tag="webhook"):
    """Anything else, by Standard Webhooks: signed, with a schema."""

    url: Url | None = None
    """Where it is posted; or `url_file`, where the address is the secret."""
    url_file: str = ""
    """In place of `url`, where the address is a secret too."""
    keys_file: File
    """Signing keys (whsec_...), one a line: all of them sign, so that the receiver can change over in its own time."""
    is_pager: bool = False
    """Whether it keeps incidents by our key and wakes people."""


class AppriseSettings(TargetSection, frozen=True, kw_only=True, tag="apprise"):
    """The long tail (Telegram, Matrix, SMS, ...) by apprise, with `pip install 'trimtab[oncall-more]'`."""

    url_file: File
    """One apprise URL: it holds the secrets."""
    body_bytes_max: Count = 1500
    """Text is cut to this before apprise sees it; some services split what is longer, and a page must stay one."""


TargetSettings = (
    PagerDutySettings
    | JsmSettings
    | GrafanaIrmSettings
    | SlackSettings
    | TeamsSettings
    | FeishuSettings
    | DingTalkSettings
    | WeComSettings
    | NtfySettings
    | EmailSettings
    | WebhookSettings
    | AppriseSettings
)
"""One target of any kind."""

PER_MINUTE: dict[type[TargetSection], float] = {
    PagerDutySettings: 60,
    JsmSettings: 60,
    GrafanaIrmSettings: 60,
    SlackSettings: 50,
    TeamsSettings: 60,
    FeishuSettings: 60,
    DingTalkSettings: 18,
    WeComSettings: 18,
    NtfySettings: 12,
    EmailSettings: 30,
    WebhookSettings: 60,
    AppriseSettings: 10,
}
"""Messages a minute that each kind bears for long, a little under what its service allows: DingTalk blocks for ten
minutes whoever sends 21."""
