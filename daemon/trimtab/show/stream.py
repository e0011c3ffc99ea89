"""Server-sent events: each board as it is published, a comment when nothing comes, a clean end at shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool

from trimtab.show.board import BoardBox

HEARTBEAT_SECONDS = 15.0
"""Under the idle time-outs of common proxies."""

STREAMS_MAX = 64
"""More streams than this are told to come back: each holds a connection and, when slow, one board in memory."""


async def board_events(
    box: BoardBox, *, is_welcome: Callable[[], bool], heartbeat_seconds: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[bytes, None]:
    """The latest board at once, then each new one; a client that reads slowly skips boards and holds up nobody.

    `is_welcome` is asked at each turn: a session that has run out ends the stream.
    """
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        # The publisher's thread must never suffer from a loop that has just been closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(changed.set)

    unsubscribe = box.subscribe(wake)
    try:
        sent = 0
        yield b"retry: 2000\n\n"
        while not box.is_closed and await run_in_threadpool(is_welcome):
            changed.clear()
            published = box.latest()
            if published is not None and published.sequence != sent:
                sent = published.sequence
                body = await run_in_threadpool(lambda found: found.json, published)
                yield b"id: %d\nevent: board\ndata: " % sent
                yield body
                yield b"\n\n"
                continue
            try:
                await asyncio.wait_for(changed.wait(), heartbeat_seconds)
            except TimeoutError:
                yield b": nothing new\n\n"
    finally:
        unsubscribe()


async def zipped(stream: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    """The same as one gzip stream, each part readable as it comes: a board of 100,000 GPUs is 25 MB bare."""
    packer = zlib.compressobj(level=1, wbits=zlib.MAX_WBITS + 16)

    def pack(part: bytes) -> bytes:
        return packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH)

    async with contextlib.aclosing(stream) as parts:
        async for part in parts:
            yield await run_in_threadpool(pack, part)
    yield packer.flush()
