"""Verbs about what keeps people asleep, and what others say: maintenance, quiet, alerts."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from trimtab.cli.client import Client, daemon_options, say_json
from trimtab.cli.text import say, width
from trimtab.cli.text_alerts import alert_lines, quiet_lines, window_lines
from trimtab.cli.values import Named, Span
from trimtab.clock import iso
from trimtab.model.alerts import Maintenance, MaintenanceScope
from trimtab.model.board import Board
from trimtab.show.api_types_alerts import Alerts, MaintenanceWindows, QuietNow


class End(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """A span (`2h`, from the window's start on) or a moment with its zone (`2026-11-30T14:00Z`)."""

    name = "span or moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | datetime:
        """Seconds, or the moment."""
        text = str(value).strip()
        if "T" not in text.upper() or text[:1].isalpha():
            return Span().convert(text, param, ctx)
        return moment(text, self, param, ctx)


class Moment(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """A moment with its zone: `2026-11-30T14:00Z`."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment."""
        return moment(str(value).strip(), self, param, ctx)


def moment(text: str, kind: click.ParamType, param: click.Parameter | None, ctx: click.Context | None) -> datetime:  # type: ignore[type-arg]
    """The moment of a text. Ends with click's own error where it is none, or has no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        kind.fail(f"{text!r} is no moment; write 2026-11-30T14:00Z, or a span such as 2h.", param, ctx)
    if found.tzinfo is None:
        kind.fail(f"{text!r} has no zone; write {text}Z for UTC, or {text}+08:00.", param, ctx)
    return found.astimezone(UTC)


class WindowId(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """`M3`, or 3."""

    name = "id"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        text = str(value).strip().upper().removeprefix("M")
        if not text.isdecimal() or len(text) > 15:
            self.fail(f"{value!r} is no window; `trimtab maintenance list` shows them, such as M3.", param, ctx)
        return int(text)


@click.group()
def maintenance() -> None:
    """Times in which faults of a node, rack or queue page nobody. What is still wrong at their end pages.

    \b
    Examples: trimtab maintenance add gpu-07 --until 2h --reason "new cooler"
              trimtab maintenance add --rack r3 --until 2026-11-30T14:00Z --reason "switches" --silence
              trimtab maintenance extend M3 --until 1h
              trimtab maintenance end M3
    """


@maintenance.command()
@click.argument("node", required=False, type=Named("node"))
@click.option("--rack", metavar="RACK", help="A whole rack instead of a node.")
@click.option("--queue", type=Named("queue"), metavar="QUEUE", help="What is about a queue instead of a node.")
@click.option("--until", type=End(), required=True, help="When it ends: 2h, or 2026-11-30T14:00Z.")
@click.option("--from", "begins", type=Moment(), help="When it begins, if not now: 2026-11-30T12:00Z.")
@click.option("--reason", required=True, help="Why; shown to whoever wonders why it is quiet.")
@click.option("--silence", "is_silence", is_flag=True, help="Also make one silence in Alertmanager, ended with it.")
@daemon_options
def add(
    client: Client,
    *,
    is_json: bool,
    node: str | None,
    rack: str | None,
    queue: str | None,
    until: float | datetime,
    begins: datetime | None,
    reason: str,
    is_silence: bool,
) -> None:
    """Let faults of NODE (or of a rack or queue) page nobody until then. Evacuations go on.

    \b
    Examples: trimtab maintenance add gpu-07 --until 2h --reason "new cooler"
              trimtab maintenance add --queue research --until 2026-11-30T14:00Z --reason "move" --silence
    """
    named = [
        (scope, name)
        for scope, name in (
            (MaintenanceScope.NODE, node),
            (MaintenanceScope.RACK, rack),
            (MaintenanceScope.QUEUE, queue),
        )
        if name
    ]
    if len(named) != 1:
        raise click.UsageError("Name one thing: NODE, --rack RACK or --queue QUEUE.")
    body: dict[str, object] = {"scope": named[0][0], "name": named[0][1], "reason": reason, "silence": is_silence}
    raw = client.post_raw("/api/v1/maintenance", {**body, **_end(until), **({"starts_at": begins} if begins else {})})
    if is_json:
        say_json(raw)
        return
    made = client.decoded(raw, Maintenance)
    say([f"{made.title}: faults of {made.text} page nobody until {iso(made.until)}. Evacuations go on."])


@maintenance.command("list")
@daemon_options
def list_(client: Client, *, is_json: bool) -> None:
    """Windows that stand or are planned, and those over within a day.

    \b
    Example: trimtab maintenance list
    """
    raw = client.get_raw("/api/v1/maintenance")
    if is_json:
        say_json(raw)
        return
    at = client.get("/api/v1/board", Board).at
    say(window_lines(client.decoded(raw, MaintenanceWindows).windows, at, width()))


@maintenance.command()
@click.argument("window", type=WindowId(), metavar="ID")
@click.option("--until", type=End(), required=True, help="When it ends: 1h from now, or 2026-11-30T14:00Z.")
@daemon_options
def extend(client: Client, *, is_json: bool, window: int, until: float | datetime) -> None:
    """Let a window (M3) end at another time, earlier or later.

    \b
    Example: trimtab maintenance extend M3 --until 1h
    """
    raw = client.post_raw(f"/api/v1/maintenance/{window}/extend", _end(until))
    if is_json:
        say_json(raw)
        return
    made = client.decoded(raw, Maintenance)
    say([f"{made.title} of {made.text} now ends {iso(made.until)}."])


@maintenance.command()
@click.argument("window", type=WindowId(), metavar="ID")
@daemon_options
def end(client: Client, *, is_json: bool, window: int) -> None:
    """End a window (M3) now. What is still wrong pages from here on.

    \b
    Example: trimtab maintenance end M3
    """
    raw = client.post_raw(f"/api/v1/maintenance/{window}/end", {})
    if is_json:
        say_json(raw)
        return
    made = client.decoded(raw, Maintenance)
    say([f"{made.title} is over: what is still wrong with {made.text} pages now."])


@click.command()
@daemon_options
def quiet(client: Client, *, is_json: bool) -> None:
    """What keeps people asleep now: silences of Alertmanager and maintenance windows, each with what it hushes.

    \b
    Example: trimtab quiet
    """
    raw = client.get_raw("/api/v1/quiet")
    if is_json:
        say_json(raw)
        return
    say(quiet_lines(client.decoded(raw, QuietNow), width()))


@click.command()
@click.option("--state", type=click.Choice(["firing", "all"]), default="firing", show_default=True)
@click.option("--since", type=Span(), default="1d", show_default=True, help="With --state all: how far back.")
@daemon_options
def alerts(client: Client, *, is_json: bool, state: str, since: float) -> None:
    """Other people's alerts, as their webhook brought them: context beside findings, never a ground for a move.

    \b
    Examples: trimtab alerts
              trimtab alerts --state all --since 12h
    """
    raw = client.get_raw("/api/v1/alerts", state=state, since_seconds=since)
    if is_json:
        say_json(raw)
        return
    at = client.get("/api/v1/board", Board).at
    say(alert_lines(client.decoded(raw, Alerts).alerts, at, width()))


def _end(until: float | datetime) -> dict[str, object]:
    return {"until": until} if isinstance(until, datetime) else {"lasts_seconds": until}
