"""Verbs of on-call: incidents, ack, outbox, pager, drill."""

from __future__ import annotations

import re
import threading

import click
from click.shell_completion import CompletionItem

from trimtab.cli.client import Client, daemon_options, say_json
from trimtab.cli.exits import Exit
from trimtab.cli.text import say, width
from trimtab.cli.text_oncall import incident_lines, leg_lines, oncall_lines, outbox_lines
from trimtab.cli.values import Span, known_items
from trimtab.cli.watch import checked
from trimtab.clock import Clock, SystemClock
from trimtab.model.board import Board
from trimtab.model.oncall import Pager
from trimtab.show.api_types_oncall import Incidents, IncidentStory, OnCall, OutboxLetters, Resent

_TOLD = re.compile(r"([IiFf])(\d{1,15})")
_DRILL = re.compile(r"xid[0-9]{1,3}|silent")
_NOBODY = {
    Pager.OUTBOX: "no route has a target for it (trimtab pager lists targets; [oncall.targets.NAME] adds one).",
    Pager.ALERTMANAGER: "Alertmanager pages here, and a drill is not pushed there.",
    Pager.NONE: "[oncall] pager is none.",
}
POLL_SECONDS = 0.5
PATIENCE_SECONDS = 60.0
"""Targets may be slow; a drill is not lost with this, it ends by itself."""


class Told(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """`I17` for an incident, or `F31` for the finding that it is about."""

    name = "id"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Letter and number."""
        found = _TOLD.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no incident; write I17, or F31 for its finding.", param, ctx)
        return found[1].upper(), int(found[2])

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Open findings."""
        return known_items(ctx, "finding", incomplete.upper())


class DrillKind(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """`xid79` for an XID, or `silent`."""

    name = "kind"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As the daemon takes it."""
        kind = str(value).strip().lower()
        if _DRILL.fullmatch(kind) is None:
            said = f"{value!r} is no kind of drill; write xid79 (an XID has one to three digits), or silent."
            self.fail(said, param, ctx)
        return kind


class Place(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """`NODE` or `NODE/GPU`, the GPU by index or UUID."""

    name = "place"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str | None]:
        """Node and GPU."""
        node, _, gpu = str(value).partition("/")
        if not node:
            self.fail(f"{value!r} names no node; write gpu-07/3.", param, ctx)
        return node, gpu or None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Nodes."""
        return known_items(ctx, "node", incomplete)


@click.command()
@click.option("--state", type=click.Choice(["open", "closed", "all"]), default="open", show_default=True)
@click.option("--since", type=Span(), default="7d", show_default=True, help="For closed ones: how far back.")
@checked("an incident is open")
@daemon_options(is_watchable=True)
def incidents(client: Client, *, is_json: bool, state: str, since: float, is_check: bool) -> None:
    """What people were told is wrong, whether somebody has it, and what pages nobody and why.

    \b
    Examples: trimtab incidents
              trimtab incidents --state all --since 12h
    """
    raw = client.get_raw("/api/v1/incidents", state=state, since_seconds=since)
    found = client.decoded(raw, Incidents).incidents
    if is_json:
        say_json(raw)
    else:
        at = client.get("/api/v1/board", Board).at
        say(incident_lines(found, at, width()) or ["No incident is open." if state == "open" else "No incident."])
    if is_check and found:
        raise click.exceptions.Exit(Exit.NOT_WELL)


@click.command()
@click.argument("ids", type=Told(), metavar="ID...", nargs=-1, required=True)
@daemon_options
def ack(client: Client, *, is_json: bool, ids: tuple[tuple[str, int], ...]) -> None:
    """Say that you have an incident (I17, or its finding F31); every target is told, and it is not escalated.

    Several are taken one by one, in the order given; the first that cannot be taken ends it. With --json, one
    document each.

    \b
    Examples: trimtab ack F31
              trimtab ack F31 F32 I17
    """
    for letter, number in ids:
        kind = "incidents" if letter == "I" else "findings"
        raw = client.post_raw(f"/api/v1/{kind}/{number}/acknowledge", {})
        story = client.decoded(raw, IncidentStory)
        say_json(raw) if is_json else say([f"{story.incident.name}: {story.incident.acknowledged_by} has it."])


@click.command()
@click.option("--state", type=click.Choice(["dead", "waiting", "all"]), default="dead", show_default=True)
@click.option("--resend", "resent", type=int, metavar="NUMBER", help="Try this dead message again.")
@daemon_options
def outbox(client: Client, *, is_json: bool, state: str, resent: int | None) -> None:
    """Messages that no target took (dead), or that are on their way (--state waiting).

    \b
    Examples: trimtab outbox
              trimtab outbox --resend 412
    """
    if resent is not None:
        raw = client.post_raw(f"/api/v1/outbox/{resent}/resend", {})
        say_json(raw) if is_json else say([f"Message {client.decoded(raw, Resent).id} is tried again."])
        return
    raw = client.get_raw("/api/v1/outbox", state=state)
    say_json(raw) if is_json else say(outbox_lines(client.decoded(raw, OutboxLetters), width()))


@click.command()
@click.argument("who", type=click.Choice([one.value for one in Pager]), required=False)
@click.option("--reason", help="Why; kept in the audit.")
@daemon_options
def pager(client: Client, *, is_json: bool, who: str | None, reason: str | None) -> None:
    """Who pages, and how each target does; with WHO, let somebody else page for what opens from now on.

    What is open stays with whoever opened it, and is closed by them: nobody is paged twice, and nothing is forgotten.

    \b
    Examples: trimtab pager
              trimtab pager alertmanager --reason "moving to Alertmanager"
    """
    if who is None:
        raw = client.get_raw("/api/v1/oncall")
    elif not reason:
        raise click.UsageError("--reason is needed: it is kept in the audit.")
    else:
        raw = client.post_raw("/api/v1/pager", {"pager": who, "reason": reason})
    say_json(raw) if is_json else say(oncall_lines(client.decoded(raw, OnCall), width()))


@click.command()
@click.argument("kind", type=DrillKind(), metavar="KIND")
@click.argument("place", type=Place(), metavar="NODE[/GPU]")
@click.option("--for", "seconds", type=Span(), default="20s", show_default=True, help="How long it stands.")
@daemon_options
def drill(client: Client, *, is_json: bool, kind: str, place: tuple[str, str | None], seconds: float) -> None:
    """Send a labelled synthetic fault the whole way: finding, page, dry-run command, close. Nothing is touched.

    KIND is an XID (xid79, xid48 …) of a GPU, or `silent` of a node. Each leg is printed; afterwards nothing is left.

    \b
    Examples: trimtab drill xid79 gpu-07/3
              trimtab drill silent gpu-07 --for 1m
    """
    node, gpu = place
    order = {"kind": kind, "node": node, "seconds": seconds, **({"gpu": gpu} if gpu is not None else {})}
    story = client.decoded(client.post_raw("/api/v1/drills", order), IncidentStory)
    is_whole = _followed(client, story, seconds=seconds, is_silent=is_json, clock=SystemClock())
    if is_json:
        say_json(client.get_raw(f"/api/v1/incidents/{story.incident.number}"))
    if not is_whole:
        raise click.exceptions.Exit(Exit.NOT_WELL)


def _followed(client: Client, story: IncidentStory, *, seconds: float, is_silent: bool, clock: Clock) -> bool:
    """Print each leg as it comes to its end; whether the drill arrived everywhere and was closed."""
    incident = story.incident

    def tell(*lines: str) -> None:
        if not is_silent:
            say(lines)

    tell(f"{incident.name}  [drill] {incident.first_line}", *(f"  would: {line}" for line in incident.dry_run))
    if incident.paged_at is None:
        tell(f"  told nobody: {_NOBODY[incident.pager]}")
    shown: set[int] = set()
    until, pause = clock.monotonic_seconds() + seconds + PATIENCE_SECONDS, threading.Event()
    while clock.monotonic_seconds() < until:
        story = client.get(f"/api/v1/incidents/{incident.number}", IncidentStory)
        tell(*leg_lines(story.letters, shown))
        if not story.incident.is_open and not any(letter.state.is_waiting for letter in story.letters):
            failed = [letter for letter in story.letters if letter.state.value == "dead"]
            tell(
                "  closed; in two minutes nothing of it is left." if not failed else "  closed; see what is dead above."
            )
            return not failed
        pause.wait(POLL_SECONDS)
    tell("  not all of it has arrived yet: trimtab outbox --state waiting")
    return False
