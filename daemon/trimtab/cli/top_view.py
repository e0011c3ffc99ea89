"""How `trimtab top` looks and what its keys do. Pure: a board and a view in, lines out; a key in, a view out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from rich.cells import cell_len
from rich.text import Text

from trimtab.cli.text import command_row, standing
from trimtab.cli.text_status import strip_lines
from trimtab.cli.top_rows import LEGEND, SORTS, Ranking, TopJob, TopLine, TopNode
from trimtab.clock import age_text
from trimtab.model.advice import FindingState, Severity
from trimtab.model.board import Board

R = TypeVar("R", TopJob, TopLine, TopNode)

SECTIONS = ("nodes", "jobs", "wrong", "do")
KEYS = "q quit  s sort  r reverse  Tab section  j k scroll  Space freeze  ? help"
_WIDE = 100
"""From here on there is room for racks, queues and what stands beside a sentence."""
_COLOURS: Mapping[str, str] = {"wrong": "red", "do": "green", "nodes": "cyan", "jobs": "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the person chose: order, section, place in it; and whether the picture stands still."""

    sort: str = "worst"
    is_reversed: bool = False
    section: str = "nodes"
    offset: int = 0
    is_frozen: bool = False
    is_help: bool = False
    is_over: bool = False


def pressed(view: View, key: str) -> View:
    """The view after a key; keys that mean nothing change nothing."""
    if view.is_help and key not in ("q", "?"):
        return replace(view, is_help=False)
    act = _ACTS.get(key)
    return act(view) if act is not None else view


def _next(one: str, of: Sequence[str], step: int = 1) -> str:
    return of[(of.index(one) + step) % len(of)]


def _scrolled(view: View, rows: int) -> View:
    return replace(view, offset=max(view.offset + rows, 0))


_ACTS: Mapping[str, Callable[[View], View]] = {
    "q": lambda view: replace(view, is_over=True),
    "s": lambda view: replace(view, sort=_next(view.sort, tuple(SORTS)), offset=0),
    "r": lambda view: replace(view, is_reversed=not view.is_reversed, offset=0),
    "\t": lambda view: replace(view, section=_next(view.section, SECTIONS), offset=0),
    "backtab": lambda view: replace(view, section=_next(view.section, SECTIONS, -1), offset=0),
    " ": lambda view: replace(view, is_frozen=not view.is_frozen),
    "?": lambda view: replace(view, is_help=not view.is_help),
    "j": lambda view: _scrolled(view, 1),
    "down": lambda view: _scrolled(view, 1),
    "k": lambda view: _scrolled(view, -1),
    "up": lambda view: _scrolled(view, -1),
    "pagedown": lambda view: _scrolled(view, 10),
    "pageup": lambda view: _scrolled(view, -10),
    "home": lambda view: replace(view, offset=0),
}


@dataclass(frozen=True, slots=True)
class _Body:
    """A section's lines, made only where they are shown; never none: an empty list says so."""

    lines: int
    part: Callable[[int, int], list[Text]]


def frame(
    ranking: Ranking, view: View, *, columns: int, rows: int | None, age_seconds: float, trouble: str = ""
) -> list[Text]:
    """The whole picture; with `rows`, cut so that it fits, the section that was chosen getting the most."""
    board = ranking.board
    head = [Text(line, style="bold") for line in strip_lines(board, age_seconds=age_seconds, columns=columns)]
    head += [Text(line, style="yellow") for line in _notices(board, view, trouble)]
    foot = [Text(KEYS if rows is not None else LEGEND, style="dim")]
    if view.is_help and rows is not None:
        return _cut([*head, *_help(), *foot], columns)[:rows]
    if rows is not None:
        head = head[: max(rows // 3, 1)]  # in a low terminal the lists come first
    bodies = {
        "nodes": _nodes(ranking.nodes(sort=view.sort, is_reversed=view.is_reversed), columns),
        "jobs": _jobs(ranking.jobs, columns),
        "wrong": _lines(wrong(board), columns, nothing="Nothing is wrong."),
        "do": _lines(to_do(board), columns, nothing="There is nothing to do."),
    }
    order = f"{view.sort}{' reversed' if view.is_reversed else ''}"
    room = None if rows is None else rows - len(head) - len(foot)
    return _cut([*head, *_stacked(bodies, view, order, room), *foot], columns)


def _notices(board: Board, view: View, trouble: str) -> list[str]:
    said = [f"{trouble} What is shown is old."] if trouble else []
    if view.is_frozen:
        said.append(f"Frozen at {board.at:%H:%M:%S} UTC; Space goes on.")
    if board.is_paused:
        said.append("Paused: nothing new is started.")
    return [*said, *board.blind]


def _stacked(bodies: Mapping[str, _Body], view: View, order: str, room: int | None) -> list[Text]:
    shares = _shares({name: body.lines for name, body in bodies.items()}, view.section, room)
    lines: list[Text] = []
    for name, body in bodies.items():
        share = shares[name]
        if share == 0:
            continue
        shown = share - 1
        offset = min(view.offset, max(body.lines - shown, 0)) if name == view.section else 0
        lines.append(_title(name, order, is_chosen=name == view.section, shown=shown, offset=offset, of=body.lines))
        lines += body.part(offset, offset + shown)
    return lines


def _title(name: str, order: str, *, is_chosen: bool, shown: int, offset: int, of: int) -> Text:
    said = f" by {order}: GPUs, mean activity, hottest, power" if name == "nodes" else ""
    more = f"  {offset + 1}-{min(offset + shown, of)} of {of}" if of > shown > 0 else ""
    mark = "▸ " if is_chosen else "  "
    return Text(f"{mark}{name}{said}{more}", style=f"bold {_COLOURS[name]}")


def _shares(wanted: Mapping[str, int], chosen: str, room: int | None) -> dict[str, int]:
    """Lines for each section with its title: one in turn each, the chosen one two, until all have what they want."""
    needs = {name: count + 1 for name, count in wanted.items()}
    if room is None:
        return needs
    shares = dict.fromkeys(needs, 0)
    if room < 3 * len(needs):  # too low for all of them: the chosen one alone
        return {**shares, chosen: max(room, 0)}
    turns = [chosen, *needs]
    left = room
    while left > 0 and any(shares[name] < needs[name] for name in needs):
        for name in turns:
            if left > 0 and shares[name] < needs[name]:
                shares[name] += 1
                left -= 1
    return shares


def _body(rows: Sequence[R], line: Callable[[R], Text], *, nothing: str) -> _Body:
    if not rows:
        return _Body(1, lambda begin, end: [Text(f"  {nothing}")][begin:end])
    return _Body(len(rows), lambda begin, end: [line(row) for row in rows[begin:end]])


def _nodes(rows: Sequence[TopNode], columns: int) -> _Body:
    name = _width((row.name for row in rows), 8, 24 if columns >= _WIDE else 16)
    cells = _width((row.cells for row in rows), 4, 16)
    racks = _width((row.rack for row in rows), 0, 10) if columns >= _WIDE else 0

    def line(row: TopNode) -> Text:
        rack = f"{_fit(row.rack, racks)} " if racks else ""
        numbers = f"{_percent(row.activity_ratio)} {_of(row.temperature_celsius, '°C')} {_kilowatts(row.power_watts)}"
        style = "red" if row.badness >= _RED else "yellow" if row.badness >= _YELLOW else ""
        said = f"  {_fit(row.name, name)} {rack}{_fit(row.cells, cells)} {numbers}  {row.says}"
        return Text(said, style=style)

    return _body(rows, line, nothing="No node is known.")


_RED, _YELLOW = 200, 100


def _jobs(rows: Sequence[TopJob], columns: int) -> _Body:
    name = _width((row.name for row in rows), 8, 28 if columns >= _WIDE else 18)
    queues = _width((row.queue for row in rows), 0, 14) if columns >= _WIDE else 0

    def line(row: TopJob) -> Text:
        queue = f"{_fit(row.queue, queues)} " if queues else ""
        place = f"{row.gpus:>5} GPUs"
        if columns >= _WIDE:
            place += f" {row.nodes:>4} {'node ' if row.nodes == 1 else 'nodes'}"
        said = f"  {_fit(row.name, name)} {queue}{_fit(row.state, 9)}{place} {_percent(row.activity_ratio)}  {row.says}"
        return Text(said, style="yellow" if row.badness else "")

    return _body(rows, line, nothing="No job is known.")


def _lines(rows: Sequence[TopLine], columns: int, *, nothing: str) -> _Body:
    head = _width((row.name for row in rows), 4, 8)
    stands = _width((row.stands for row in rows), 0, 22 if columns >= _WIDE else 18)

    def line(row: TopLine) -> Text:
        more = f"  {row.more}" if row.more and columns >= _WIDE else ""
        return Text(f"  {_fit(row.name, head)} {_fit(row.stands, stands)}  {row.sentence}{more}")

    return _body(rows, line, nothing=nothing)


def wrong(board: Board) -> tuple[TopLine, ...]:
    """Open findings, in the board's order: worst first."""
    marks = {Severity.CRITICAL: "critical", Severity.WARNING: "warning", Severity.INFO: "notice"}
    return tuple(
        TopLine(
            name=item.name,
            stands=f"{marks[item.finding.severity]} {age_text((board.at - item.opened_at).total_seconds())}",
            sentence=item.finding.sentence,
            more=item.finding.impact,
        )
        for item in board.findings
        if item.state is FindingState.OPEN
    )


def to_do(board: Board) -> tuple[TopLine, ...]:
    """Live recommendations and commands."""
    return tuple(
        TopLine(
            name=row.name,
            stands=standing(row, board.at),
            sentence=row.command.recommendation.sentence,
            more=command_row(row, board.at).tail.split("  " + standing(row, board.at))[0],
        )
        for row in board.commands
        if row.command.is_live
    )


def _help() -> list[Text]:
    said = (
        "",
        "  q          quit (Ctrl-C does too)",
        f"  s          sort nodes by the next of: {', '.join(SORTS)}",
        "  r          the other way round",
        "  Tab        choose the next section: it gets the room, and scrolls",
        "  j k ↓ ↑    scroll; PageDown, PageUp by ten; Home to the top",
        "  Space      let the picture stand still, and go on",
        "  ?          this help",
        "",
        f"  {LEGEND}",
        "",
        "  Go on with: trimtab explain F31, trimtab explain R11, trimtab approve R11",
    )
    return [Text(line) for line in said]


def _cut(lines: Sequence[Text], columns: int) -> list[Text]:
    for line in lines:
        line.no_wrap = True
        line.truncate(columns, overflow="ellipsis")
    return list(lines)


def _width(texts: Iterable[str], least: int, most: int) -> int:
    return max(min(max((cell_len(text) for text in texts), default=0), most), least)


def _fit(text: str, columns: int) -> str:
    """The text in exactly so many columns; what is cut says so."""
    made = Text(text)
    made.truncate(columns, overflow="ellipsis", pad=True)
    return made.plain


def _percent(ratio: float | None) -> str:
    return "   –" if ratio is None else f"{ratio * 100:3.0f}%"


def _of(value: float | None, unit: str) -> str:
    return f"{'–':>3}{' ' * len(unit)}" if value is None else f"{value:3.0f}{unit}"


def _kilowatts(watts: float | None) -> str:
    return f"{'–':>6}" if watts is None else f"{watts / 1000:4.1f}kW"
