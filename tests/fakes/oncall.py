"""On-call behind an API that is served without a daemon: a real memory with one open incident and a dead message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fakes.clock import FakeClock
from tests.oncall.hall import CHAT, PAGER, Hall, a_fault, dead

from trimtab.errors import DecisionRefused
from trimtab.model.oncall import Incident
from trimtab.show.oncall.desk import Desk


@contextmanager
def a_desk(clock: FakeClock) -> Iterator[Desk]:
    """I1 is open and was told; its message to the chat is dead. Drills are of nodes that nobody has."""
    with TemporaryDirectory() as directory:
        hall = Hall(Path(directory), PAGER, CHAT)
        hall.clock = clock
        hall.start_over()
        hall.chat.first = [dead()]
        hall.judge(a_fault(31))
        hall.deliver()

        def drill(kind: str, node: str, gpu: str | None, who: str, seconds: float) -> Incident:
            raise DecisionRefused(f"No node {node} reports here.")

        try:
            yield Desk(
                bell=hall.bell,
                arbiter=hall.arbiter,
                memory=hall.history,
                targets={name: sender.target for name, sender in hall.senders.items()},
                nexts={},
                counts=hall.counts,
                drill=drill,
                unix_seconds_now=lambda: clock.now().timestamp(),
            )
        finally:
            hall.stop()
