"""A kernel message device that gives what it was given, one record or error a read."""

from __future__ import annotations


class FakeKmsg:
    def __init__(self, records: list[bytes | Exception]) -> None:
        self.records = list(records)

    def read(self) -> bytes:
        if not self.records:
            return b""
        record = self.records.pop(0)
        if isinstance(record, Exception):
            raise record
        return record
