"""The page's stream: a board as columns at first, then what changed; the pieces are made once for all readers."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from trimtab.show.board import BoardBox, Published
from trimtab.show.columns import Columns, Piece, change, frame
from trimtab.show.stream import HEARTBEAT_SECONDS

K = TypeVar("K")
V = TypeVar("V")

KEPT_COLUMNS = 3
"""Boards whose columns are kept: a reader that comes back after a short break is told only what changed."""
KEPT_PIECES = 8
GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"


class Deltas:
    """Makes the events of the stream for one box of boards; any thread."""

    def __init__(self, box: BoardBox) -> None:
        """Nothing is made before somebody reads."""
        self._box = box
        self._lock = threading.Lock()
        self._columns: OrderedDict[int, Columns] = OrderedDict()
        self._pieces: OrderedDict[tuple[int, int], tuple[Piece, ...]] = OrderedDict()
        self.run = secrets.token_hex(4)
        """Names this run of the daemon: sequences of another one mean nothing here."""

    def since(self, said: str | None) -> int:
        """The sequence that a reader has, of `3fa9c1d2-17`; 0 = none that is of use."""
        run, _, sequence = (said or "").partition("-")
        return int(sequence) if run == self.run and sequence.isdecimal() else 0

    def events(self, base: int, published: Published) -> tuple[Piece, ...]:
        """What takes a reader from the board `base` to this one: one change, or the whole and its UUIDs."""
        key = (base, published.sequence)
        with self._lock:
            if key not in self._pieces:
                self._pieces[key] = self._make(base, published)
                _forget(self._pieces, KEPT_PIECES)
            return self._pieces[key]

    def _make(self, base: int, published: Published) -> tuple[Piece, ...]:
        sequence = published.sequence
        new = self._columns.setdefault(sequence, Columns(published.board))
        old = self._columns.get(base)
        told = None if old is None else change(old, new, base=base, sequence=sequence)
        _forget(self._columns, KEPT_COLUMNS)
        name = f"{self.run}-{sequence}"
        if told is not None:
            return (Piece(_event("change", name, told)),)
        return (
            Piece(_event("frame", name, frame(new, sequence))),
            Piece(_event("uuids", name, new.uuids)),
        )


def _forget(kept: OrderedDict[K, V], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


def _event(name: str, identity: str, data: bytes) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (identity.encode(), name.encode(), data)


class _Packer:
    """Puts pieces into one stream, as gzip where the reader takes it."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._crc, self._size = 0, 0

    def head(self) -> Iterator[bytes]:
        if self._is_gzip:
            yield GZIP_HEAD

    def put(self, piece: Piece) -> bytes:
        if not self._is_gzip:
            return piece.plain
        self._crc = zlib.crc32(piece.plain, self._crc)
        self._size += len(piece.plain)
        return piece.packed

    def end(self) -> Iterator[bytes]:
        if self._is_gzip:
            yield zlib.compressobj(wbits=-zlib.MAX_WBITS).flush()
            yield struct.pack("<LL", self._crc, self._size & 0xFFFFFFFF)


async def changes(
    deltas: Deltas,
    box: BoardBox,
    *,
    since: int,
    is_gzip: bool,
    is_welcome: Callable[[], bool],
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> AsyncIterator[bytes]:
    """The way from `since` to the latest board, then each change; who reads slowly is told several beats as one."""
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        # The publisher's thread must never suffer from a loop that has just been closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(changed.set)

    packer = _Packer(is_gzip=is_gzip)
    unsubscribe = box.subscribe(wake)
    try:
        for part in packer.head():
            yield part
        yield packer.put(Piece(b"retry: 2000\n\n"))
        sent = since
        while not box.is_closed and await run_in_threadpool(is_welcome):
            changed.clear()
            published = box.latest()
            if published is not None and published.sequence != sent:
                for piece in await run_in_threadpool(deltas.events, sent, published):
                    yield await run_in_threadpool(packer.put, piece)
                sent = published.sequence
                continue
            try:
                await asyncio.wait_for(changed.wait(), heartbeat_seconds)
            except TimeoutError:
                yield packer.put(Piece(b": nothing new\n\n"))
        for part in packer.end():
            yield part
    finally:
        unsubscribe()
