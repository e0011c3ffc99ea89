"""The agent's spool: every report is on disk until the daemon has acknowledged it. Survives kill -9 at any point.

Segments of records, synced one by one before they are sent, so that a sequence that was ever sent is never given
twice; beside them `position.json` (what is settled, what was lost) and `aside/` (what the daemon refused for good).
"""

from __future__ import annotations

import fcntl
import io
import os
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from trimtab.durable import sync_directory, write_whole
from trimtab.errors import SettingsError, ShipError
from trimtab.model.reading import Report
from trimtab.ship import zstd
from trimtab.ship.aside import Aside
from trimtab.ship.position import Position
from trimtab.ship.segment import (
    RECORD_BYTES_MAX,
    Found,
    Segment,
    list_segments,
    measure,
    pack,
    scan,
    segment_path,
)
from trimtab.ship.settled import Settled
from trimtab.ship.wire import encode_report

log = structlog.get_logger()

SEGMENT_BYTES_MAX = 4 * 1024 * 1024
_ENCODED_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Waiting:
    """A report in line: its msgpack, ready to be sent. `is_on_disk` is False for the one kept in memory."""

    sequence: int
    encoded: bytes
    is_on_disk: bool = True


class Spool:
    """Reports in line for the daemon, on disk, oldest dropped (and counted) beyond `bytes_max`."""

    def __init__(self, directory: Path, bytes_max: int) -> None:
        """Open or make the spool. A disk that cannot be used is no error but a state: see `trouble`.

        Raises SettingsError when another process uses it.
        """
        self.trouble = ""
        """Why only the last report is kept, in memory; empty while the disk keeps them."""
        self.lost_total = 0
        """Reports that were only in memory and never acknowledged, in the life of this process."""
        self._directory = directory
        self._bytes_max = bytes_max
        self._segment_bytes_max = max(1, min(SEGMENT_BYTES_MAX, bytes_max // 8))
        self._aside = Aside(directory / "aside", bytes_max // 16)
        self._lock = threading.RLock()
        self._lock_file: int | None = None
        self._active: io.FileIO | None = None
        self._segments: list[Segment] = []
        self._position = Position(directory)
        self._spool_id = ""
        self._last = 0
        self._live: Waiting | None = None
        self._memory: Waiting | None = None
        self._memory_spool_id = f"memory-{uuid.uuid4().hex}"
        self._memory_sequence = 0
        self._is_dropping = False
        with self._lock:
            try:
                self._ensure_open()
            except OSError as error:
                self._say_trouble(error)

    def allow(self, bytes_max: int) -> None:
        """Another bound from the next report on."""
        self._bytes_max = bytes_max

    # --- what the agent and its metrics read -------------------------------------------------------------------

    @property
    def spool_id(self) -> str:
        """Made once with the directory; reports that are only in memory carry another."""
        return self._spool_id or self._memory_spool_id

    @property
    def waiting(self) -> int:
        """Reports in line, the newest included."""
        with self._lock:
            return self._position.unsettled(1, self._last) + (self._memory is not None)

    @property
    def size_bytes(self) -> int:
        """What the segments hold on disk."""
        with self._lock:
            return sum(segment.size_bytes for segment in self._segments)

    @property
    def dropped_total(self) -> int:
        """Unacknowledged reports that had to make room, since the spool was made."""
        return self._position.dropped_total

    @property
    def damaged_total(self) -> int:
        """Reports that could not be read back from disk, since the spool was made."""
        return self._position.damaged_total

    @property
    def set_aside_total(self) -> int:
        """Reports that the daemon refused for good, since the spool was made."""
        return self._position.set_aside_total

    # --- in ----------------------------------------------------------------------------------------------------

    def append(self, report: Report) -> Report:
        """Give the report its spool id and sequence and keep it; returns it as it will be sent."""
        with self._lock:
            try:
                self._ensure_open()
                stamped = replace(report, spool_id=self._spool_id, sequence=self._last + 1)
                self._write(stamped)
            except OSError as error:
                self._say_trouble(error)
                return self._remember(report)
            if self.trouble:
                self.trouble = ""
                log.info("the spool can be written again")
            return stamped

    def _write(self, stamped: Report) -> None:
        encoded = encode_report(stamped)
        record = pack(stamped.sequence, self._packed(encoded))
        self._make_room(len(record))
        try:
            file = self._writable()
            view = memoryview(record)
            while view:
                view = view[file.write(view) :]
            os.fdatasync(file.fileno())
        except OSError:
            # What is in the file behind the last good record is unknown: the next writer cuts it off.
            self._close_active()
            raise
        active = self._segments[-1]
        active.last, active.size_bytes = stamped.sequence, active.size_bytes + len(record)
        self._last = stamped.sequence
        self._live = Waiting(stamped.sequence, encoded)

    @staticmethod
    def _packed(encoded: bytes) -> bytes:
        packed = zstd.compress(encoded)
        if len(packed) > RECORD_BYTES_MAX:
            raise ShipError(f"A report of {len(packed)} bytes fits no spool; {RECORD_BYTES_MAX} is the most.")
        return packed

    def _remember(self, report: Report) -> Report:
        # Another spool id with its own count: a sequence that is not on disk would be given again after a restart,
        # and the daemon would take the second report for a duplicate of the first.
        self.lost_total += self._memory is not None
        self._memory_sequence += 1
        stamped = replace(report, spool_id=self._memory_spool_id, sequence=self._memory_sequence)
        self._memory = Waiting(self._memory_sequence, encode_report(stamped), is_on_disk=False)
        return stamped

    # --- out ---------------------------------------------------------------------------------------------------

    def live(self) -> Waiting | None:
        """The newest report since this process began, if it still waits."""
        with self._lock:
            if self._memory is not None:
                return self._memory
            if self._live is None or self._live.sequence in self._position.settled:
                return None
            return self._live

    def backlog(self, *, reports_max: int, bytes_max: int) -> list[Waiting]:
        """What else waits, oldest first: at most so many reports, and no more once so many bytes are reached."""
        with self._lock:
            found: list[Waiting] = []
            for segment in tuple(self._segments):
                left_bytes = bytes_max - sum(len(waiting.encoded) for waiting in found)
                if len(found) >= reports_max or left_bytes <= 0:
                    break
                found += self._read(segment, reports_max=reports_max - len(found), bytes_max=left_bytes)
            newest = self._live.sequence if self._live else None
            return [waiting for waiting in found if waiting.sequence != newest]

    def acknowledge(self, delivered: Iterable[Waiting]) -> None:
        """These have reached the daemon's database; they need not be kept."""
        with self._lock:
            for waiting in delivered:
                self._settle(waiting)
            self._tidy()

    def set_aside(self, waiting: Waiting, *, status: int, sentence: str) -> None:
        """Take a report that the daemon refuses for good out of the line; it is kept under `aside/`, and counted."""
        with self._lock:
            where = "" if waiting.is_on_disk else f"{self._memory_spool_id}-"
            try:
                self._aside.keep(f"{where}{waiting.sequence:020d}-{status}", zstd.compress(waiting.encoded), sentence)
            except OSError as error:
                log.warning("a refused report could not be kept", sequence=waiting.sequence, why=str(error))
            self._position.set_aside_total += 1
            self._settle(waiting)
            self._tidy()

    def close(self) -> None:
        """Let another process have the spool."""
        with self._lock:
            self._close_active()
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None

    # --- the disk ----------------------------------------------------------------------------------------------

    def _ensure_open(self) -> None:
        if self._lock_file is not None:
            return
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o750)
        # Opened for reading: on a disk that turned read-only, what waits there can still be sent.
        lock_file = os.open(self._directory / "lock", os.O_RDONLY | os.O_CREAT, 0o640)
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock_file)
            raise SettingsError(
                f"{self._directory}: another agent uses this spool. Stop it, or set another spool_directory."
            ) from error
        try:
            self._load()
        except OSError:
            os.close(lock_file)
            raise
        self._lock_file = lock_file

    def _load(self) -> None:
        segments = list_segments(self._directory)
        self._spool_id = self._load_id(is_new=not segments)
        is_known = self._position.load()
        settled = self._position.settled
        if not segments:
            # A new spool counts from 1 under a new id; only the counts of the old one go on.
            self._position.settled = Settled()
            self._segments, self._last = [], 0
            self._start_segment()
            return
        torn_bytes = measure(segments[-1])
        if torn_bytes:
            log.info("half a record was cut off the spool", file=segments[-1].path.name, torn_bytes=torn_bytes)
        self._segments = segments
        gone_below = segments[0].first - 1
        if is_known:
            self._position.give_up(1, gone_below)
        settled.add(1, gone_below)
        self._position.give_up(segments[-1].last + 1, settled.highest)
        # What is settled was sent once: its sequences are never given again, even if their records are gone.
        self._last = max(segments[-1].last, settled.highest)

    def _load_id(self, *, is_new: bool) -> str:
        path = self._directory / "spool-id"
        if not is_new and path.exists():
            return path.read_text(encoding="ascii").strip()
        made = uuid.uuid4().hex
        write_whole(path, made.encode())
        return made

    def _start_segment(self) -> None:
        self._close_active()
        first = self._last + 1
        path = segment_path(self._directory, first)
        path.touch()
        sync_directory(self._directory)
        self._segments.append(Segment(path=path, first=first, last=first - 1, size_bytes=0))

    def _writable(self) -> io.FileIO:
        if self._active is None:
            active = self._segments[-1]
            self._active = active.path.open("r+b", buffering=0)
            self._active.truncate(active.size_bytes)
            self._active.seek(active.size_bytes)
        return self._active

    def _close_active(self) -> None:
        if self._active is not None:
            self._active.close()
            self._active = None

    def _make_room(self, record_bytes: int) -> None:
        if self._segments[-1].size_bytes >= self._segment_bytes_max:
            self._start_segment()
        size_bytes = self.size_bytes
        while size_bytes + record_bytes > self._bytes_max and size_bytes > 0:
            if len(self._segments) == 1:
                self._start_segment()
            size_bytes -= self._segments[0].size_bytes
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self._segments[0]
        # The file goes first, or a full disk could not be helped; killed in between, we count its reports as damaged.
        oldest.path.unlink(missing_ok=True)
        del self._segments[0]
        dropped = self._position.drop(oldest.first, oldest.last)
        self._position.save()
        if dropped and not self._is_dropping:
            self._is_dropping = True
            log.warning("the spool is full; the oldest reports are dropped", dropped_total=self.dropped_total)

    # --- reading and settling ------------------------------------------------------------------------------------

    def _read(self, segment: Segment, *, reports_max: int, bytes_max: int) -> list[Waiting]:
        if not self._position.unsettled(segment.first, segment.last):
            return []
        try:
            with segment.path.open("rb") as file:
                return self._read_file(segment, file, reports_max=reports_max, bytes_max=bytes_max)
        except FileNotFoundError:
            self._position.give_up(segment.first, segment.last)
        except OSError as error:
            self._say_trouble(error)
        return []

    def _read_file(
        self, segment: Segment, file: io.BufferedReader, *, reports_max: int, bytes_max: int
    ) -> list[Waiting]:
        """Waiting records of one segment; what is damaged is counted and settled on the way."""
        found: list[Waiting] = []
        found_bytes = 0
        expected = segment.expected
        for record in scan(file, segment.cursor):
            if record.sequence > segment.last:
                break
            self._position.give_up(expected, record.sequence - 1)
            expected = record.sequence + 1
            waiting = self._unpack(record)
            if waiting is not None:
                found.append(waiting)
                found_bytes += len(waiting.encoded)
            elif not found:
                segment.cursor, segment.expected = record.end, expected
            if len(found) >= reports_max or found_bytes >= bytes_max:
                return found
        self._position.give_up(expected, segment.last)
        return found

    def _unpack(self, record: Found) -> Waiting | None:
        if record.sequence in self._position.settled:
            return None
        try:
            return Waiting(record.sequence, zstd.expand(record.payload, bytes_max=_ENCODED_BYTES_MAX))
        except ValueError:
            self._position.give_up(record.sequence, record.sequence)
            return None

    def _settle(self, waiting: Waiting) -> None:
        if waiting.is_on_disk:
            self._position.settled.add(waiting.sequence, waiting.sequence)
        elif self._memory is not None and self._memory.sequence == waiting.sequence:
            self._memory = None

    def _tidy(self) -> None:
        """Write down what is settled, and remove files that nobody waits for."""
        if not self._segments:
            return
        done = [at for at in self._segments[:-1] if not self._position.unsettled(at.first, at.last)]
        steps: list[Callable[[], None]] = [self._position.save, *(partial(self._remove, segment) for segment in done)]
        for step in steps:
            try:
                step()
            except OSError as error:
                self._say_trouble(error)
        self._is_dropping = self._is_dropping and self.waiting > 0

    def _remove(self, segment: Segment) -> None:
        segment.path.unlink(missing_ok=True)
        self._segments.remove(segment)

    def _say_trouble(self, error: OSError) -> None:
        said = (
            f"The spool {self._directory} cannot be used ({error.strerror or error}): "
            "only the last report is kept, in memory."
        )
        if said != self.trouble:
            self.trouble = said
            log.warning("the spool cannot be used; only the last report is kept, in memory", why=str(error))
