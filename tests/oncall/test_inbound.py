"""What comes back from on-call: who really sent it, and what somebody did."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oncall.scenes import KEY as INCIDENT
from tests.oncall.test_vectors import BODY, KEY, PAGERDUTY, SLACK, STANDARD, T

from trimtab.model.oncall import InboundAct, Verb
from trimtab.show.oncall import inbound
from trimtab.show.oncall.senders.slack import ACKNOWLEDGE_ACTION
from trimtab.show.oncall.standard_webhook import key_bytes

PD, SLACK_SECRET = "trimtab-pd-secret", "trimtab-slack-signing"


@pytest.mark.parametrize(
    ("header", "is_good"),
    [
        (PAGERDUTY, True),
        (f"v1={'0' * 64}, {PAGERDUTY}", True),
        (f"{PAGERDUTY},v1={'0' * 64}", True),
        (PAGERDUTY.replace("v1=", "v2="), False),
        (PAGERDUTY[:-1], False),
        ("v1=" + "0" * 64, False),
        ("v1=", False),
        ("", False),
        (", ".join([f"v1={'0' * 64}"] * 40 + [PAGERDUTY]), False),
        ("v1=é", False),
    ],
)
def test_any_good_signature_of_pagerduty_passes(header: str, is_good: bool) -> None:
    assert inbound.is_from_pagerduty([PD], body=BODY, header=header) == is_good


def test_pagerduty_secrets_are_changed_over_on_both_sides() -> None:
    assert inbound.is_from_pagerduty(["new-secret", PD], body=BODY, header=PAGERDUTY)
    assert not inbound.is_from_pagerduty(["new-secret"], body=BODY, header=PAGERDUTY)
    assert not inbound.is_from_pagerduty([], body=BODY, header=PAGERDUTY)


def test_an_empty_secret_opens_nothing() -> None:
    forged = "v1=" + hmac.new(b"", BODY, hashlib.sha256).hexdigest()
    assert not inbound.is_from_pagerduty([""], body=BODY, header=forged)


def test_one_changed_byte_is_seen() -> None:
    changed = BODY.replace(b"inc-1", b"inc-2")
    assert not inbound.is_from_pagerduty([PD], body=changed, header=PAGERDUTY)
    assert not inbound.is_from_slack([SLACK_SECRET], body=changed, timestamp=str(T), header=SLACK, now_seconds=T)


@pytest.mark.parametrize(
    ("timestamp", "now", "is_good"),
    [
        (str(T), T + 300, True),
        (str(T), T + 301, False),
        (str(T), T - 301, False),
        (f"{T}.0", T, False),
        ("", T, False),
        (f"+{T}", T, False),
        ("１７０００００００００", T, False),
        ("nan", T, False),
    ],
)
def test_slack_is_heard_for_five_minutes(timestamp: str, now: int, is_good: bool) -> None:
    good = inbound.is_from_slack([SLACK_SECRET], body=BODY, timestamp=timestamp, header=SLACK, now_seconds=now)
    assert good == is_good


def standard(**changes: str) -> dict[str, str]:
    return {"webhook-id": "msg_trimtab_0001", "webhook-timestamp": str(T), "webhook-signature": STANDARD, **changes}


@pytest.mark.parametrize(
    ("headers", "now", "is_good"),
    [
        (standard(), T, True),
        (standard(**{"webhook-signature": f"v1,AAAA {STANDARD}"}), T + 300, True),
        (standard(), T + 301, False),
        (standard(**{"webhook-id": "msg_trimtab_0002"}), T, False),
        (standard(**{"webhook-timestamp": str(T + 1)}), T, False),
        (standard(**{"webhook-signature": STANDARD.replace("v1,", "v1a,")}), T, False),
        ({}, T, False),
    ],
)
def test_a_standard_webhook_is_verified(headers: dict[str, str], now: int, is_good: bool) -> None:
    keys = [key_bytes(KEY, of="test")]
    assert inbound.is_standard_webhook(keys, body=BODY, headers=headers, now_seconds=now) == is_good


def a_pagerduty_event(**changes: Any) -> bytes:
    agent = {"id": "PLH1HKV", "summary": "Wang Lin", "type": "user_reference"}
    event = {
        "id": "01DRF6BV78",
        "event_type": "incident.acknowledged",
        "resource_type": "incident",
        "occurred_at": "2026-11-02T09:05:00Z",
        "agent": agent,
        "client": None,
        "data": {"id": "Q2K", "type": "incident", "status": "acknowledged", "incident_key": INCIDENT, "number": 2},
    }
    return json.dumps({"event": {**event, **changes}}).encode()


def test_an_acknowledgement_in_pagerduty_is_an_act() -> None:
    act = inbound.from_pagerduty(a_pagerduty_event(), cluster="hall-a")
    assert act == InboundAct(kind=Verb.ACKNOWLEDGE, key=INCIDENT, who="Wang Lin", id="01DRF6BV78")


def test_a_resolution_in_pagerduty_is_an_act() -> None:
    act = inbound.from_pagerduty(a_pagerduty_event(event_type="incident.resolved"), cluster="hall-a")
    assert act
    assert act.kind is Verb.RESOLVE


@pytest.mark.parametrize(
    "changes",
    [
        {"event_type": "incident.triggered"},
        {"event_type": "incident.unacknowledged"},
        {"event_type": "service.updated"},
        {"agent": None},
        {"agent": {"id": "PX", "summary": "trimtab", "type": "events_api_v2_inbound_integration_reference"}},
        {"agent": {"id": "", "summary": " ", "type": "user_reference"}},
        {"data": {"incident_key": None}},
        {"data": {"incident_key": "trimtab/hall-b/i17"}},
        {"data": {"incident_key": "somebody-elses"}},
        {"id": ""},
    ],
    ids=str,
)
def test_what_is_no_persons_word_on_an_incident_of_ours_is_none(changes: dict[str, Any]) -> None:
    assert inbound.from_pagerduty(a_pagerduty_event(**changes), cluster="hall-a") is None


def a_slack_press(**changes: Any) -> bytes:
    action = {
        "action_id": ACKNOWLEDGE_ACTION,
        "block_id": "b",
        "value": INCIDENT,
        "type": "button",
        "action_ts": "17.5",
    }
    payload = {
        "type": "block_actions",
        "user": {"id": "U1", "username": "wang", "name": "wang", "team_id": "T1"},
        "actions": [{**action, **changes}],
        "trigger_id": "1.2.3",
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


def test_our_button_in_slack_is_an_act() -> None:
    act = inbound.from_slack(a_slack_press(), cluster="hall-a")
    assert act == InboundAct(kind=Verb.ACKNOWLEDGE, key=INCIDENT, who="wang", id="U1/17.5")


def test_a_link_button_in_slack_is_none() -> None:
    assert inbound.from_slack(a_slack_press(action_id="trimtab_link_0"), cluster="hall-a") is None
    assert inbound.from_slack(a_slack_press(value="trimtab/hall-b/i1"), cluster="hall-a") is None


def a_jsm_call(action: str = "Acknowledge", **alert: Any) -> bytes:
    known = {"alertId": "a-1", "alias": INCIDENT, "username": "wang@example.com", "updatedAt": 1420452224764002246}
    return json.dumps(
        {"action": action, "alert": {**known, **alert}, "source": {"name": "", "type": "web"}, "integrationId": "i"}
    ).encode()


def test_what_people_do_in_jsm_is_an_act() -> None:
    act = inbound.from_jsm(a_jsm_call(), cluster="hall-a")
    wanted = f"a-1/acknowledge/{1420452224764002246}"
    assert act == InboundAct(kind=Verb.ACKNOWLEDGE, key=INCIDENT, who="wang@example.com", id=wanted)
    closed = inbound.from_jsm(a_jsm_call("Close"), cluster="hall-a")
    assert closed
    assert closed.kind is Verb.RESOLVE


def test_what_we_did_in_jsm_ourselves_is_none() -> None:
    assert inbound.from_jsm(a_jsm_call(username="trimtab"), cluster="hall-a") is None
    assert inbound.from_jsm(a_jsm_call(username="System"), cluster="hall-a") is None
    assert inbound.from_jsm(a_jsm_call("AddNote"), cluster="hall-a") is None


def test_the_receiver_of_our_webhooks_may_answer_in_kind() -> None:
    body = json.dumps({"type": "incident.acknowledged", "data": {"key": INCIDENT, "who": "bot of\nwang"}}).encode()
    act = inbound.from_webhook(body, cluster="hall-a", webhook_id="m1")
    assert act == InboundAct(kind=Verb.ACKNOWLEDGE, key=INCIDENT, who="bot of wang", id="m1")
    assert inbound.from_webhook(body.replace(b"acknowledged", b"opened"), cluster="hall-a", webhook_id="m1") is None


@given(st.binary(max_size=300))
def test_anything_at_all_is_an_act_nothing_or_bad(body: bytes) -> None:
    readers = (
        lambda: inbound.from_pagerduty(body, cluster="hall-a"),
        lambda: inbound.from_slack(body, cluster="hall-a"),
        lambda: inbound.from_jsm(body, cluster="hall-a"),
        lambda: inbound.from_webhook(body, cluster="hall-a", webhook_id="m"),
    )
    for read in readers:
        try:
            assert read() is None
        except inbound.BadInbound as error:
            assert "documents" in str(error) or "form" in str(error)


@pytest.mark.parametrize("read", [inbound.from_pagerduty, inbound.from_jsm])
def test_a_body_of_the_wrong_shape_says_where(read: Any) -> None:
    with pytest.raises(inbound.BadInbound, match="missing required field"):
        read(b"{}", cluster="hall-a")
