"""Whoever reads a year of history over and over takes neither the page nor the daemon's own beats anything away."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
import requests
from tests.fakes.hall import a_hall_served
from tests.fakes.past import HallPast

from trimtab.model.past import Trends
from trimtab.show.api_slow import RETRY_AFTER_SECONDS, SLOW_MAX, SlowCalls, TooBusy


class SlowPast(HallPast):
    """Reads until it is told to end; counts how many do at once."""

    def __init__(self) -> None:
        super().__init__()
        self.lock, self.end = threading.Condition(), threading.Event()
        self.now = self.most = 0

    def trends(self, since: datetime, until: datetime, **more: Any) -> Trends:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.lock.notify_all()
        self.end.wait(60)
        with self.lock:
            self.now -= 1
        return super().trends(since, until, **more)


def test_of_many_who_read_the_past_some_do_and_the_page_answers_all_the_same() -> None:
    past = SlowPast()
    with a_hall_served(past=past) as served, ThreadPoolExecutor(12) as readers:
        try:
            asked = [readers.submit(served.get, "/api/v1/trends") for _ in range(3 * SLOW_MAX)]
            with past.lock:
                assert past.lock.wait_for(lambda: past.now == SLOW_MAX, timeout=30)
            assert served.get("/api/v1/board").status_code == 200
            assert served.get("/healthz").status_code == 200
            past.end.set()
            assert {one.result(30).status_code for one in asked} == {200}
        finally:
            past.end.set()
    assert past.most == SLOW_MAX


def test_who_would_wait_too_long_is_told_when_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.show.api.SlowCalls", lambda: SlowCalls(most=1, waiting_max=0))
    past = SlowPast()
    with a_hall_served(past=past) as served, ThreadPoolExecutor(1) as readers:
        try:
            first = readers.submit(served.get, "/api/v1/trends")
            with past.lock:
                assert past.lock.wait_for(lambda: past.now == 1, timeout=30)
            answer: requests.Response = served.get("/api/v1/trends")
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, str(RETRY_AFTER_SECONDS))
            assert "Too many read the past" in answer.json()["error"]
        finally:
            past.end.set()
        assert first.result(30).status_code == 200
        assert served.get("/api/v1/trends").status_code == 200


def test_nobody_waits_for_ever_and_a_place_is_given_back() -> None:
    async def story() -> None:
        calls = SlowCalls(most=1, waiting_max=1, wait_seconds_max=0.01)
        async with calls.one():
            with pytest.raises(TooBusy):
                async with calls.one():
                    pytest.fail("there was no room")
        async with calls.one():
            pass

    asyncio.run(story())
