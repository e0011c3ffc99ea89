"""What comes back from on-call: who really sent it, and what somebody did there. Pure: bytes in, values out.

An act carries the sender's own id of it: whoever keeps those has each act once, however often it is delivered.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from trimtab.errors import TrimtabError
from trimtab.model.oncall import InboundAct, Verb
from trimtab.show.oncall.senders.slack import ACKNOWLEDGE_ACTION
from trimtab.show.oncall.standard_webhook import TOLERANCE_SECONDS, signature
from trimtab.show.oncall.text import one_line

B = TypeVar("B", bound=Struct)

WHO_CHARACTERS_MAX = 80
SLACK_TOLERANCE_SECONDS = 300
SIGNATURES_MAX = 16
"""More in one header is nobody's rotation."""


class BadInbound(TrimtabError):
    """What came in is not of the shape that its sender documents."""


def is_from_pagerduty(secrets: Iterable[str], *, body: bytes, header: str) -> bool:
    """Whether any signature in `X-PagerDuty-Signature` fits any of our secrets: both sides may be changing theirs."""
    given = [part.strip().removeprefix("v1=") for part in header.split(",") if part.strip().startswith("v1=")]
    wanted = [hmac.new(secret.encode(), body, hashlib.sha256).hexdigest() for secret in secrets if secret]
    return _any_equal(given, wanted)


def is_from_slack(secrets: Iterable[str], *, body: bytes, timestamp: str, header: str, now_seconds: float) -> bool:
    """Whether `X-Slack-Signature` fits, and `X-Slack-Request-Timestamp` is of the last five minutes."""
    if not _is_near(timestamp, now_seconds, SLACK_TOLERANCE_SECONDS):
        return False
    said = f"v0:{timestamp}:".encode() + body
    wanted = ["v0=" + hmac.new(secret.encode(), said, hashlib.sha256).hexdigest() for secret in secrets if secret]
    return _any_equal([header.strip()], wanted)


def is_standard_webhook(keys: Iterable[bytes], *, body: bytes, headers: Mapping[str, str], now_seconds: float) -> bool:
    """Whether one of our keys signed it, within five minutes of now; header names are in lower case."""
    id_, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not id_ or not _is_near(timestamp, now_seconds, TOLERANCE_SECONDS):
        return False
    given = [part for part in headers.get("webhook-signature", "").split(" ") if part.startswith("v1,")]
    wanted = [signature(key, id=id_, timestamp_seconds=int(timestamp), body=body) for key in keys]
    return _any_equal(given, wanted)


class _Agent(Struct, frozen=True):
    type: str = ""
    summary: str = ""
    id: str = ""


class _PagerDutyIncident(Struct, frozen=True):
    type: str = ""
    incident_key: str | None = None


class _PagerDutyEvent(Struct, frozen=True):
    id: str
    event_type: str
    agent: _Agent | None = None
    data: _PagerDutyIncident = _PagerDutyIncident()


class _PagerDutyBody(Struct, frozen=True):
    event: _PagerDutyEvent


_PAGERDUTY = {"incident.acknowledged": Verb.ACKNOWLEDGE, "incident.resolved": Verb.RESOLVE}


def from_pagerduty(body: bytes, *, cluster: str) -> InboundAct | None:
    """What a person did in PagerDuty (webhook v3); None for anything else, our own acts that come back among it.

    Raises BadInbound.
    """
    event = _decoded(body, _PagerDutyBody).event
    verb = _PAGERDUTY.get(event.event_type)
    # What an integration or a time-out of theirs did is no person's word: a fault that stands is not over by that.
    if verb is None or event.agent is None or event.agent.type != "user_reference":
        return None
    return _act(verb, event.data.incident_key or "", event.agent.summary or event.agent.id, event.id, cluster)


class _SlackUser(Struct, frozen=True):
    id: str = ""
    username: str = ""
    name: str = ""


class _SlackAction(Struct, frozen=True):
    action_id: str = ""
    value: str = ""
    action_ts: str = ""


class _SlackBody(Struct, frozen=True):
    type: str
    user: _SlackUser = _SlackUser()
    actions: tuple[_SlackAction, ...] = ()


def from_slack(body: bytes, *, cluster: str) -> InboundAct | None:
    """Our Acknowledge button, pressed in Slack (block action); None for any other button. Raises BadInbound."""
    try:
        form = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=8)
        payload = form["payload"][0]
    except (ValueError, KeyError):
        raise BadInbound("not a form with a payload, as Slack sends it") from None
    said = _decoded(payload.encode(), _SlackBody)
    for action in said.actions:
        if said.type == "block_actions" and action.action_id == ACKNOWLEDGE_ACTION:
            who = said.user.username or said.user.name or said.user.id
            return _act(Verb.ACKNOWLEDGE, action.value, who, f"{said.user.id}/{action.action_ts}", cluster)
    return None


class _JsmAlert(Struct, frozen=True):
    alias: str = ""
    alertId: str = ""  # noqa: N815 - their name
    username: str = ""
    updatedAt: int = 0  # noqa: N815 - their name


class _JsmSource(Struct, frozen=True):
    name: str = ""
    type: str = ""


class _JsmBody(Struct, frozen=True):
    action: str
    alert: _JsmAlert
    source: _JsmSource = _JsmSource()


_JSM = {"Acknowledge": Verb.ACKNOWLEDGE, "Close": Verb.RESOLVE}


def from_jsm(body: bytes, *, cluster: str) -> InboundAct | None:
    """What a person did in JSM or Opsgenie (outgoing webhook); None for anything else, our own acts among it.

    They sign nothing: the listener must have asked for its token. Raises BadInbound.
    """
    said = _decoded(body, _JsmBody)
    verb = _JSM.get(said.action)
    if verb is None or said.alert.username in ("", "System", "trimtab") or said.source.type.lower() == "api":
        return None
    return _act(
        verb, said.alert.alias, said.alert.username, f"{said.alert.alertId}/{verb}/{said.alert.updatedAt}", cluster
    )


class _CallbackData(Struct, frozen=True):
    key: str
    who: str


class _Callback(Struct, frozen=True):
    type: str
    data: _CallbackData


_CALLBACK = {"incident.acknowledged": Verb.ACKNOWLEDGE, "incident.resolved": Verb.RESOLVE}


def from_webhook(body: bytes, *, cluster: str, webhook_id: str) -> InboundAct | None:
    """What the receiver of our webhooks tells in turn, `{"type": "incident.acknowledged", "data": {"key", "who"}}`.

    Raises BadInbound.
    """
    said = _decoded(body, _Callback)
    verb = _CALLBACK.get(said.type)
    return _act(verb, said.data.key, said.data.who, webhook_id, cluster) if verb else None


def _act(verb: Verb, key: str, who: str, id_: str, cluster: str) -> InboundAct | None:
    """An act on an incident of this cluster, by somebody with a name."""
    name = one_line(who)[:WHO_CHARACTERS_MAX]
    if not key.startswith(f"trimtab/{cluster}/") or not name or not id_:
        return None
    return InboundAct(kind=verb, key=key, who=name, id=id_)


def _decoded(body: bytes, kind: type[B]) -> B:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInbound(f"not what its sender documents: {error}") from None


def _is_near(timestamp: str, now_seconds: float, tolerance_seconds: float) -> bool:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return False
    return abs(int(timestamp) - now_seconds) <= tolerance_seconds


def _any_equal(given: list[str], wanted: list[str]) -> bool:
    """Compare all with all in constant time: how long it takes tells nothing."""
    fits = False
    for one in given[:SIGNATURES_MAX]:
        for other in wanted:
            fits |= hmac.compare_digest(one.encode(), other.encode())
    return fits
