"""An agent that knows two daemons, of which one stands by: it finds the active one, stays with it, and comes back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.builders import a_report
from tests.fakes.clock import FakeClock
from tests.fakes.ingest import Ingest, ingest

from trimtab.listener import Listener
from trimtab.ship.away import STANDS_BY, away_app
from trimtab.ship.sender import COME_BACK_SECONDS, Sender
from trimtab.ship.spool import Spool


class Standby:
    """A real listener of a daemon that stands by, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self._app: Any = away_app(why_not_well=str)
        self.listener = Listener(self, name="ingest", listen="127.0.0.1:0")
        self.url = f"http://127.0.0.1:{self.listener.port}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += scope["type"] == "http"
        await self._app(scope, receive, send)


@contextmanager
def standing_by() -> Iterator[Standby]:
    made = Standby()
    made.listener.start()
    try:
        yield made
    finally:
        made.listener.stop()


@pytest.fixture
def active(tmp_path: Path, clock: FakeClock) -> Iterator[Ingest]:
    with ingest(tmp_path, clock=clock) as started:
        yield started


@contextmanager
def a_sender(*urls: str, spool: Spool, clock: FakeClock, token: str) -> Iterator[Sender]:
    made = Sender(spool=spool, urls=urls, token=token, clock=clock, jitter=random.Random(1))
    try:
        yield made
    finally:
        made.close()


def keep(spool: Spool, clock: FakeClock) -> None:
    spool.append(a_report(gpus=1, sequence=0, spool_id="", at=clock.now()))


def test_the_standby_is_asked_once_and_not_with_each_report(active: Ingest, spool: Spool, clock: FakeClock) -> None:
    with (
        standing_by() as standby,
        a_sender(standby.url, active.url, spool=spool, clock=clock, token=active.a_token()) as sender,
    ):
        for _ in range(4):
            keep(spool, clock)
            assert sender.tick().startswith("sent 1 live")
            clock.advance(10.0)
        assert (standby.asked, active.arrivals, sender.trouble) == (1, [1, 2, 3, 4], "")
        clock.advance(COME_BACK_SECONDS)
        keep(spool, clock)
        sender.tick()
        assert (standby.asked, active.arrivals[-1]) == (2, 5), "the head of the list is asked again now and then"


def test_two_that_stand_by_keep_nothing_back_once_one_is_active(
    active: Ingest, tmp_path: Path, spool: Spool, clock: FakeClock
) -> None:
    with standing_by() as one, standing_by() as other:
        with a_sender(one.url, other.url, spool=spool, clock=clock, token=active.a_token()) as sender:
            for _ in range(8):  # as often as a take-over could take; the wait does not grow with it
                keep(spool, clock)
                assert STANDS_BY in sender.tick()
                clock.advance(4.0)
            assert one.asked == other.asked == 8
            assert spool.waiting == 8, "nothing is let go that was not acknowledged"
        with a_sender(one.url, active.url, spool=spool, clock=clock, token=active.a_token()) as sender:
            assert sender.tick() == "sent 1 live, 0 of 7 backlog; 7 waiting"
            clock.advance(1.0)
            sender.tick()
        assert active.arrivals == [8, 1, 2, 3, 4, 5, 6, 7], "live first, then the backlog, oldest first"
