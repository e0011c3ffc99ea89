"""How one report becomes the `body` of a journal row and back (docs/decisions/0001-journal-row.md)."""

from __future__ import annotations

import hashlib
import sys
import threading
from datetime import UTC, datetime
from typing import Generic, TypeVar

import msgspec

from trimtab.errors import StoreError
from trimtab.model.metric import CATALOGUE, sample_key
from trimtab.model.reading import GpuInfo, GpuReading, Report

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 1
_BODY_BYTES_MAX = 64 * 1024 * 1024
T = TypeVar("T")


def dictionary_body() -> bytes:
    """What every report has in common: one GPU with every metric of the catalogue, packed.

    zstd refers to it in place of repeating names: half the bytes a row. It is kept in the database, so a later
    version with another catalogue still reads what this one wrote.
    """
    keys = [sample_key(metric.name, value) for metric in CATALOGUE for value in (metric.label_values or (None,))]
    reading = GpuReading(info=GpuInfo(uuid="GPU-"), values=dict.fromkeys(keys, 0.0))
    report = Report(
        cluster="", node="", boot_id="", sequence=0, sampled_at=datetime.fromtimestamp(0, UTC), gpus=(reading,)
    )
    return msgspec.msgpack.encode(report)


def digest_of(body: bytes) -> str:
    """What a dictionary is found by."""
    return hashlib.sha256(body).hexdigest()


class Packer:
    """Packs reports with one dictionary; for one thread at a time."""

    def __init__(self, dictionary: bytes) -> None:
        """Pack with this dictionary."""
        self._encoder = msgspec.msgpack.Encoder()
        self._zstd = zstd.ZstdCompressor(
            options={zstd.CompressionParameter.compression_level: LEVEL, zstd.CompressionParameter.checksum_flag: 1},
            zstd_dict=zstd.ZstdDict(dictionary, is_raw=True),
        )
        self._lock = threading.Lock()

    def pack(self, report: Report) -> bytes:
        """The body of a journal row."""
        packed = self._encoder.encode(report)
        with self._lock:
            return self._zstd.compress(packed, mode=zstd.ZstdCompressor.FLUSH_FRAME)


class Unpacker(Generic[T]):
    """Unpacks bodies, whichever dictionaries they were packed with, into `kind`: a Report, or the part one needs."""

    def __init__(self, kind: type[T], dictionaries: dict[int, bytes]) -> None:
        """Unpack with these dictionaries, by id."""
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._dictionaries = {key: zstd.ZstdDict(body, is_raw=True) for key, body in dictionaries.items()}

    def knows(self, dictionary_id: int) -> bool:
        """Whether the dictionary is at hand."""
        return dictionary_id in self._dictionaries

    def unpack(self, body: bytes, dictionary_id: int) -> T:
        """The report of a journal row. Raises StoreError for a body that is damaged."""
        try:
            decompressor = zstd.ZstdDecompressor(zstd_dict=self._dictionaries[dictionary_id])
            packed = decompressor.decompress(body, _BODY_BYTES_MAX)
            if not decompressor.eof:
                raise StoreError("a journal row cannot be unpacked: it ends too early")
            return self._decoder.decode(packed)
        except (zstd.ZstdError, EOFError, KeyError, msgspec.DecodeError) as error:
            raise StoreError(f"a journal row cannot be unpacked: {error}") from error
