"""How each no of the server is told: one meaning, its own words, and what to do."""

from __future__ import annotations

import pytest

from trimtab.errors import (
    SchedulerBusy,
    SchedulerConflict,
    SchedulerGone,
    SchedulerRefused,
    SchedulerUnavailable,
)
from trimtab.schedulers.kubernetes import failure


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (400, 'admission webhook "validatejob.volcano.sh" denied the request: no', SchedulerRefused),
        (401, "Unauthorized", SchedulerRefused),
        (403, 'nodes "n" is forbidden: User "x" cannot patch resource "nodes"', SchedulerRefused),
        (404, 'pods "p" not found', SchedulerGone),
        (405, "the server does not allow this method on the requested resource", SchedulerRefused),
        (409, "the object has been modified", SchedulerConflict),
        (410, "too old resource version: 1 (2)", SchedulerGone),
        (422, "queueName is immutable while workload quota reserved", SchedulerRefused),
        (422, "the server rejected our request due to an error in our request", SchedulerConflict),
        (422, 'metadata.uid: Invalid value: "0": field is immutable', SchedulerConflict),
        (429, "storage is (re)initializing", SchedulerBusy),
        (500, "etcdserver: request timed out", SchedulerUnavailable),
        (503, "apiserver is shutting down", SchedulerUnavailable),
    ],
)
def test_each_no_has_one_meaning_and_the_servers_words(code: int, message: str, kind: type[Exception]) -> None:
    error = failure("PATCH /api/v1/nodes/n", code, {"message": message})
    assert type(error) is kind
    assert str(error).startswith(f"PATCH /api/v1/nodes/n: {code} {message}")
    assert error.code == code


def test_a_budget_names_its_numbers_and_an_overload_when_to_come_back() -> None:
    words = "Cannot evict pod as it would violate the pod's disruption budget."
    cause = "The disruption budget pdb needs 3 healthy pods and has 3 currently"
    budget = failure("POST x", 429, {"message": words, "details": {"causes": [{"message": cause}]}})
    assert cause in str(budget)
    assert isinstance(budget, SchedulerBusy)
    assert budget.retry_after_seconds is None
    busy = failure("GET x", 429, {"message": "too many requests"}, "7")
    again = failure("GET x", 429, {"message": "storage is (re)initializing", "details": {"retryAfterSeconds": 1}})
    assert isinstance(busy, SchedulerBusy)
    assert isinstance(again, SchedulerBusy)
    assert (busy.retry_after_seconds, again.retry_after_seconds) == (7.0, 1)


def test_a_webhook_that_is_away_is_said_and_a_long_message_keeps_its_head() -> None:
    away = failure("POST x", 500, {"message": 'failed calling webhook "mpod.kb.io": connection refused'})
    assert "an admission webhook cannot be called" in str(away)
    long = failure("PATCH x", 403, {"message": 'admission webhook "v" denied the request: ' + "x" * 10_000})
    assert 'admission webhook "v" denied the request' in str(long)
    assert len(str(long)) < 1000
