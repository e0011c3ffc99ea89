"""One file of the spool: records behind each other, each with length, checksum and sequence. Append, scan, cut."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_HEADER = struct.Struct(">4sIIQ")
_MAGIC = b"trm1"
RECORD_BYTES_MAX = 8 * 1024 * 1024
"""A length beyond it is no length but damage."""


@dataclass(frozen=True, slots=True)
class Found:
    """One whole record in a segment; `end` is where the next one starts."""

    sequence: int
    payload: bytes
    end: int


def pack(sequence: int, payload: bytes) -> bytes:
    """A record as it lies in the file."""
    return _HEADER.pack(_MAGIC, len(payload), _checksum(sequence, payload), sequence) + payload


def scan(file: BinaryIO, offset: int) -> Iterator[Found]:
    """Whole records from `offset` on; what is damaged between them is stepped over."""
    file.seek(offset)
    while True:
        found = _read_record(file, offset)
        if found is not None:
            offset = found.end
            yield found
            continue
        beyond = _next_magic(file, offset)
        if beyond is None:
            return
        offset = beyond
        file.seek(offset)


def _next_magic(file: BinaryIO, offset: int) -> int | None:
    # A torn tail ends the search at once; only a damaged sector makes it look further.
    file.seek(offset + 1)
    at = file.read().find(_MAGIC)
    return None if at < 0 else offset + 1 + at


def _read_record(file: BinaryIO, offset: int) -> Found | None:
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    magic, length, checksum, sequence = _HEADER.unpack(header)
    if magic != _MAGIC or length > RECORD_BYTES_MAX:
        return None
    payload = file.read(length)
    if len(payload) < length or _checksum(sequence, payload) != checksum:
        return None
    return Found(sequence, payload, offset + _HEADER.size + length)


def _checksum(sequence: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(sequence.to_bytes(8, "big")))


@dataclass(slots=True)
class Segment:
    """What is known of one file. `last` is `first - 1` while it is empty."""

    path: Path
    first: int
    last: int
    size_bytes: int
    cursor: int = 0
    """Where the first record that may still wait begins."""
    expected: int = 0
    """The sequence that is expected there."""

    def __post_init__(self) -> None:
        """Reading starts at the first record."""
        self.expected = self.first


def segment_path(directory: Path, first: int) -> Path:
    """The file whose first record has this sequence; its name keeps the sequence even while it is empty."""
    return directory / f"{first:020d}.segment"


def list_segments(directory: Path) -> list[Segment]:
    """The spool's files, oldest first, by their names; the last one's end is only known after `mend`."""
    paths = sorted(path for path in directory.glob("*.segment") if path.stem.isdecimal())
    firsts = [int(path.stem) for path in paths]
    lasts = [following - 1 for following in firsts[1:]] + firsts[-1:]
    return [
        Segment(path=path, first=first, last=last, size_bytes=path.stat().st_size)
        for path, first, last in zip(paths, firsts, lasts, strict=True)
    ]


def measure(segment: Segment) -> int:
    """Find the last whole record of the newest file; returns how many bytes behind it are a torn tail."""
    end, last = 0, segment.first - 1
    with segment.path.open("rb") as file:
        for found in scan(file, 0):
            end, last = found.end, found.sequence
    torn_bytes = segment.size_bytes - end
    segment.last, segment.size_bytes = last, end
    return torn_bytes
