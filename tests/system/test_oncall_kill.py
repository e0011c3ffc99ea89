"""kill -9 of a real daemon in the middle of delivery: no page lost, at most one doubled a kill, and marked so."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.oncall.server import Receiver, Reply, Request, serving
from tests.system.processes import eventually
from tests.system.ward import Ward

SETTINGS = """
[detect]
interval_seconds = 0.1
silent_after_seconds = 86400.0
[oncall]
deliver_seconds = 0.05
backoff_seconds = 0.1
backoff_seconds_max = 0.5
budget_incidents_max = 100000
[oncall.targets.group]
kind = "feishu"
url = "{url}"
token_file = "bot.token"
per_minute_max = 60000.0
"""
FAULTS_PER_ROUND = 6


class Pager(Receiver):
    """A group's bot: what is sent twice is seen twice there, so it must say so. Kills when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, list[bool]] = defaultdict(list)
        """Incident -> whether each arrival of its opening said that it may be a repeat."""
        self.until_kill: int | None = None
        self.kill_before_answer = True
        self.killer = threading.Event()

    def judge(self, request: Request) -> Reply:
        text = json.dumps(request.json(), ensure_ascii=False)
        (incident,) = set(re.findall(r"I[0-9]+ · F[0-9]+ · hall-a", text))
        self.seen[incident].append("[may be a repeat]" in text)
        if self.until_kill is not None:
            self.until_kill -= 1
            if self.until_kill <= 0:
                self.until_kill = None
                self.killer.set()
                if self.kill_before_answer:
                    return Reply(is_silent=True)
        return Reply(body={"code": 0, "msg": "success"})


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[tuple[Ward, Pager]]:
    pager = Pager()
    with serving(pager):
        made = Ward(tmp_path, SETTINGS.format(url=pager.url), {"bot.token": "0123456789abcdef"})
        yield made, pager
        made.daemon.close()


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.long)])
def test_no_page_is_lost_and_at_most_one_doubled_a_kill_and_marked(ward: tuple[Ward, Pager], kills: int) -> None:
    (hall, pager), random = ward, Random(11)
    hall.daemon.up()
    for number in range(kills):
        pager.killer.clear()
        # Taken and not answered, or answered and (perhaps) not noted yet.
        pager.kill_before_answer = number % 2 == 0
        pager.until_kill = random.randint(1, FAULTS_PER_ROUND - 1)
        hall.break_gpus(FAULTS_PER_ROUND)
        assert pager.killer.wait(30.0), hall.daemon.tail()
        hall.daemon.kill()
        hall.daemon.up()
        eventually(
            lambda: len(pager.seen) == hall.faults,
            said=lambda: f"{len(pager.seen)} of {hall.faults} pages\n{hall.daemon.tail()}",
        )
    # Nothing more is under way.
    eventually(lambda: not hall.daemon.get("/api/v1/outbox", dict, state="waiting")["letters"], said=hall.daemon.tail)
    assert len(pager.seen) == hall.faults == kills * FAULTS_PER_ROUND
    doubled = {name: marks for name, marks in pager.seen.items() if len(marks) > 1}
    assert sum(len(marks) - 1 for marks in doubled.values()) <= kills
    for marks in doubled.values():
        assert marks[0] is False
        assert all(marks[1:]), "what arrives twice says so"
    print(f"{kills} kills, {hall.faults} pages: 0 lost, {len(doubled)} doubled, all of these marked")
    hall.daemon.assert_had_no_trouble()
