"""Agents' tokens under a flood of bad ones: the cluster is asked a bounded number of times, good agents stay let in."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

import pytest
from tests.fakes.clock import FakeClock

from trimtab.errors import SchedulerBusy
from trimtab.schedulers import reviews as module
from trimtab.schedulers.kubernetes import Api
from trimtab.schedulers.reviews import KNOWN_SECONDS, STRANGERS_AT_ONCE, STRANGERS_PER_SECOND, TokenReviews

AUDIENCE, ACCOUNT = "trimtab", "trimtab/trimtab-agent"


class Cluster:
    """Knows tokens that begin with `good`; `gate` keeps its answers back while it is not set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gone: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Semaphore(0)

    def post(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        assert (path, params) == (module.PATH, None)
        token = body["spec"]["token"]
        self.asked.append(token)
        self.arrived.release()
        assert self.gate.wait(30.0)
        if not token.startswith("good") or token in self.gone:
            return {"status": {"authenticated": False, "error": "unknown"}}
        user = {
            "username": "system:serviceaccount:trimtab:trimtab-agent",
            "extra": {module.NODE_CLAIM: [token.partition(".")[2]]},
        }
        return {"status": {"authenticated": True, "user": user, "audiences": [AUDIENCE]}}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def reviews(cluster: Cluster, clock: FakeClock) -> TokenReviews:
    return TokenReviews(api=cast(Api, cluster), clock=clock, service_account=ACCOUNT, audience=AUDIENCE)


def flood(reviews: TokenReviews, count: int, *, name: str = "bad") -> int:
    """Sends so many distinct bad tokens; how many were put off."""
    put_off = 0
    for number in range(count):
        try:
            assert reviews.ask(f"{name}.{number}.x") is None
        except SchedulerBusy:
            put_off += 1
    return put_off


def test_distinct_bad_tokens_are_a_bounded_number_of_reviews(
    cluster: Cluster, reviews: TokenReviews, clock: FakeClock
) -> None:
    each_second = int(STRANGERS_PER_SECOND)
    assert flood(reviews, 1000) == 1000 - each_second
    assert len(cluster.asked) == each_second
    clock.advance(2.0)
    flood(reviews, 1000, name="worse")
    assert len(cluster.asked) == 2 * each_second  # what was not used is not saved up
    assert reviews.counts() == {"refused": 2 * each_second, "put_off": 2000 - 2 * each_second}


def test_agents_that_were_let_in_are_asked_about_beside_the_flood(
    cluster: Cluster, reviews: TokenReviews, clock: FakeClock
) -> None:
    assert reviews.ask("good.gpu-07.x") == "gpu-07.x"
    flood(reviews, 1000)
    assert reviews.node_of("good.gpu-07.x") == "gpu-07.x"
    clock.advance(KNOWN_SECONDS + 1.0)
    flood(reviews, 1000)
    assert reviews.can_ask("good.gpu-07.x")
    assert reviews.ask("good.gpu-07.x") == "gpu-07.x"
    # Once it is found bad it is a stranger as any other.
    clock.advance(KNOWN_SECONDS + 1.0)
    cluster.gone.add("good.gpu-07.x")
    flood(reviews, 1000)
    assert reviews.ask("good.gpu-07.x") is None
    clock.advance(module.UNKNOWN_SECONDS + 1.0)
    flood(reviews, 1000, name="again")
    with pytest.raises(SchedulerBusy):
        reviews.ask("good.gpu-07.x")


def test_bad_tokens_never_drive_out_good_ones(
    reviews: TokenReviews, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BAD_MAX", 20)
    for number in range(10):
        reviews.ask(f"good.{number}.x")
    for _ in range(4):
        clock.advance(1.0)
        flood(reviews, 40)
    assert all(reviews.node_of(f"good.{number}.x") == f"{number}.x" for number in range(10))
    assert not reviews.can_ask("bad.39.x")  # the newest is known to be bad
    assert reviews.can_ask("bad.0.x")  # the oldest made room


def test_few_strangers_are_asked_about_at_once(cluster: Cluster, reviews: TokenReviews, clock: FakeClock) -> None:
    reviews.ask("good.gpu-07.x")
    clock.advance(KNOWN_SECONDS + 1.0)
    assert cluster.arrived.acquire(timeout=30.0)
    cluster.gate.clear()
    asking = [threading.Thread(target=reviews.ask, args=(f"bad.{number}.x",)) for number in range(STRANGERS_AT_ONCE)]
    known = threading.Thread(target=reviews.ask, args=("good.gpu-07.x",))
    for thread in asking:
        thread.start()
    for _ in asking:
        assert cluster.arrived.acquire(timeout=30.0)
    try:
        with pytest.raises(SchedulerBusy):
            reviews.ask("bad.more.x")
        known.start()
        assert cluster.arrived.acquire(timeout=30.0)
    finally:
        cluster.gate.set()
        for thread in (*asking, known):
            thread.join(30.0)
    assert reviews.node_of("good.gpu-07.x") == "gpu-07.x"
    assert reviews.ask("bad.more.x") is None
