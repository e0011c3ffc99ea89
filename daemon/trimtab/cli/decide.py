"""Verbs that decide: approve, reject, snooze, undo, pause, resume; and link, which opens the page."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from trimtab.cli.client import Client, DaemonSaysNo, daemon_options, say_json
from trimtab.cli.text import clock_text, say, standing
from trimtab.cli.watch import Id, Span
from trimtab.model.board import Board, CommandRow
from trimtab.show.api_types import Link

_ID = click.argument("id", type=Id(), metavar="ID")


@click.command()
@_ID
@click.option("--fingerprint", help="Approve only if the writes are still these (explain prints it).")
@click.option("--yes", "is_yes", is_flag=True, help="Do not ask on a terminal.")
@daemon_options
def approve(client: Client, *, is_json: bool, id: tuple[str, int], fingerprint: str | None, is_yes: bool) -> None:
    """Agree to a recommendation (R11): its exact writes, as they are printed, and no others.

    On a terminal the writes are shown and the question is asked. If the writes change before they are done, the
    recommendation comes back to be approved anew.
    """
    number = _recommendation(id)
    row = client.get(f"/api/v1/recommendations/{number}", CommandRow)
    if not is_json:
        say([f"{row.name}  {row.command.recommendation.sentence}", *(f"  - {step.text}" for step in row.steps)])
        if sys.stdin.isatty() and not is_yes:
            click.confirm("Approve these writes?", abort=True)
    body = {"fingerprint": fingerprint or row.fingerprint}
    _decide(client, number, "approve", body, "approved; the next beat begins", is_json=is_json)


@click.command()
@_ID
@click.option("--reason", required=True, help="Why not; kept with the rule's record.")
@daemon_options
def reject(client: Client, *, is_json: bool, id: tuple[str, int], reason: str) -> None:
    """Say no to a recommendation (R11), with a reason that is kept."""
    _decide(client, _recommendation(id), "reject", {"reason": reason}, "rejected", is_json=is_json)


@click.command()
@_ID
@click.argument("span", type=Span(), metavar="SPAN")
@daemon_options
def snooze(client: Client, *, is_json: bool, id: tuple[str, int], span: float) -> None:
    """Leave a recommendation (R11) alone for SPAN: 90s, 30m, 2h, 1d; at most 7d."""
    _decide(client, _recommendation(id), "snooze", {"seconds": span}, "snoozed", is_json=is_json)


@click.command()
@_ID
@click.option("--reason", required=True, help="Why; kept in the audit.")
@daemon_options
def undo(client: Client, *, is_json: bool, id: tuple[str, int], reason: str) -> None:
    """Give back what a command (R11) holds or changed; an approval not begun is taken back."""
    _decide(client, _recommendation(id), "undo", {"reason": reason}, "is being undone", is_json=is_json)


@click.command()
@click.option("--reason", required=True, help="Why; kept in the audit.")
@daemon_options
def pause(client: Client, *, is_json: bool, reason: str) -> None:
    """Start nothing new, cluster-wide. What has begun is finished or undone, so that no job is left stopped."""
    raw = client.post_raw("/api/v1/pause", {"reason": reason})
    say_json(raw) if is_json else say(["Paused: nothing new is started. `trimtab resume` goes on."])


@click.command()
@daemon_options
def resume(client: Client, *, is_json: bool) -> None:
    """Allow new commands again."""
    raw = client.post_raw("/api/v1/resume", {})
    say_json(raw) if is_json else say(["Resumed."])


@click.command()
@daemon_options
def link(client: Client, *, is_json: bool) -> None:
    """Print an address of the page that works once, within ten minutes."""
    raw = client.post_raw("/api/v1/links", {})
    say_json(raw) if is_json else say([client.decoded(raw, Link).url])


def _recommendation(given: tuple[str, int]) -> int:
    letter, number = given
    if letter == "F":
        raise click.UsageError(f"F{number} is a finding; decisions are about recommendations (R11): trimtab plan.")
    return number


def _decide(client: Client, number: int, verb: str, body: Mapping[str, object], said: str, *, is_json: bool) -> None:
    try:
        raw = client.post_raw(f"/api/v1/recommendations/{number}/{verb}", body)
    except DaemonSaysNo as no:
        raise DaemonSaysNo(f"Not done: {no}") from no
    if is_json:
        say_json(raw)
        return
    row = client.decoded(raw, CommandRow)
    at = client.get("/api/v1/board", Board).at
    say([f"{row.name} {said} ({standing(row, at)}, {clock_text(at)})."])
