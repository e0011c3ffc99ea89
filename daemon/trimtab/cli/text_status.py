"""The start view in a terminal, and what stands beside the plan. Pure: values in, lines out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from trimtab.cli.text import LABEL_COLUMNS, Row, block, command_row, finding_row, job_row, refusal_lines
from trimtab.cli.text_alerts import hushed_lines
from trimtab.clock import age_text, count_text, iso
from trimtab.model.advice import FindingState
from trimtab.model.board import Board, JobRow, ReleaseRow, Strip

_REFUSALS_SHOWN = 3
_LEFT_SHOWN = 20


def status_lines(board: Board, *, age_seconds: float | None, columns: int) -> list[str]:
    """The start view in a terminal."""
    open_findings = [item for item in board.findings if item.state is FindingState.OPEN]
    live = [row for row in board.commands if row.command.is_live]
    waiting = [job for job in board.jobs if job.state == "waiting"]
    lines = strip_lines(board, age_seconds=age_seconds, columns=columns)
    if board.clock_speed is not None:
        lines += textwrap.wrap(simulated_clock(board), columns)
    lines += around_lines(board, columns)
    lines += hushed_lines(board.quiet, columns)
    lines += block("blind", [Row("", sentence) for sentence in board.blind], columns)
    lines += block("wrong", [finding_row(item, board.at) for item in open_findings], columns)
    lines += block("waiting", [job_row(job, board.at) for job in waiting], columns)
    lines += block("do", [command_row(row, board.at) for row in live], columns)
    lines += refusal_lines(board.refusals, columns, shown=_REFUSALS_SHOWN)
    if not open_findings and not board.blind:
        lines += textwrap.wrap(nothing_wrong(board), columns)
    return lines


def simulated_clock(board: Board) -> str:
    """That times are not those of the wall."""
    return f"Simulated clock: it is {iso(board.at)} there and runs {board.clock_speed:g} times as fast as yours."


def strip_lines(board: Board, *, age_seconds: float | None, columns: int) -> list[str]:
    """The numbers at the top, folded where they do not fit."""
    parts = [
        board.cluster,
        count_text(board.strip.gpus_total, "GPU"),
        *_counts(board.strip, size=_size_wanted(board.jobs)),
    ]
    if board.strip.goodput_ratio is not None:
        parts.append(f"goodput {board.strip.goodput_ratio:.0%} of held")
    parts.append(f"mode {board.mode}")
    if age_seconds is not None:
        parts.append(f"beat {age_text(age_seconds)} ago")
    return _folded(parts, columns)


def _folded(parts: Sequence[str], columns: int) -> list[str]:
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + 3 + len(part) > columns:
            lines.append(" " * LABEL_COLUMNS + part)
        else:
            lines[-1] += ("   " if lines[-1] else "") + part
    return lines


def _counts(strip: Strip, *, size: int) -> Iterable[str]:
    yield f"{strip.gpus_working} working"
    if strip.gpus_held_idle:
        yield f"{strip.gpus_held_idle} held but idle"
    yield from _free_counts(strip.gpus_free, strip.stranded.get(size, 0), size)
    for count, words in (
        (strip.gpus_spare, "spare"),
        (strip.gpus_out_of_service, "out of service"),
        (strip.gpus_unknown, "unknown"),
    ):
        if count:
            yield f"{count} {words}"


def _free_counts(free: int, stranded: int, size: int) -> Iterable[str]:
    job = f"{'an' if size == 8 else 'a'} {size}-GPU job"
    if stranded and stranded == free:
        yield f"{stranded} stranded for {job}"
    elif free:
        yield f"{free} free" + (f", {stranded} of them stranded for {job}" if stranded else "")


def _size_wanted(jobs: Iterable[JobRow]) -> int:
    """The pod size that waits, if it is one of those counted; else 8."""
    sizes = [job.gpus_per_pod for job in jobs if job.state == "waiting" and job.gpus_per_pod in (1, 2, 4, 8)]
    return sizes[0] if sizes else 8


def _report(gpus: int) -> str:
    return f"{count_text(gpus, 'GPU')} report" + ("s" if gpus == 1 else "")


def nothing_wrong(board: Board) -> str:
    """The empty state, which is a state."""
    strip = board.strip
    last = ""
    if board.last_finding_at is not None:
        last = f" Last finding {age_text((board.at - board.last_finding_at).total_seconds())} ago."
    return f"Nothing is wrong.{last} {strip.gpus_reporting} of {_report(strip.gpus_total)}."


def around_lines(board: Board, columns: int) -> list[str]:
    """What keeps the plan from being carried out, and what must be known beside it; nothing where there is nothing."""
    pauses = board.pauses or (("Nothing new is started.",) if board.is_paused else ())
    paused = [Row("", sentence) for sentence in pauses]
    if paused:
        paused.append(Row("", "`trimtab resume` goes on."))
    standby = [Row("", f"Nothing is written: {board.why_not_written}.")] if board.why_not_written else []
    vetoes = [Row("", f"{one.why} To lift it: trimtab allow {one.name}") for one in board.vetoes]
    lines = block("paused", paused, columns)
    lines += block("standby", standby, columns)
    lines += block("stopped", [Row("", one.why) for one in board.breakers], columns)
    lines += block("vetoed", vetoes, columns)
    foreign = [Row("", sentence) for sentence in board.foreign]
    if foreign:
        foreign.append(Row("", "To give one back with all of ours: trimtab release --all --mark MARK"))
    lines += block("foreign", foreign, columns)
    lines += block("not read", [Row("", sentence) for sentence in board.notes], columns)
    release = board.release
    return lines + (release_lines(release, before=release, columns=columns) if release is not None else [])


def release_lines(row: ReleaseRow, *, before: ReleaseRow | None = None, columns: int) -> list[str]:
    """How far a release of everything is; with `before`, what is new since that look."""
    known = before.given_back if before is not None else ()
    rows = [Row("", f"given back: {text}") for text in row.given_back if text not in known]
    if row.is_done:
        rows.append(Row("", "Everything of ours is given back. trimtab stays paused until `trimtab resume`."))
    else:
        rows.append(Row("", f"{len(row.given_back)} given back, {len(row.left)} left, asked for by {row.asked_by}."))
        rows += [Row("", f"left: {text}") for text in row.left[:_LEFT_SHOWN]]
        if len(row.left) > _LEFT_SHOWN:
            rows.append(Row("", f"and {len(row.left) - _LEFT_SHOWN} more: trimtab status --json"))
    return block("release", rows, columns)
