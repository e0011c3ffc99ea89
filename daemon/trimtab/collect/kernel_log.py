"""Follows the kernel log of a node: /dev/kmsg, a file, or a journal export. Called by the agent once a tick."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from trimtab.clock import Clock
from trimtab.collect.kernel_events import KnownGpus, StormCap, events_of
from trimtab.collect.kernel_records import KernelLogParser, KernelRecord, parse_kernel_log, settle
from trimtab.errors import CollectError, NoData
from trimtab.model.reading import Event

__all__ = ["KernelLogFollower", "KernelLogParser", "KernelRecord", "events_of", "parse_kernel_log", "settle"]

KMSG = Path("/dev/kmsg")
LOOK_BACK_SECONDS = 7200.0
"""How far the first start on a node looks back, once."""
RECORDS_PER_CALL_MAX = 50_000
"""A storm is read in slices, so that one tick never takes a whole buffer of it."""
_FIRST_READ_BYTES_MAX = 16 * 1024 * 1024
_READ_BYTES_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTime:
    """What the host says about its boot: id, and seconds since it."""

    boot_id: str
    uptime_seconds: float


def read_host_time(proc: Path = Path("/proc")) -> HostTime:
    """Boot id and uptime of this host. Raises CollectError."""
    try:
        boot_id = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")
        return HostTime(boot_id=boot_id, uptime_seconds=float((proc / "uptime").read_text().split()[0]))
    except (OSError, ValueError, IndexError) as error:
        raise CollectError(f"{proc}: cannot read boot id and uptime: {error}. Is /proc mounted?") from error


class LineSource(Protocol):
    """Where lines come from. Gives new lines with the position after them, without waiting."""

    def lines(self, boot_id: str) -> Iterator[str]:
        """New lines since the last call."""
        ...

    def position(self) -> dict[str, object]:
        """Where reading stands, to be kept on disk."""
        ...

    def resume(self, position: dict[str, object], boot_id: str) -> bool:
        """Go on from a kept position; False when it does not fit what is there now."""
        ...


class KmsgDevice:
    """The open device: one read gives one record."""

    def __init__(self, path: Path = KMSG) -> None:
        """Open it. Raises CollectError."""
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise CollectError(
                f"{path}: {error.strerror}. The agent needs DeviceAllow=/dev/kmsg r and CAP_SYSLOG; in a container, "
                "whose device cgroup refuses it, privileged: true."
            ) from error

    def read(self) -> bytes:
        """The next record; empty when there is none now. Raises BrokenPipeError when records were overwritten."""
        try:
            return os.read(self._descriptor, 16384)
        except BlockingIOError:
            return b""
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CollectError(f"{self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Give it back."""
        os.close(self._descriptor)


class KmsgReads(Protocol):
    """What a source needs of the device."""

    def read(self) -> bytes:
        """The next record; empty when there is none now. Raises BrokenPipeError when records were overwritten."""
        ...


class KmsgSource:
    """Records of /dev/kmsg, each once; the sequence number is the position."""

    def __init__(self, device: KmsgReads) -> None:
        """Nothing is read yet."""
        self._device = device
        self._sequence = -1
        self.records_lost = 0

    def lines(self, boot_id: str) -> Iterator[str]:  # noqa: ARG002 - LineSource's shape
        """Lines not read before; what the kernel overwrote meanwhile is counted in `records_lost`."""
        for _ in range(RECORDS_PER_CALL_MAX):
            try:
                record = self._device.read().decode("utf-8", "replace").rstrip("\n")
            except BrokenPipeError:
                continue
            if not record:
                return
            sequence = _sequence_of(record)
            if sequence is None or sequence <= self._sequence:
                continue
            if self._sequence >= 0:
                self.records_lost += sequence - self._sequence - 1
            self._sequence = sequence
            yield from record.split("\n")

    def position(self) -> dict[str, object]:
        """The last sequence number read."""
        return {"sequence": self._sequence}

    def resume(self, position: dict[str, object], boot_id: str) -> bool:
        """Go on after the kept number; a new boot counts from 0 again."""
        sequence = position.get("sequence")
        if not isinstance(sequence, int) or position.get("boot_id") != boot_id:
            return False
        self._sequence = sequence
        return True


def _sequence_of(record: str) -> int | None:
    parts = record.split(",", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isascii() and parts[1].isdigit() else None


class FileSource:
    """Lines of a growing file; survives rotation (another inode, or a shorter file)."""

    def __init__(self, path: Path) -> None:
        """The file may come into being later."""
        self._path = path
        self._inode = 0
        self._offset = 0
        self._is_first = True

    def lines(self, boot_id: str) -> Iterator[str]:  # noqa: ARG002 - LineSource's shape
        """Whole lines written since the last call. Raises NoData while there is no file."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                self._place(status.st_ino, status.st_size)
                file.seek(self._offset)
                block = file.read(_READ_BYTES_MAX)
        except FileNotFoundError as error:
            raise NoData(f"{self._path}: no such file yet") from error
        except OSError as error:
            raise CollectError(f"{self._path}: {error.strerror}") from error
        whole = block[: block.rfind(b"\n") + 1] if len(block) < _READ_BYTES_MAX or b"\n" in block else block
        self._offset += len(whole)
        yield from whole.decode("utf-8", "replace").splitlines()

    def _place(self, inode: int, size: int) -> None:
        if inode != self._inode or size < self._offset:
            self._offset = max(size - _FIRST_READ_BYTES_MAX, 0) if self._is_first else 0
            self._inode = inode
        self._is_first = False

    def position(self) -> dict[str, object]:
        """Inode and byte offset."""
        return {"inode": self._inode, "offset": self._offset}

    def resume(self, position: dict[str, object], boot_id: str) -> bool:  # noqa: ARG002 - a file outlives a boot
        """Go on at the kept offset; rotation is noticed when reading."""
        inode, offset = position.get("inode"), position.get("offset")
        if not isinstance(inode, int) or not isinstance(offset, int):
            return False
        self._inode, self._offset, self._is_first = inode, offset, False
        return True


class KernelLogFollower:
    """Gives each event of the kernel log once, over restarts of the agent.

    What `events` gave is taken as kept by the caller when it calls `commit` (or `events` again): only then is the
    position written to disk. A crash in between repeats lines, which carry their cursor, and loses none.
    """

    def __init__(
        self,
        source: str,
        *,
        clock: Clock,
        state_directory: Path,
        host_time: Callable[[], HostTime] = read_host_time,
        kmsg: Path = KMSG,
    ) -> None:
        """`source` is auto, kmsg, none or a path. Raises CollectError when it names something unreadable."""
        self._clock = clock
        self._host_time = host_time
        self._state_file = state_directory / "kernel-log.json"
        self._source, self.reason = _open_source(source, kmsg)
        self._parser = KernelLogParser(now=clock.now())
        self._known = KnownGpus()
        self._cap = StormCap()
        self._seen_cursors: dict[str, None] = {}
        self._look_back_from: datetime | None = None
        self._pending: dict[str, object] | None = None
        if self._source is not None:
            self._resume(self._source)

    def events(self) -> list[Event]:
        """What happened since the last call. Raises NoData when there is no log to read, CollectError."""
        if self._source is None:
            raise NoData(self.reason)
        self.commit()
        host = self._host_time()
        now = self._clock.now()
        before = self._parser.lines_read
        for line in self._source.lines(host.boot_id):
            self._parser.feed(line)
        # Nothing new: what was held back waits for no further line.
        records = self._parser.take(is_end=self._parser.lines_read == before)
        found = events_of(
            (record for record in records if not self._is_repeated(record)),
            received_at=now,
            boot_at=now - timedelta(seconds=host.uptime_seconds),
            boot_id=host.boot_id,
            known=self._known,
        )
        self._pending = {"boot_id": host.boot_id, **self._source.position()}
        return self._cap.cap([event for event in found if self._is_wanted(event)])

    def commit(self) -> None:
        """Write down that everything given so far is kept. Raises CollectError when the disk refuses."""
        if self._pending is None:
            return
        state = {**self._pending, "uuid_by_pci": self._known.uuid_by_pci, "cursors": list(self._seen_cursors)[-100:]}
        temporary = self._state_file.with_suffix(".new")
        try:
            self._state_file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(state), encoding="utf-8")
            temporary.replace(self._state_file)
        except OSError as error:
            raise CollectError(f"{self._state_file}: cannot keep the log position: {error.strerror}") from error
        self._pending, self._look_back_from = None, None

    def _resume(self, source: LineSource) -> None:
        state = self._read_state()
        boot_id = self._host_time().boot_id
        if not source.resume(state, boot_id) and not state:
            self._look_back_from = self._clock.now() - timedelta(seconds=LOOK_BACK_SECONDS)
        pairs, cursors = state.get("uuid_by_pci"), state.get("cursors")
        if isinstance(pairs, dict) and state.get("boot_id") == boot_id:
            self._known.uuid_by_pci.update({str(pci): str(uuid) for pci, uuid in pairs.items()})
        if isinstance(cursors, list):
            self._seen_cursors.update(dict.fromkeys(map(str, cursors)))

    def _read_state(self) -> dict[str, object]:
        """The kept position; a damaged file counts as none, which repeats two hours rather than lose them."""
        try:
            state = json.loads(self._state_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _is_repeated(self, record: KernelRecord) -> bool:
        cursor = record.stamped.cursor
        if cursor is None:
            return False
        if cursor in self._seen_cursors:
            return True
        self._seen_cursors[cursor] = None
        if len(self._seen_cursors) > 10_000:
            self._seen_cursors = dict.fromkeys(list(self._seen_cursors)[-1000:])
        return False

    def _is_wanted(self, event: Event) -> bool:
        return self._look_back_from is None or event.at >= self._look_back_from


def _open_source(source: str, kmsg: Path) -> tuple[LineSource | None, str]:
    if source == "none":
        return None, "the kernel log is switched off (kernel_log = none)"
    if source == "kmsg":
        return KmsgSource(KmsgDevice(kmsg)), ""
    if source == "auto":
        try:
            return KmsgSource(KmsgDevice(kmsg)), ""
        except CollectError as error:
            return None, str(error)
    return FileSource(Path(source)), ""
