"""JSM signs nothing: its call-backs are taken with the token of its target, and with no other program's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.oncall.hall import PAGER, Hall, a_fault
from tests.oncall.scenes import a_door

from trimtab.clock import unix_seconds
from trimtab.model.oncall import Target
from trimtab.model.people import Role
from trimtab.show.api_oncall import jsm_callback
from trimtab.show.api_routes import ApiError, Call
from trimtab.show.auth import Caller, Knock
from trimtab.show.oncall.desk import Desk


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path, PAGER, Target(name="ops", kind="jsm", is_pager=True))
    made.beat(a_fault())
    yield made
    made.stop()


def call_back(hall: Hall, *, token_of: str) -> Any:
    desk = Desk(
        bell=hall.bell,
        arbiter=hall.arbiter,
        memory=hall.history,
        targets={name: sender.target for name, sender in hall.senders.items()},
        nexts={},
        counts=hall.counts,
        drill=lambda *_: pytest.fail("nobody drills here"),
        unix_seconds_now=lambda: unix_seconds(hall.clock.now()),
    )
    (incident,) = hall.history.open_incidents()
    alert = {"alias": incident.key, "alertId": "a1", "username": "wang@example.org", "updatedAt": 1}
    body = json.dumps({"action": "Acknowledge", "alert": alert, "source": {"type": "web"}}).encode()
    caller = Caller(who=token_of, has_token=True, role=Role.WEBHOOK, token_id=1)
    call = Call(caller=caller, knock=Knock(), base_url="", now=hall.clock.now(), raw=body)
    people: Any = SimpleNamespace(oncall=desk, cluster=incident.cluster, door=a_door(hall.clock, []))
    return jsm_callback(people, call)


@pytest.mark.parametrize("token_of", ["alertmanager", "pd", "jsm"])
def test_another_programs_token_acknowledges_nothing(token_of: str, hall: Hall) -> None:
    with pytest.raises(ApiError, match=r"named as its target \(ops\)") as caught:
        call_back(hall, token_of=token_of)
    assert caught.value.status == 403
    (incident,) = hall.history.open_incidents()
    assert incident.acknowledged_at is None


def test_its_own_token_acknowledges(hall: Hall) -> None:
    assert call_back(hall, token_of="ops").is_taken
    (incident,) = hall.history.open_incidents()
    assert incident.acknowledged_by == "wang@example.org (jsm)"
