"""`trimtab release --all`: asks for everything to be given back, and tells how far that is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from threading import Event

import click
import msgspec

from trimtab.cli.client import Client, daemon_options, say_json
from trimtab.cli.exits import Exit
from trimtab.cli.text import say, width
from trimtab.cli.text_status import release_lines
from trimtab.cli.values import Span
from trimtab.clock import SystemClock
from trimtab.model.board import NO_SCHEDULER, Board, ReleaseRow
from trimtab.show.api_types import ReleaseAsked

UNREACHABLE = (
    "No scheduler is set up, so this daemon can give nothing back, and nothing was asked for. If it never had one, "
    "there is nothing to give back; `sudo trimtab db kept` says whether something is kept since an earlier time."
)
LOOK_SECONDS = 1.0
FIRST_SECONDS_MAX = 30.0
"""Without --wait: so long for the first beat to say what there is to give back."""


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Everything of this daemon; there is no smaller release.")
@click.option("--mark", "marks", multiple=True, metavar="MARK",
              help="Also what bears this mark of another daemon (trimtab:3fa9c1d2:R11); again for more.")  # fmt: skip
@click.option("--reason", default="", help="Why; kept in the audit.")
@click.option("--wait", "is_waiting", is_flag=True, help="Until nothing is left; exit code 1 if something still is.")
@click.option("--limit", type=Span(), default="15m", show_default=True, help="With --wait: how long at most.")
@daemon_options
def release(
    client: Client, *, is_json: bool, is_all: bool, marks: tuple[str, ...], reason: str, is_waiting: bool, limit: float
) -> None:
    """Give back everything that trimtab holds in the cluster, whatever state it is in, and stay paused.

    Cordons, taints, labels, annotations, holds of queues, seats that are kept, jobs that it stopped: all that bears its
    marks, and nothing of anybody else. What a person has changed since stays as it is. To undo one command alone:
    trimtab undo R11. To go on afterwards: trimtab resume. Needs the role admin.

    \b
    Examples: trimtab release --all --wait --reason "maintenance of the scheduler"
              trimtab release --all --mark trimtab:3fa9c1d2:R11
    """
    if not is_all:
        raise click.UsageError("Say --all: a release is of everything. One command alone: trimtab undo R11.")
    _refuse_without_scheduler(client)
    raw = client.post_raw("/api/v1/release", {"reason": reason, "marks": list(marks)})
    asked_at = client.decoded(raw, ReleaseAsked).asked_at
    last: ReleaseRow | None = None
    for row in _looks(client, asked_at, seconds=limit if is_waiting else FIRST_SECONDS_MAX):
        if not is_json:
            say(release_lines(row, before=last, columns=width()))
        last = row
        if row.is_done or not is_waiting:
            break
    if is_json:
        say_json(msgspec.json.encode(last) if last is not None else raw)
    elif last is None:
        say(["It is asked for and not begun yet: trimtab status shows how far it is."])
    if is_waiting and (last is None or not last.is_done):
        raise click.exceptions.Exit(Exit.NOT_WELL)


def _refuse_without_scheduler(client: Client) -> None:
    """Such a daemon would never get to a release: nobody is to wait for it."""
    if any(one.startswith(NO_SCHEDULER) for one in client.get("/api/v1/board", Board).blind):
        click.echo(f"trimtab: {UNREACHABLE}", err=True)
        raise click.exceptions.Exit(Exit.NOT_WELL)


def _looks(client: Client, asked_at: datetime, *, seconds: float) -> Iterator[ReleaseRow]:
    """How far this request is, each time that it is another picture, until it is done or the time is over."""
    clock, pause, seen = SystemClock(), Event(), None
    ends_at_seconds = clock.monotonic_seconds() + seconds
    while True:
        row = client.get("/api/v1/board", Board).release
        if row is not None and row.asked_at >= asked_at and (row.given_back, row.left, row.is_done) != seen:
            seen = row.given_back, row.left, row.is_done
            yield row
            if row.is_done:
                return
        if clock.monotonic_seconds() >= ends_at_seconds:
            return
        pause.wait(LOOK_SECONDS)
