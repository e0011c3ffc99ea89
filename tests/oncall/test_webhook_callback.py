"""The receiver of our webhooks acknowledges by a signed call-back: once, and only by whoever holds a key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from tests.oncall.cases import KEY
from tests.oncall.hall import Hall, a_fault
from tests.oncall.scenes import a_door, secret_file

from trimtab.clock import unix_seconds
from trimtab.model.oncall import Target
from trimtab.show.api_oncall import webhook_callback, webhook_schema
from trimtab.show.api_routes import ApiError, Call
from trimtab.show.auth import Caller, Knock
from trimtab.show.oncall.desk import Desk
from trimtab.show.oncall.secret import Secret
from trimtab.show.oncall.standard_webhook import headers, key_bytes

OLD_KEY = "whsec_" + "QUFB" * 8


class Ward:
    def __init__(self, folder: Path) -> None:
        self.hall = Hall(folder, Target(name="bot", kind="webhook", is_repeat_visible=False))
        secret = Secret(folder / secret_file(folder, "keys", KEY, OLD_KEY), of="test")
        self.desk = Desk(
            bell=self.hall.bell,
            arbiter=self.hall.arbiter,
            memory=self.hall.history,
            targets={"bot": self.hall.senders["bot"].target},
            nexts={},
            counts=self.hall.counts,
            drill=lambda *_: pytest.fail("nobody drills here"),
            unix_seconds_now=lambda: unix_seconds(self.hall.clock.now()),
            callback_secrets={"webhook": (secret,)},
        )
        self.told: list[tuple[str, str, str]] = []
        self.hall.beat(a_fault())

    @property
    def incident(self) -> Any:
        (one,) = self.hall.history.open_incidents()
        return one

    def call(self, body: bytes, *, key: str = KEY, id: str = "m1", age_seconds: int = 0, **changes: str) -> Any:
        now = int(unix_seconds(self.hall.clock.now())) - age_seconds
        signed = headers([key_bytes(key, of="test")], id=id, timestamp_seconds=now, body=body) | changes
        knock = Knock(headers=lambda name: (signed[name],) if name in signed else ())
        caller = Caller(who="", has_token=False)
        call = Call(caller=caller, knock=knock, base_url="", now=self.hall.clock.now(), raw=body)
        door = a_door(self.hall.clock, self.told)
        people: Any = SimpleNamespace(oncall=self.desk, cluster=self.incident.cluster, door=door)
        return webhook_callback(people, call)

    def said(self, **data: str) -> bytes:
        known = {"key": self.incident.key, "who": "wang"}
        return json.dumps({"type": "incident.acknowledged", "data": {**known, **data}}).encode()


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Ward]:
    made = Ward(tmp_path)
    yield made
    made.hall.stop()


@pytest.mark.parametrize("key", [KEY, OLD_KEY], ids=["newest key", "key that is being changed over"])
def test_it_is_acknowledged_and_twice_is_once(ward: Ward, key: str) -> None:
    assert ward.call(ward.said(), key=key).is_taken
    assert ward.incident.acknowledged_by == "wang (webhook)"
    ward.hall.clock.advance(60)
    assert "taken before" in ward.call(ward.said(who="li"), key=key).sentence
    assert ward.incident.acknowledged_by == "wang (webhook)"


def test_without_a_good_signature_nothing_is_done(ward: Ward) -> None:
    forged = "whsec_" + "QkJC" * 8
    for tried in (
        lambda: ward.call(ward.said(), key=forged),
        lambda: ward.call(ward.said(), age_seconds=301),
        lambda: ward.call(ward.said(), **{"webhook-id": "m2"}),
        lambda: ward.call(ward.said(), **{"webhook-signature": ""}),
    ):
        with pytest.raises(ApiError, match="keys_file") as caught:
            tried()
        assert caught.value.status == 401
    assert ward.incident.acknowledged_at is None
    assert ward.told[0][0] == "peer 192.0.2.7"


def test_what_is_not_as_documented_is_refused(ward: Ward) -> None:
    with pytest.raises(ApiError, match="cannot be read") as caught:
        ward.call(b"[]")
    assert caught.value.status == 400


def test_an_incident_of_somebody_else_is_left_alone(ward: Ward) -> None:
    assert not ward.call(ward.said(key="trimtab/another/i1")).is_taken
    assert ward.incident.acknowledged_at is None


def test_the_schema_that_is_served_is_a_schema() -> None:
    nobody: Any = None
    served = json.loads(msgspec.json.encode(webhook_schema(nobody, nobody)))
    validator = jsonschema_rs.validator_for(served)
    assert not validator.is_valid({"type": "note"})
    assert served["$schema"] == "https://json-schema.org/draft/2020-12/schema"
