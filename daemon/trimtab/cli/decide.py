"""Verbs that decide: approve, reject, snooze, undo, pause, resume, allow; and link, which opens the page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from trimtab.cli.client import Client, DaemonSaysNo, daemon_options, say_json
from trimtab.cli.text import clock_text, say, standing
from trimtab.cli.values import Id, Named, Span
from trimtab.model.board import Board, CommandRow
from trimtab.model.command import CommandState
from trimtab.model.people import Role
from trimtab.settings import DaemonSettings, KubernetesSettings, load
from trimtab.show.api_types import Link, Paused
from trimtab.show.api_types_people import Me

_ID = click.argument("id", type=Id("recommendation"), metavar="ID")


@click.command()
@_ID
@click.option("--fingerprint", help="Approve only if the writes are still these (explain prints it).")
@click.option("--yes", "is_yes", is_flag=True, help="Do not ask on a terminal.")
@daemon_options
def approve(client: Client, *, is_json: bool, id: tuple[str, int], fingerprint: str | None, is_yes: bool) -> None:
    """Agree to a recommendation (R11): its exact writes, as they are printed, and no others.

    On a terminal the writes are shown and the question is asked. If the writes change before they are done, the
    recommendation comes back to be approved anew. Needs the role operator.

    \b
    Examples: trimtab approve R11
              trimtab approve R11 --yes --fingerprint 3fa9c1d204b5e6f7
    """
    number = _recommendation(id)
    row = client.get(f"/api/v1/recommendations/{number}", CommandRow)
    _may_approve(client, row)
    if not is_json:
        say([f"{row.name}  {row.command.recommendation.sentence}", *_writes(row)])
        if sys.stdin.isatty() and not is_yes:
            click.confirm("Approve these writes?", abort=True)
    body = {"fingerprint": fingerprint or row.fingerprint}
    _decide(client, number, "approve", body, "approved; the next beat begins", is_json=is_json)


@click.command()
@_ID
@click.option("--reason", required=True, help="Why not; kept with the rule's record.")
@daemon_options
def reject(client: Client, *, is_json: bool, id: tuple[str, int], reason: str) -> None:
    """Say no to a recommendation (R11), with a reason that is kept.

    \b
    Example: trimtab reject R11 --reason "not now: the job has a deadline"
    """
    _decide(client, _recommendation(id), "reject", {"reason": reason}, "rejected", is_json=is_json)


@click.command()
@_ID
@click.argument("span", type=Span(), metavar="SPAN")
@daemon_options
def snooze(client: Client, *, is_json: bool, id: tuple[str, int], span: float) -> None:
    """Leave a recommendation (R11) alone for SPAN: 90s, 30m, 2h, 1d; at most 7d.

    \b
    Example: trimtab snooze R11 2h
    """
    _decide(client, _recommendation(id), "snooze", {"seconds": span}, "snoozed", is_json=is_json)


@click.command()
@_ID
@click.option("--reason", required=True, help="Why; kept in the audit.")
@daemon_options
def undo(client: Client, *, is_json: bool, id: tuple[str, int], reason: str) -> None:
    """Give back what a command (R11) holds or changed; an approval not begun is taken back.

    \b
    Example: trimtab undo R11 --reason "the spare is needed elsewhere"
    """
    _decide(client, _recommendation(id), "undo", {"reason": reason}, "is being undone", is_json=is_json)


def _pause_inside(reason: str, settings_file: Path | None) -> str:
    """How to pause without the daemon: the line that its next beat finds in the cluster."""
    from trimtab.issue.decisions import pause_line  # noqa: PLC0415 - of no use where the daemon answers

    kubernetes = load(settings_file, DaemonSettings).kubernetes if settings_file else KubernetesSettings()
    if kubernetes is None:
        return f"{settings_file} has no [kubernetes]: there is no cluster in which this daemon could be paused."
    line = pause_line(kubernetes).replace("'why'", shlex.quote(reason))
    return f"To pause it inside the cluster, where it looks each beat:\n  {line}"


@click.command()
@click.option("--reason", required=True, help="Why; kept in the audit.")
@click.option("--settings", "settings_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="The daemon's settings: where its namespace and prefix are not the defaults.")  # fmt: skip
@daemon_options(when_out_of_reach=_pause_inside)
def pause(client: Client, *, is_json: bool, reason: str, settings_file: Path | None) -> None:  # noqa: ARG001
    """Start nothing new, cluster-wide. What has begun is finished or undone, so that no job is left stopped.

    Where the daemon cannot be asked, the kubectl line is printed that pauses it inside the cluster.

    \b
    Example: trimtab pause --reason "network maintenance until 16:00"
    """
    raw = client.post_raw("/api/v1/pause", {"reason": reason})
    say_json(raw) if is_json else say(["Paused: nothing new is started. `trimtab resume` goes on."])


@click.command()
@click.option("--rule", metavar="RULE", help="Only let this rule go on, which its breaker had stopped.")
@daemon_options
def resume(client: Client, *, is_json: bool, rule: str | None) -> None:
    """Allow new commands again; or with --rule, one rule that made most of the cordons and was stopped for it.

    A pause that stands in the cluster itself is not ended by this: the kubectl line that does is printed.

    \b
    Examples: trimtab resume
              trimtab resume --rule device_fault
    """
    raw = client.post_raw("/api/v1/resume", {"rule": rule} if rule else {})
    if is_json:
        say_json(raw)
        return
    answer = client.decoded(raw, Paused)
    said = [answer.sentence] if rule else ["Resumed.", *([answer.sentence] if answer.sentence else [])]
    say(said)


@click.command()
@click.argument("node", type=Named("node"))
@daemon_options
def allow(client: Client, *, is_json: bool, node: str) -> None:
    """Lift the veto on NODE: somebody had opened it against trimtab, and it may be cordoned again.

    \b
    Example: trimtab allow gpu-07
    """
    raw = client.post_raw("/api/v1/allow", {"node": node})
    say_json(raw) if is_json else say([f"{node} may be cordoned again where a finding asks for it."])


@click.command()
@click.option("--role", type=click.Choice(["viewer", "operator"]), help="What whoever opens it may do; yours at most.")
@daemon_options
def link(client: Client, *, is_json: bool, role: str | None) -> None:
    """Print an address of the page that works once, within ten minutes; whoever opens it acts in your name.

    \b
    Examples: trimtab link
              trimtab link --role viewer
    """
    raw = client.post_raw("/api/v1/links", {"role": role} if role else {})
    say_json(raw) if is_json else say([client.decoded(raw, Link).url])


def _recommendation(given: tuple[str, int]) -> int:
    letter, number = given
    if letter == "F":
        raise click.UsageError(f"F{number} is a finding; decisions are about recommendations (R11): trimtab plan.")
    return number


def _may_approve(client: Client, row: CommandRow) -> None:
    """Before anybody reads the writes: whether it can be approved, and by us. Raises DaemonSaysNo."""
    from trimtab.issue.policy import not_proposed  # noqa: PLC0415 - the daemon's half, for this verb alone

    if row.command.state is not CommandState.PROPOSED:
        raise DaemonSaysNo(f"Not done: {not_proposed(row.command)}")
    me = client.get("/api/v1/me", Me)
    if me.role is Role.VIEWER:
        raise DaemonSaysNo(f"Not done: this needs the role operator; {me.name} is a viewer.")


def _writes(row: CommandRow) -> list[str]:
    """What is written, in our words and in the scheduler's: an approval is for exactly these."""
    lines = [f"  - {step.text}" for step in row.steps]
    copied = [f"      {line}" for step in row.command.recommendation.steps for line in step.splitlines()]
    return [*lines, *(["    In the scheduler's own words:", *copied] if copied else [])]


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
