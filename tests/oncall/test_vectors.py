"""Signatures against vectors that were made with openssl, standardwebhooks and slack_sdk."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from trimtab.errors import SettingsError
from trimtab.show.oncall import inbound, standard_webhook
from trimtab.show.oncall.senders import dingtalk, feishu

BODY = b'{"type":"incident.opened","id":"inc-1"}'
T = 1_700_000_000
KEY = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
STANDARD = "v1,tqE479aQMySdMiV1bM7ZgCp5BCdipuAS4HeMMzLOBKA="
PAGERDUTY = "v1=65ba32187c7232151f7a3cbd0800d1e30578e2415b87ac79b105046694321087"
SLACK = "v0=82eb542a5730251e8d38cdbfd7b50ef597573c3d8a899b267f86bcf6c4178581"


def test_feishu() -> None:
    assert feishu.signature("trimtab-test-secret", T) == "BTI6LY2S4qWCguGDQpJu3IRPxzTGOTax+PVL2at1xWo="


def test_dingtalk_encoded_once() -> None:
    signed = dingtalk.signature("SECtrimtab0001", 1700000000005)
    assert signed == "f4j/APOUWK4MVcY7m9BkHnwsM+7sX5ZzYm/eDpSQygA="
    assert urlencode({"sign": signed}) == "sign=f4j%2FAPOUWK4MVcY7m9BkHnwsM%2B7sX5ZzYm%2FeDpSQygA%3D"


def test_standard_webhooks() -> None:
    key = standard_webhook.key_bytes(KEY, of="test")
    assert standard_webhook.signature(key, id="msg_trimtab_0001", timestamp_seconds=T, body=BODY) == STANDARD


def test_pagerduty_inbound() -> None:
    assert inbound.is_from_pagerduty(["trimtab-pd-secret"], body=BODY, header=PAGERDUTY)


def test_slack_inbound() -> None:
    assert inbound.is_from_slack(["trimtab-slack-signing"], body=BODY, timestamp=str(T), header=SLACK, now_seconds=T)


def test_every_key_signs_and_any_one_verifies() -> None:
    other = "whsec_" + "QUFB" * 8
    now = _now()
    keys = [standard_webhook.key_bytes(key, of="test") for key in (KEY, other)]
    headers = standard_webhook.headers(keys, id="msg_1", timestamp_seconds=now, body=BODY)
    for key in (KEY, other):
        assert Webhook(key).verify(BODY, headers) == {"type": "incident.opened", "id": "inc-1"}


@given(body=st.text(max_size=200).map(str.encode), id_=st.from_regex(r"[a-z0-9_]{1,40}", fullmatch=True))
def test_what_we_sign_the_library_takes(body: bytes, id_: str) -> None:
    key = standard_webhook.key_bytes(KEY, of="test")
    headers = standard_webhook.headers([key], id=id_, timestamp_seconds=_now(), body=body)
    Webhook(KEY).verify(body, headers, json_parse=False)


@pytest.mark.parametrize(
    "key",
    ["whsec_" + "QUFB" * 7, "whsec_" + "QUFB" * 22, "whsec_not base64", ""],
    ids=["21 bytes", "66", "text", "none"],
)
def test_a_key_of_the_wrong_size_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(SettingsError, match="24 to 64") as caught:
        standard_webhook.key_bytes(key, of="oncall.targets.hook")
    assert not key or key not in str(caught.value)


def _now() -> int:
    from trimtab.clock import SystemClock, unix_seconds

    return int(unix_seconds(SystemClock().now()))
