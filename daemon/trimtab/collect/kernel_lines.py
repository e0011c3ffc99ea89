"""One line of a kernel log in any of its shapes -> when, where and who said what. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """A message with what its log says around it. `at_us` counts from boot, `at` is a moment.

    `is_kernel` is True only where the log proves that the kernel spoke and not userspace.
    """

    text: str
    shape: str
    at_us: int | None = None
    at: datetime | None = None
    is_zone_known: bool = False
    host: str | None = None
    boot: str | None = None
    cursor: str | None = None
    sequence: int | None = None
    is_kernel: bool = False
    is_wrapped: bool = False
    """Another tool's line that quotes the kernel's."""


_KMSG = re.compile(r"(\d{1,10}),(\d+),(\d+),([^;]*);(.*)", re.DOTALL)
_SECONDS = re.compile(r"\[\s*(\d+)\.(\d+)\]\s?")
_CTIME = re.compile(r"\[\w{3} (\w{3} +\d+ \d\d:\d\d:\d\d \d{4})\]\s?")
_CALLER = re.compile(r"(?:\[\s*[TC]\d+\]|<\d{1,3}>|[a-z]+\d? *:[a-z]+ *:)\s?")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?\s+")
_SYSLOG = re.compile(r"(\w{3}) +(\d+) (\d\d:\d\d:\d\d)(?:\.\d+)? (\S+) ")
_TAG = re.compile(r"(?:(\S+) )?kernel:\s+")
_QUOTED_SECONDS = re.compile(r"\[\s*(\d+)\.(\d+)\] NVRM:")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def read_line(line: str, *, now: datetime) -> Stamped:
    """Take a line apart. `now` dates a syslog line, which names no year. Never raises."""
    if line.startswith("{"):
        entry = read_json_entry(line)
        if entry is not None:
            return entry
    found = _KMSG.match(line)
    if found:
        return _read_kmsg(found)
    return _read_prefixes(line, now)


def read_json_entry(line: str) -> Stamped | None:
    """A line of `journalctl -o json`; None when it is no journal entry."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return read_entry(entry) if isinstance(entry, dict) and "MESSAGE" in entry else None


def read_entry(entry: Mapping[str, object]) -> Stamped:
    """A journal entry as fields. Userspace can write to the kernel's buffer, so the facility must be 0 too."""
    at_us = _whole(entry.get("__REALTIME_TIMESTAMP"))
    boot, cursor, host = entry.get("_BOOT_ID"), entry.get("__CURSOR"), entry.get("_HOSTNAME")
    return Stamped(
        text=_message_text(entry.get("MESSAGE")),
        shape="journal",
        at=_moment_us(at_us),
        is_zone_known=True,
        boot=boot if isinstance(boot, str) else None,
        cursor=cursor if isinstance(cursor, str) else None,
        host=host if isinstance(host, str) else None,
        is_kernel=entry.get("_TRANSPORT") == "kernel" and str(entry.get("SYSLOG_FACILITY")) == "0",
    )


def _message_text(message: object) -> str:
    if isinstance(message, list):  # journald gives bytes as a list of numbers where they are not UTF-8
        numbers = [number for number in message if isinstance(number, int) and 0 <= number < 256]
        return bytes(numbers).decode("utf-8", "replace")
    return message if isinstance(message, str) else ""


def _whole(value: object) -> int | None:
    text = str(value) if isinstance(value, (str, int)) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _moment_us(at_us: int | None) -> datetime | None:
    if at_us is None or at_us > 253_402_300_799_000_000:
        return None
    return datetime.fromtimestamp(at_us / 1e6, UTC)


def _read_kmsg(found: re.Match[str]) -> Stamped:
    priority = int(found[1])
    return Stamped(
        text=found[5],
        shape="kmsg",
        at_us=int(found[3]),
        sequence=int(found[2]),
        is_kernel=priority >> 3 == 0,
    )


@dataclass(slots=True)
class _Prefix:
    """What the prefixes of one line have said so far."""

    at_us: int | None = None
    at: datetime | None = None
    is_zone_known: bool = False
    host: str | None = None


def _read_prefixes(line: str, now: datetime) -> Stamped:
    prefix = _Prefix()
    position = 0
    for _ in range(8):  # a line has few prefixes; the bound keeps a hostile one cheap
        end = _take_prefix(line, position, prefix, now)
        if end is None:
            break
        position = end
    text = line[position:]
    is_wrapped = not text.lstrip().startswith(("NVRM:", "nvidia-")) and ("NVRM:" in text or "SXid" in text)
    if is_wrapped:
        _read_quoted(line, prefix)
    return Stamped(
        text=text,
        shape="text",
        at_us=prefix.at_us,
        at=prefix.at,
        is_zone_known=prefix.is_zone_known,
        host=prefix.host,
        is_wrapped=is_wrapped,
    )


def _take_prefix(line: str, position: int, prefix: _Prefix, now: datetime) -> int | None:
    """Where the next prefix ends; None where there is none more."""
    found = _SECONDS.match(line, position)
    if found:
        prefix.at_us = _micros(found[1], found[2])
        return found.end()
    found = _CTIME.match(line, position)
    if found:
        prefix.at = _ctime(found[1])
        return found.end()
    end = _take_head(line, prefix, now) if position == 0 else None
    if end is not None:
        return end
    found = _TAG.match(line, position)
    if found:
        prefix.host = found[1] or prefix.host
        return found.end()
    found = _CALLER.match(line, position)
    return found.end() if found and found.end() > position else None


def _take_head(line: str, prefix: _Prefix, now: datetime) -> int | None:
    """The stamps that stand first in a line only."""
    found = _ISO.match(line)
    if found:
        prefix.at, prefix.is_zone_known = _iso(found), found[3] is not None
        return found.end()
    found = _SYSLOG.match(line)
    if found and found[1] in _MONTHS:
        prefix.at, prefix.host = _syslog(found, now), found[4]
        return found.end()
    return None


def _read_quoted(line: str, prefix: _Prefix) -> None:
    """Another tool's line with the kernel's inside: its first word is the host, its stamp is in the quote."""
    quoted = _QUOTED_SECONDS.search(line)
    if prefix.host is None and not line[:1].isspace():
        prefix.host = line.split(maxsplit=1)[0]
    if quoted:
        prefix.at_us = _micros(quoted[1], quoted[2])


def _micros(whole: str, fraction: str) -> int:
    return int(whole[:12]) * 1_000_000 + int(fraction[:6].ljust(6, "0"))


def _ctime(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _iso(found: re.Match[str]) -> datetime | None:
    zone = "+00:00" if found[3] in (None, "Z") else found[3]
    try:
        moment = datetime.fromisoformat(f"{found[1]}.{(found[2] or '0')[:6].ljust(6, '0')}{zone}")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _syslog(found: re.Match[str], now: datetime) -> datetime | None:
    """The latest year in which the stamp is not more than a day ahead; 29 February looks further back."""
    for year in range(now.year + 1, now.year - 8, -1):
        try:
            moment = datetime.strptime(f"{year} {found[1]} {found[2]} {found[3]} +0000", "%Y %b %d %H:%M:%S %z")
        except ValueError:
            continue
        if (moment - now).total_seconds() < 86400:
            return moment
    return None
