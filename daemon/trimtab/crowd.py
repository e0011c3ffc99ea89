"""Who may keep a connection open, and for how long: nobody holds a listener's places by sending or reading slowly.

Past its places a listener lets go of whoever has waited longest without a request, so that agents and people get in.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter, OrderedDict
from typing import Any

import structlog

from trimtab.strict_http import StrictProtocol

log = structlog.get_logger()

HEAD_SECONDS = 20.0
"""From the connection, or a request's first byte, to the end of its headers."""
BODY_SECONDS = 40.0
"""For the body; longer than the receiver waits, whose answer says why."""
READER_SECONDS = 60.0
"""For whoever does not take the answer: the buffer must move by then."""
FILES_KEPT = 256
"""Of the process's files: database, requests going out, logs."""
SHARE_RATIO = 0.8
"""Of the others, for one listener: there are two."""
SAID_SECONDS = 60.0
"""One line of the log in so long, however many connections were let go."""

STRANGER, IDLE, SENDING = "stranger", "idle", "sending"
_FIRST_TO_GO = (STRANGER, IDLE, SENDING)
"""Who never sent a whole head, then who has been answered and is quiet, then who still sends a body; oldest first."""


class Crowd:
    """The open connections of one listener. Used on its loop alone; counts may be read from anywhere."""

    def __init__(self, name: str, *, connections_max: int) -> None:
        """At most `connections_max`, and no more than what files the process may open."""
        self.name = name
        self.connections_max = max(8, min(connections_max, int((files_max() - FILES_KEPT) * SHARE_RATIO)))
        self.closed_total: Counter[str] = Counter()
        """Connections that we closed, by why: slow_head, slow_body, slow_reader, made_room, no_room."""
        self._open: set[Guarded] = set()
        self._waiting: dict[str, OrderedDict[Guarded, None]] = {kind: OrderedDict() for kind in _FIRST_TO_GO}
        self._said_at_seconds: float | None = None

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    def came(self, one: Guarded) -> None:
        """A new connection; it takes the place of whoever waited longest where there is none left."""
        self._open.add(one)
        self.waits(one, STRANGER)
        while len(self._open) > self.connections_max:
            self._let_go()

    def left(self, one: Guarded) -> None:
        """It is closed."""
        self._open.discard(one)
        self.works(one)

    def waits(self, one: Guarded, kind: str) -> None:
        """Nothing of it is under way."""
        self.works(one)
        self._waiting[kind][one] = None

    def works(self, one: Guarded) -> None:
        """A request of it is under way."""
        for kind in self._waiting.values():
            kind.pop(one, None)

    def close(self, one: Guarded, why: str) -> None:
        """Close it for good, counted, and said now and then."""
        self.closed_total[why] += 1
        self.left(one)
        one.abort()
        now_seconds = one.loop.time()
        if self._said_at_seconds is None or now_seconds - self._said_at_seconds > SAID_SECONDS:
            self._said_at_seconds = now_seconds
            log.warning(
                "connections are closed because they send or read too slowly, or because there are too many",
                listener=self.name,
                why=why,
                peer=one.client[0] if one.client else "",
                open=self.connections,
                open_max=self.connections_max,
                closed_total=sum(self.closed_total.values()),
            )

    def _let_go(self) -> None:
        for kind in _FIRST_TO_GO:
            if self._waiting[kind]:
                self.close(next(iter(self._waiting[kind])), "made_room")
                return
        self.close(next(iter(self._open)), "no_room")  # all of them work: one must wait and come again


class Guarded(StrictProtocol):
    """One connection with a deadline for each thing that its other end may take its time with."""

    def __init__(self, *args: Any, crowd: Crowd, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """`crowd` is the listener's."""
        super().__init__(*args, **kwargs)
        self._crowd = crowd
        self._deadline: asyncio.TimerHandle | None = None
        self._reader_deadline: asyncio.TimerHandle | None = None
        self._is_sending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It is there: its head is due."""
        super().connection_made(transport)
        self._due(HEAD_SECONDS, "slow_head")
        self._crowd.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._met()
        self._reads()
        self._crowd.left(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something came; between two requests it is the beginning of the next, whatever it is."""
        if self._deadline is None and not self._is_working:
            self._due(HEAD_SECONDS, "slow_head")
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """The head is whole: the body is due."""
        super().on_headers_complete()
        self._is_sending = True
        self._crowd.waits(self, SENDING)
        self._due(BODY_SECONDS, "slow_body")

    def on_message_complete(self) -> None:
        """The request is whole: now it is our turn."""
        super().on_message_complete()
        self._is_sending = False
        self._met()
        if self._is_working:
            self._crowd.works(self)
        else:
            self._crowd.waits(self, IDLE)

    def on_response_complete(self) -> None:
        """Answered; uvicorn's own time-out for quiet connections runs from here."""
        super().on_response_complete()
        if not self._is_working and not self._is_sending and not self.transport.is_closing():
            self._crowd.waits(self, IDLE)

    def pause_writing(self) -> None:
        """The other end does not take what we send."""
        super().pause_writing()
        if self._reader_deadline is None:
            self._reader_deadline = self.loop.call_later(READER_SECONDS, self._crowd.close, self, "slow_reader")

    def resume_writing(self) -> None:
        """It takes it again."""
        super().resume_writing()
        self._reads()

    def abort(self) -> None:
        """Close at once; what is not sent yet is thrown away."""
        self.transport.abort()

    @property
    def _is_working(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _due(self, seconds: float, why: str) -> None:
        self._met()
        self._deadline = self.loop.call_later(seconds, self._crowd.close, self, why)

    def _met(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _reads(self) -> None:
        if self._reader_deadline is not None:
            self._reader_deadline.cancel()
            self._reader_deadline = None


def files_max() -> int:
    """How many files this process may open: raised to what it may raise it to, as its own unit does anyway."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # a sandbox that lets nobody raise it
            return soft
    return hard
