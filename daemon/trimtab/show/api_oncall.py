"""What the routes of on-call do."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Protocol

import msgspec

from trimtab.errors import DecisionRefused
from trimtab.model.oncall import InboundAct, Incident
from trimtab.model.outbox import WAITING, LetterState
from trimtab.show.api_routes import ApiError, Call, People
from trimtab.show.api_types import ID_MAX
from trimtab.show.api_types_oncall import (
    CallbackTaken,
    Incidents,
    IncidentStory,
    OnCall,
    OutboxLetters,
    Resent,
    WebhookSchema,
)
from trimtab.show.oncall.desk import Desk
from trimtab.show.oncall.inbound import (
    BadInbound,
    from_jsm,
    from_pagerduty,
    from_slack,
    from_webhook,
    is_from_pagerduty,
    is_from_slack,
    is_standard_webhook,
)
from trimtab.show.oncall.standard_webhook import key_bytes
from trimtab.show.oncall.webhook_body import schema
from trimtab.show.refusals import Answer

_STATES = {
    "waiting": WAITING,
    "dead": (LetterState.DEAD,),
    "all": None,
}


def incidents(people: People, call: Call) -> Incidents:
    """What people were told is wrong, newest first."""
    desk = _desk(people)
    query = call.query
    is_open = {"open": True, "closed": False, "all": None}[query.state]
    since = None if is_open else call.now - timedelta(seconds=query.since_seconds)
    found = desk.memory.incidents(is_open=is_open, since=since, limit=query.limit)
    return Incidents(pager=desk.arbiter.for_new(), incidents=found)


def incident(people: People, call: Call) -> IncidentStory:
    """One incident and its messages."""
    return _story(people, _incident(people, call))


def acknowledge(people: People, call: Call) -> IncidentStory:
    """Somebody has it; every target is told."""
    found = _incident(people, call)
    return _story(people, _desk(people).bell.acknowledge(found.number, who=call.caller.who, at=call.now))


def acknowledge_finding(people: People, call: Call) -> IncidentStory:
    """The same by the finding's id."""
    desk = _desk(people)
    try:
        number = desk.number_of(finding=call.id)
    except DecisionRefused as no:
        raise ApiError(404, str(no)) from no
    return _story(people, desk.bell.acknowledge(number, who=call.caller.who, at=call.now))


def outbox(people: People, call: Call) -> OutboxLetters:
    """Messages on their way, dead ones first of all."""
    memory = _desk(people).memory
    found = memory.letters(states=_STATES[call.query.state], limit=call.query.limit)
    counts: dict[str, dict[LetterState, int]] = {}
    for (target, state), count in memory.outbox_counts().letters.items():
        counts.setdefault(target, {})[state] = count
    return OutboxLetters(letters=found, counts=counts)


def resend(people: People, call: Call) -> Resent:
    """Try a dead message again."""
    if not _desk(people).memory.resend(_number(call), who=call.caller.who, at=call.now):
        raise ApiError(409, f"Message {call.id} is not dead; nothing was done.")
    return Resent(id=call.id)


def oncall(people: People, call: Call) -> OnCall:  # noqa: ARG001 - one shape for all handlers
    """Who pages, and how each target does."""
    return _desk(people).overview()


def switch_pager(people: People, call: Call) -> OnCall:
    """Let somebody else page for what opens from now on."""
    _desk(people).arbiter.flip(call.body.pager, who=call.caller.who, why=call.body.reason, at=call.now)
    return oncall(people, call)


def drill(people: People, call: Call) -> IncidentStory:
    """A labelled synthetic fault the whole way; nothing is written anywhere but to people."""
    order = call.body
    made = _desk(people).drill(order.kind, order.node, order.gpu, call.caller.who, order.seconds)
    return _story(people, made)


def end_drill(people: People, call: Call) -> IncidentStory:
    """End a drill before its time."""
    return _story(people, _desk(people).bell.end_drill(_number(call), at=call.now))


def pagerduty_callback(people: People, call: Call) -> CallbackTaken:
    """PagerDuty's webhook v3, signed."""
    secrets = _desk(people).secrets("pagerduty")
    if not is_from_pagerduty(secrets, body=call.raw, header=_header(call, "x-pagerduty-signature")):
        raise _unsigned(people, call, "PagerDuty", "webhook_secrets_file")
    return _taken(people, call, "pagerduty", from_pagerduty)


def slack_callback(people: People, call: Call) -> CallbackTaken:
    """A button pressed in Slack, signed and fresh."""
    desk = _desk(people)
    is_ours = is_from_slack(
        desk.secrets("slack"),
        body=call.raw,
        timestamp=_header(call, "x-slack-request-timestamp"),
        header=_header(call, "x-slack-signature"),
        now_seconds=desk.unix_seconds_now(),
    )
    if not is_ours:
        raise _unsigned(people, call, "Slack", "signing_secret_file")
    return _taken(people, call, "slack", from_slack)


def jsm_callback(people: People, call: Call) -> CallbackTaken:
    """JSM's or Opsgenie's outgoing webhook, by the token of its target: they sign nothing.

    Any other program's token of role webhook (Alertmanager's) must acknowledge nothing.
    """
    known = [name for name, target in _desk(people).targets.items() if target.kind == "jsm"]
    if call.caller.who not in known:
        named = " or ".join(sorted(known)) or "none here"
        door = people.door
        who, what = call.caller.who, "refused a call-back in the name of JSM"
        door.refusals.tell(Answer.UNSIGNED, who=who, what=what, why="its token is not named as a target of JSM")
        raise ApiError(
            403,
            f"Call-backs of JSM come with the token that is named as its target ({named}); this one is "
            f"{call.caller.who}'s. Nothing was done. Make one: trimtab token person TARGET --role webhook",
        )
    return _taken(people, call, "jsm", from_jsm)


def webhook_callback(people: People, call: Call) -> CallbackTaken:
    """What the receiver of our own webhooks tells in turn, signed with one of the keys that we sign with."""
    desk = _desk(people)
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    is_ours = is_standard_webhook(
        [key_bytes(key, of="oncall.targets") for key in desk.secrets("webhook")],
        body=call.raw,
        headers={name: _header(call, name) for name in names},
        now_seconds=desk.unix_seconds_now(),
    )
    if not is_ours:
        raise _unsigned(people, call, "the receiver", "keys_file")
    return _taken(people, call, "webhook", partial(from_webhook, webhook_id=_header(call, "webhook-id")))


def webhook_schema(people: People, call: Call) -> WebhookSchema:  # noqa: ARG001 - one shape for all handlers
    """What the body of our webhooks may hold."""
    return msgspec.convert(schema(), WebhookSchema)


class _Read(Protocol):
    def __call__(self, body: bytes, *, cluster: str) -> InboundAct | None: ...


def _taken(people: People, call: Call, kind: str, read: _Read) -> CallbackTaken:
    try:
        act = read(call.raw, cluster=people.cluster)
    except BadInbound as error:
        raise ApiError(400, f"The call-back cannot be read: {error}.") from error
    if act is None:
        return CallbackTaken(is_taken=False, sentence="Nothing that a person did about an incident of ours.")
    try:
        return CallbackTaken(is_taken=True, sentence=_desk(people).take(act, kind=kind, at=call.now))
    except DecisionRefused as no:
        # Theirs is not to try again: what they did is about something that is over.
        return CallbackTaken(is_taken=False, sentence=str(no))


def _unsigned(people: People, call: Call, product: str, key: str) -> ApiError:
    door = people.door
    why = f"The signature is not {product}'s by any secret in {key} of its target; nothing was done."
    who, what = f"peer {door.peer(call.knock)}", f"refused a call-back in the name of {product}"
    door.refusals.tell(Answer.UNSIGNED, who=who, what=what, why=why)
    return ApiError(401, why)


def _header(call: Call, name: str) -> str:
    found = call.knock.headers(name)
    return found[0] if len(found) == 1 else ""


def _desk(people: People) -> Desk:
    if people.oncall is None:
        raise ApiError(503, "On-call is not set up in this daemon.")
    return people.oncall


def _number(call: Call) -> int:
    return call.id if call.id <= ID_MAX else 0


def _incident(people: People, call: Call) -> Incident:
    found = _desk(people).memory.incident(_number(call))
    if found is None:
        raise ApiError(404, f"There is no incident I{call.id}.")
    return found


def _story(people: People, found: Incident) -> IncidentStory:
    """The incident as it is now, then its letters: one that is closed is shown with those that say so."""
    memory = _desk(people).memory
    incident = memory.incident(found.number) or found
    return IncidentStory(incident=incident, letters=tuple(reversed(memory.letters(incident=found.number))))
