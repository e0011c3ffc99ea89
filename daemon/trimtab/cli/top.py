"""`trimtab top`: the worst nodes, jobs, findings and commands, live in a terminal; one print where there is none."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import FrameType

import click
import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from trimtab.cli.client import Client, daemon_options, say_json
from trimtab.cli.feed import Feed
from trimtab.cli.keys import Keyboard
from trimtab.cli.text import width
from trimtab.cli.top_rows import SORTS, Ranking, TopJob, TopLine, TopNode
from trimtab.cli.top_view import View, frame, pressed, to_do, wrong
from trimtab.model.board import Board
from trimtab.show.api_types import Health

TICK_SECONDS = 1.0
"""The beat's age is shown anew this often when nothing else happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What top shows, as JSON."""

    cluster: str
    at: datetime
    nodes: tuple[TopNode, ...]
    jobs: tuple[TopJob, ...]
    wrong: tuple[TopLine, ...]
    do: tuple[TopLine, ...]


@click.command()
@click.option("--sort", type=click.Choice(tuple(SORTS)), default="worst", show_default=True, help="Order of the nodes.")
@click.option("--once", is_flag=True, help="Print it once, also on a terminal.")
@daemon_options
def top(client: Client, *, is_json: bool, sort: str, once: bool) -> None:
    """Worst nodes, jobs, open findings and what to do, live, as the daemon's beat brings them.

    Keys: q quits, s sorts by the next order, r reverses, Tab chooses a section, j and k scroll in it, Space freezes,
    ? helps. Fits 80 columns; from 100 on it shows racks and queues too. In a pipe it prints once.

    \b
    Examples: trimtab top
              trimtab top --sort temperature
              trimtab top --once | head -20
              trimtab top --json | jq -r '.nodes[:5][].name'
    """
    if is_json or once or not sys.stdout.isatty():
        _once(client, sort, is_json=is_json)
        return
    _live(client, View(sort=sort))


def _once(client: Client, sort: str, *, is_json: bool) -> None:
    board = client.get("/api/v1/board", Board)
    ranking = Ranking(board)
    if is_json:
        ranked = Ranked(
            cluster=board.cluster,
            at=board.at,
            nodes=ranking.nodes(sort=sort, is_reversed=False),
            jobs=ranking.jobs,
            wrong=wrong(board),
            do=to_do(board),
        )
        say_json(msgspec.json.encode(ranked))
        return
    age_seconds = client.get("/healthz", Health).board_age_seconds or 0.0
    console = _Console(width=width(), highlight=False)
    for line in frame(ranking, View(sort=sort), columns=width(), rows=None, age_seconds=age_seconds):
        console.print(line, soft_wrap=True)


class _Console(Console):
    """rich's, which leaves it to the verb's caller what a reader that hangs up means."""

    def on_broken_pipe(self) -> None:
        """Raise what happened."""
        raise BrokenPipeError


def _live(client: Client, view: View) -> None:
    feed = Feed(client)
    feed.start()
    try:
        with _signals(feed) as signals:
            _Screen(feed, view).run(signals)
    except KeyboardInterrupt:
        pass
    finally:
        feed.close()
    if feed.refusal is not None:
        raise feed.refusal


@dataclass(slots=True)
class _Signals:
    """What the terminal or the system asked for since the last look."""

    is_stop_asked: bool = False


@contextmanager
def _signals(feed: Feed) -> Iterator[_Signals]:
    """Resizes wake the loop, Ctrl-Z leaves the terminal well, SIGTERM ends as Ctrl-C does."""
    asked = _Signals()

    def wake(number: int, _: FrameType | None) -> None:
        asked.is_stop_asked = asked.is_stop_asked or number == signal.SIGTSTP
        feed.wake()

    def end(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    wanted = {signal.SIGWINCH: wake, signal.SIGTSTP: wake, signal.SIGTERM: end, signal.SIGHUP: end}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Screen:
    """The loop: waits for a board, a key or a resize, and draws."""

    def __init__(self, feed: Feed, view: View) -> None:
        self._feed = feed
        self._view = view
        self._console = Console(highlight=False)
        self._keyboard = Keyboard(sys.stdin.fileno()) if sys.stdin.isatty() else None
        self._shown: Ranking | None = None

    def run(self, signals: _Signals) -> None:
        while not self._is_over():
            with self._drawing() as live:
                while not self._is_over() and not signals.is_stop_asked:
                    live.update(self._picture(), refresh=True)
                    self._wait()
            if signals.is_stop_asked:
                signals.is_stop_asked = False
                os.kill(os.getpid(), signal.SIGSTOP)  # the shell has the terminal until `fg`

    def _is_over(self) -> bool:
        return self._view.is_over or self._feed.refusal is not None

    @contextmanager
    def _drawing(self) -> Iterator[Live]:
        if self._keyboard is not None:
            self._keyboard.open()
        try:
            with Live(Text(""), console=self._console, screen=True, auto_refresh=False) as live:
                yield live
        finally:
            if self._keyboard is not None:
                self._keyboard.close()

    def _wait(self) -> None:
        sources: list[Feed | Keyboard] = [self._feed, *([self._keyboard] if self._keyboard is not None else [])]
        ready, _, _ = select.select(sources, [], [], TICK_SECONDS)
        if self._feed in ready:
            self._feed.seen()
        if self._keyboard is None or self._keyboard not in ready:
            return
        keys = self._keyboard.read()
        if keys is None:
            raise KeyboardInterrupt
        for key in keys:
            self._view = pressed(self._view, key)

    def _picture(self) -> Group:
        board, age_seconds, trouble = self._feed.latest()
        if board is None:
            return Group(Text(trouble or "Asking the daemon for its first board."))
        if self._shown is None or (self._shown.board is not board and not self._view.is_frozen):
            self._shown = Ranking(board)
        size = self._console.size
        lines = frame(
            self._shown,
            self._view,
            columns=size.width,
            rows=size.height,
            age_seconds=age_seconds,
            trouble=trouble,
        )
        return Group(*lines[: size.height])
