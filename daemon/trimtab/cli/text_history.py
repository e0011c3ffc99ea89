"""What `history` prints: what happened in order, or a GPU's values as small charts. Pure: values in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from trimtab.cli.text import paragraph
from trimtab.clock import iso
from trimtab.model.advice import OpenFinding
from trimtab.model.board import GpuHistory
from trimtab.model.command import AuditLine
from trimtab.model.past import SAME_STEPS

_BARS = "▁▂▃▄▅▆▇█"
_NO_VALUE = " "
_NAME_COLUMNS, _NUMBER_COLUMNS = 28, 40


def history_lines(
    audit: Sequence[AuditLine], findings: Sequence[OpenFinding], *, since: float, columns: int, has_all: bool = False
) -> list[str]:
    """Findings that opened and closed, and what was done, oldest first; `since` is Unix seconds.

    Without `has_all`, proposals that were written anew with the same steps are left out, and how many is said.
    """
    told = [line for line in audit if has_all or line.why != SAME_STEPS]
    entries = [*_audit_entries(told), *_finding_entries(findings)]
    lines: list[str] = []
    for at, text in sorted(entry for entry in entries if entry[0] >= since):
        del at
        wrapped = paragraph(text, columns)
        lines += [line if number == 0 else "  " + line for number, line in enumerate(wrapped)]
    left_out = sum(line.at.timestamp() >= since for line in audit) - sum(line.at.timestamp() >= since for line in told)
    if left_out:
        lines.append(f"Left out: {left_out} times the same steps at another moment or price (--all shows them).")
    return lines


def _audit_entries(audit: Sequence[AuditLine]) -> Iterable[tuple[float, str]]:
    for line in audit:
        why = f": {line.why}" if line.why else ""
        yield line.at.timestamp(), f"{iso(line.at)}  {line.what} by {line.who}{why}"


def _finding_entries(findings: Sequence[OpenFinding]) -> Iterable[tuple[float, str]]:
    for item in findings:
        yield item.opened_at.timestamp(), f"{iso(item.opened_at)}  {item.name} opened: {item.finding.sentence}"
        if item.closed_at is not None:
            reason = item.close_reason or "it no longer holds"
            yield item.closed_at.timestamp(), f"{iso(item.closed_at)}  {item.name} closed: {reason}"


def series_lines(history: GpuHistory, *, columns: int) -> list[str]:
    """One chart a metric, with least, mean, most and last value."""
    lines = [f"{history.node} {history.gpu}"]
    room = max(columns - _NAME_COLUMNS - _NUMBER_COLUMNS, 10)
    for metric, points in history.series.items():
        values = [value for _, value in points if value is not None]
        if not values:
            lines.append(f"{metric:<{_NAME_COLUMNS}}no values in this time")
            continue
        numbers = f"least {_short(min(values))} mean {_short(fmean(values))} most {_short(max(values))}"
        lines.append(f"{metric:<{_NAME_COLUMNS}}{spark([value for _, value in points], room)}  {numbers}")
    lines += [f"{item.name}  {item.finding.sentence}" for item in history.findings]
    return lines


def spark(values: Sequence[float | None], room: int) -> str:
    """A bar a stretch; a stretch without any value is blank, never a low bar."""
    size = max(len(values) / room, 1.0)
    count = min(len(values), room)
    means = [_mean(values[int(number * size) : max(int((number + 1) * size), int(number * size) + 1)])
             for number in range(count)]  # fmt: skip
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return "".join(_NO_VALUE if mean is None else _bar(mean, low, high) for mean in means)


def _bar(value: float, low: float, high: float) -> str:
    if high <= low:
        return _BARS[0]
    return _BARS[min(int((value - low) / (high - low) * len(_BARS)), len(_BARS) - 1)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _short(value: float) -> str:
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"
