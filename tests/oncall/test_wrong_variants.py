"""The receivers refuse what the real ends refuse: each wrong variant that senders have been seen to send."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from tests.oncall.cases import KEY
from tests.oncall.chat_receivers import (
    DingTalkReceiver,
    FeishuReceiver,
    NtfyReceiver,
    SlackReceiver,
    TeamsReceiver,
    WeComReceiver,
)
from tests.oncall.receivers import GrafanaIrmReceiver, JsmReceiver, PagerDutyReceiver, WebhookReceiver
from tests.oncall.server import Receiver, serving

from trimtab.outbound import Answer, exchange
from trimtab.show.oncall.senders import dingtalk, feishu
from trimtab.show.oncall.standard_webhook import headers, key_bytes
from trimtab.show.oncall.webhook_body import schema

T = 1_700_000_000
ROUTING = "r" * 32


def asked(receiver: Receiver, path: str, document: Any, given: Mapping[str, str] | None = None) -> Answer:
    """What the receiver says to this."""
    with serving(receiver) as url:
        return exchange(
            "POST",
            url + path,
            body=document if isinstance(document, bytes) else json.dumps(document).encode(),
            headers={"Content-Type": "application/json; charset=utf-8", **(given or {})},
            timeout_seconds=30,
        )


def an_event(**changes: Any) -> dict[str, Any]:
    payload = {"summary": "s", "source": "gpu-07", "severity": "critical", "timestamp": "2026-11-02T09:00:00Z"}
    event = {"routing_key": ROUTING, "event_action": "trigger", "dedup_key": "k", "payload": payload}
    return {**event, **changes}


def with_payload(**changes: Any) -> dict[str, Any]:
    return an_event(payload={**an_event()["payload"], **changes})


@pytest.mark.parametrize(
    "event",
    [
        with_payload(summary="x" * 1025),
        with_payload(summary=""),
        with_payload(severity="fatal"),
        with_payload(source=""),
        with_payload(timestamp="yesterday"),
        with_payload(custom_details="text"),
        with_payload(colour="red"),
        an_event(routing_key="short"),
        an_event(routing_key="x" * 32),
        an_event(event_action="open"),
        an_event(event_action="resolve", dedup_key=""),
        an_event(dedup_key="k" * 256),
        an_event(links=[{"href": "javascript:x", "text": "t"}]),
        an_event(extra=1),
    ],
    ids=lambda event: next(iter(str(event).split("summary"))),
)
def test_pagerduty_refuses_events_that_break_its_field_rules(event: dict[str, Any]) -> None:
    if event["event_action"] == "resolve":
        del event["dedup_key"]
    receiver = PagerDutyReceiver(ROUTING)
    assert asked(receiver, "/v2/enqueue", event).status == 400
    assert receiver.log == []


def test_pagerduty_takes_a_good_event_and_knows_its_states() -> None:
    receiver = PagerDutyReceiver(ROUTING, "q" * 32)
    events = [
        an_event(event_action="acknowledge"),  # unknown key: dropped
        an_event(),
        an_event(event_action="acknowledge"),
        an_event(),  # stays acknowledged
        an_event(event_action="resolve", routing_key="q" * 32),  # another key's: dropped
    ]
    states = []
    with serving(receiver) as url:
        for event in events:
            answer = exchange(
                "POST",
                f"{url}/v2/enqueue",
                body=json.dumps(event).encode(),
                headers={"Content-Type": "application/json"},
                timeout_seconds=30,
            )
            assert answer.status == 202
            states.append(receiver.alerts.get((ROUTING, "k")))
    assert states == [None, "triggered", "acknowledged", "acknowledged", "acknowledged"]
    assert receiver.pages["k"] == 1


def test_pagerduty_opens_a_new_alert_for_each_event_without_a_key() -> None:
    receiver = PagerDutyReceiver(ROUTING)
    event = an_event()
    del event["dedup_key"]
    asked(receiver, "/v2/enqueue", event)
    asked(receiver, "/v2/enqueue", event)
    assert len(receiver.alerts) == 2


def test_a_change_with_a_severity_is_refused() -> None:
    change = {"routing_key": ROUTING, "payload": an_event()["payload"]}
    assert asked(PagerDutyReceiver(ROUTING), "/v2/change/enqueue", change).status == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"message": "x" * 131},
        {"alias": "a" * 513},
        {"priority": "high"},
        {"tags": ["t"] * 21},
        {"details": {"a": "x" * 8001}},
    ],
    ids=str,
)
def test_jsm_refuses_what_is_too_long(changes: dict[str, Any]) -> None:
    document = {"message": "m", "alias": "a", **changes}
    given = {"Authorization": "GenieKey k"}
    assert asked(JsmReceiver("k"), "/alerts", document, given).status == 422


def test_jsm_wants_its_own_kind_of_key() -> None:
    given = {"Authorization": "Bearer k"}
    assert asked(JsmReceiver("k"), "/alerts", {"message": "m", "alias": "a"}, given).status == 401


def test_jsm_takes_a_close_by_request_id_and_then_finds_no_such_alert() -> None:
    """As apprise does it: 202, and no effect."""
    receiver = JsmReceiver("k")
    answer = asked(receiver, "/alerts/6b6e8a5e-request/close", {"source": "x"}, {"Authorization": "GenieKey k"})
    assert answer.status == 202
    ((_, work),) = receiver.queue.values()
    assert work()["isSuccess"] is False


def test_irm_refuses_states_that_it_does_not_know() -> None:
    document = {"alert_uid": "u", "title": "t", "state": "acknowledged", "message": ""}
    assert asked(GrafanaIrmReceiver("k"), "/integrations/v1/formatted_webhook/k/", document).status == 400


def feishu_body(*, secret: str, timestamp: int, filler: str = "") -> dict[str, Any]:
    return {
        "timestamp": str(timestamp),
        "sign": feishu.signature(secret, timestamp),
        "msg_type": "text",
        "content": {"text": "hall-a" + filler},
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (feishu_body(secret="s", timestamp=T), 0),
        (feishu_body(secret="s", timestamp=T - 3600), 0),
        (feishu_body(secret="s", timestamp=T - 3601), 19021),
        (feishu_body(secret="s", timestamp=T + 3601), 19021),
        (feishu_body(secret="other", timestamp=T), 19021),
        ({**feishu_body(secret="s", timestamp=T), "sign": dingtalk.signature("s", T)}, 19021),
        ({"msg_type": "text", "content": {"text": "unsigned"}}, 19021),
        (feishu_body(secret="s", timestamp=T, filler="x" * 21_000), 9499),
        ({**feishu_body(secret="s", timestamp=T), "msg_type": "markdown"}, 9499),
    ],
    ids=[
        "good",
        "an hour old",
        "older",
        "ahead",
        "wrong secret",
        "as DingTalk signs",
        "unsigned",
        "21 kB",
        "unknown type",
    ],
)
def test_feishu_tells_good_from_wrong(body: dict[str, Any], code: int) -> None:
    receiver = FeishuReceiver("tok", secret="s", now=lambda: T)
    assert json.loads(asked(receiver, "/open-apis/bot/v2/hook/tok", body).body)["code"] == code


def test_feishu_asks_for_its_keyword() -> None:
    receiver = FeishuReceiver("tok", keyword="GPU")
    body = {"msg_type": "text", "content": {"text": "hall-a"}}
    assert json.loads(asked(receiver, "/open-apis/bot/v2/hook/tok", body).body)["code"] == 19024


def ding_query(*, secret: str = "SECx", timestamp_ms: int = T * 1000, encodings: int = 1) -> str:
    sign = dingtalk.signature(secret, timestamp_ms)
    for _ in range(encodings - 1):
        sign = quote(sign, safe="")
    return urlencode({"access_token": "tok", "timestamp": str(timestamp_ms), "sign": sign})


DING = {"msgtype": "markdown", "markdown": {"title": "t", "text": "hall-a"}}


@pytest.mark.parametrize(
    ("query", "body", "code"),
    [
        (ding_query(), DING, 0),
        (ding_query(encodings=2), DING, 310000),
        (ding_query(secret="SECy"), DING, 310000),
        (ding_query(timestamp_ms=(T - 3601) * 1000), DING, 310000),
        ("access_token=tok", DING, 310000),
        ("access_token=other", DING, 300001),
        (ding_query(), {"msgtype": "markdown", "markdown": {"title": "t", "text": "字" * 6700}}, 460101),
        (ding_query(), {"msgtype": "markdown", "markdown": {"title": "", "text": "x"}}, 400102),
    ],
    ids=["good", "encoded twice", "wrong secret", "old", "unsigned", "no robot", "20,100 bytes", "no title"],
)
def test_dingtalk_tells_good_from_wrong(query: str, body: dict[str, Any], code: int) -> None:
    receiver = DingTalkReceiver("tok", secret="SECx", now=lambda: T)
    content = json.dumps(body, ensure_ascii=False).encode()
    assert json.loads(asked(receiver, f"/robot/send?{query}", content).body)["errcode"] == code


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"msgtype": "text", "text": {"content": "字" * 682}}, 0),
        ({"msgtype": "text", "text": {"content": "字" * 683}}, 40058),
        ({"msgtype": "markdown", "markdown": {"content": "字" * 1365}}, 0),
        ({"msgtype": "markdown", "markdown": {"content": "字" * 1366}}, 40058),
        ({"msgtype": "text", "text": {"content": ""}}, 40058),
        ({"msgtype": "card", "card": {}}, 40008),
    ],
    ids=["2046 bytes", "2049 bytes", "4095 bytes", "4098 bytes", "empty", "unknown type"],
)
def test_wecom_counts_bytes(document: dict[str, Any], code: int) -> None:
    answer = asked(WeComReceiver("k"), "/cgi-bin/webhook/send?key=k", document)
    assert json.loads(answer.body)["errcode"] == code


def test_wecom_takes_twenty_a_minute() -> None:
    receiver = WeComReceiver("k", counts_rate=True)
    receiver.shown = [{}] * 20
    answer = asked(receiver, "/cgi-bin/webhook/send?key=k", {"msgtype": "text", "text": {"content": "x"}})
    assert json.loads(answer.body)["errcode"] == 45009


def a_card(text: str) -> dict[str, Any]:
    block = {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text}]}
    content = {"type": "AdaptiveCard", "version": "1.4", "body": [block]}
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": content}
    return {"type": "message", "attachments": [attachment]}


def test_teams_takes_a_card_that_it_will_never_show() -> None:
    receiver = TeamsReceiver("/flow")
    assert asked(receiver, "/flow", a_card("x" * 24_400)).status == 202
    assert (receiver.shown, receiver.unseen) == ([], ["too large"])


def test_teams_counts_chinese_as_escapes() -> None:
    receiver = TeamsReceiver("/flow")
    body = json.dumps(a_card("字" * 6_000), ensure_ascii=False).encode()
    assert len(body) < 20_000
    assert asked(receiver, "/flow", body).status == 202
    assert receiver.unseen == ["too large"]


def test_teams_wants_the_whole_address() -> None:
    assert asked(TeamsReceiver("/flow?sig=1"), "/flow", a_card("x")).status == 401


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"channel": "C1"}, "channel_not_found"),
        ({"thread_ts": "1.0"}, "thread_not_found"),
        ({"text": "", "blocks": []}, "no_text"),
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({"blocks": [{"type": "section", "text": {"type": "plain_text", "text": "x" * 3001}}]}, "invalid_blocks"),
        ({"blocks": [{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}]}, "invalid_blocks"),
        (
            {"blocks": [{"type": "section", "text": {"type": "plain_text", "text": "x" * 2700}}] * 5},
            "msg_blocks_too_long",
        ),
        ({"blocks": [{"type": "actions", "elements": []}]}, "invalid_arguments"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_slack_tells_errors_in_a_200(changes: dict[str, Any], error: str) -> None:
    document = {"channel": "C0FLEET", "text": "hall-a", **changes}
    answer = asked(SlackReceiver("t"), "/api/chat.postMessage", document, {"Authorization": "Bearer t"})
    assert (answer.status, json.loads(answer.body)["ok"], json.loads(answer.body)["error"]) == (200, False, error)


def test_slack_wants_its_token() -> None:
    answer = asked(SlackReceiver("t"), "/api/chat.postMessage", {"channel": "C0FLEET", "text": "x"})
    assert json.loads(answer.body)["error"] == "invalid_auth"


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "with space"},
        {"priority": 6},
        {"tags": [1]},
        {"actions": [{"action": "view"}]},
        {"sequence_id": "a/b"},
    ],
    ids=str,
)
def test_ntfy_refuses_what_it_does_not_know(changes: dict[str, Any]) -> None:
    assert asked(NtfyReceiver(), "/", {"topic": "t", "message": "m", **changes}).status == 400


def test_ntfy_wants_its_token() -> None:
    assert asked(NtfyReceiver(token="tk"), "/", {"topic": "t", "message": "m"}).status == 403


BODY = b'{"type":"note"}'


@pytest.mark.parametrize(
    "changes",
    [
        {"webhook-timestamp": str(int(time.time()) - 400)},
        {"webhook-id": "other"},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": ""},
    ],
    ids=["replayed", "another id", "forged", "unsigned"],
)
def test_a_webhook_with_a_wrong_signature_is_refused(changes: dict[str, str]) -> None:
    signed = headers([key_bytes(KEY, of="test")], id="msg_1", timestamp_seconds=int(time.time()), body=BODY)
    assert asked(WebhookReceiver(KEY, schema()), "/", BODY, {**signed, **changes}).status == 401


def test_a_webhook_that_breaks_the_schema_is_refused() -> None:
    signed = headers([key_bytes(KEY, of="test")], id="msg_1", timestamp_seconds=int(time.time()), body=BODY)
    receiver = WebhookReceiver(KEY, schema())
    assert asked(receiver, "/", BODY, signed).status == 400
    assert "required property" in receiver.refusals[0]
