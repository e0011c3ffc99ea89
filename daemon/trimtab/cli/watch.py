"""Verbs that look: status, findings, plan, explain, history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from trimtab.cli.client import Client, DaemonSaysNo, daemon_options, say_json
from trimtab.cli.exits import Exit
from trimtab.cli.text import block, command_row, finding_row, refusal_lines, say, width
from trimtab.cli.text_explain import finding_lines, recommendation_lines
from trimtab.cli.text_history import history_lines, series_lines
from trimtab.cli.text_status import status_lines
from trimtab.cli.values import Id, Named, Span
from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.board import Board, CommandRow, GpuHistory
from trimtab.show.api_types import Audit, Findings, Health, Recommendations


def checked(what: str) -> Callable[[Any], Any]:
    """The option that makes a verb's exit code say whether there is something."""
    return click.option("--check", "is_check", is_flag=True, help=f"Exit code 1 where {what}; for scripts.")


@click.command()
@checked("a finding is open or something is not seen")
@daemon_options(is_watchable=True)
def status(client: Client, *, is_json: bool, is_check: bool) -> None:
    """What is wrong, whom it hits, who waits, and what to do: the start view in the terminal.

    The first line counts every GPU once. `wrong` lists open findings (F31), `waiting` the jobs that wait and why, `do`
    the recommendations (R11) with gain and cost. Go on with: trimtab explain R11, trimtab approve R11.

    \b
    Examples: trimtab status
              trimtab status --watch
              trimtab status --check >/dev/null || echo "something is wrong"
              trimtab status --json | jq .strip
    """
    raw = client.get_raw("/api/v1/board")
    board = client.decoded(raw, Board)
    if is_json:
        say_json(raw)
    else:
        health = client.get("/healthz", Health)
        say(status_lines(board, age_seconds=health.board_age_seconds, columns=width()))
    is_wrong = bool(board.blind) or any(item.state is FindingState.OPEN for item in board.findings)
    _end(is_something=is_wrong, is_check=is_check)


@click.command()
@click.option("--state", type=click.Choice(["open", "closed", "all"]), default="open", show_default=True)
@click.option("--since", type=Span(), default="7d", show_default=True, help="For closed ones: how far back.")
@checked("the list is not empty")
@daemon_options(is_watchable=True)
def findings(client: Client, *, is_json: bool, state: str, since: float, is_check: bool) -> None:
    """What is wrong, worst first (or what was: --state closed).

    \b
    Examples: trimtab findings
              trimtab findings --state closed --since 2h
              trimtab findings --json | jq -r '.findings[].finding.sentence'
    """
    raw = client.get_raw("/api/v1/findings", state=state, since_seconds=since)
    found = client.decoded(raw, Findings).findings
    if is_json:
        say_json(raw)
    else:
        board = client.get("/api/v1/board", Board)
        rows = [finding_row(item, board.at) for item in found]
        say(block("wrong" if state == "open" else "findings", rows, width()) or [_none_found(board, state)])
    _end(is_something=bool(found), is_check=is_check)


def _none_found(board: Board, state: str) -> str:
    if state != "open":
        return "There was none."
    if not board.strip.gpus_reporting:
        return "Nothing is seen: no GPU reports. `trimtab doctor` says why."
    return (
        "Nothing is wrong with what is seen; `trimtab status` says what is not." if board.blind else "Nothing is wrong."
    )


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Also those that are over, of the last seven days.")
@checked("there is something to do")
@daemon_options(is_watchable=True)
def plan(client: Client, *, is_json: bool, is_all: bool, is_check: bool) -> None:
    """What to do: recommendations with gain and cost, and what is not done, with the number that decided.

    \b
    Examples: trimtab plan
              trimtab plan --watch 10s
              trimtab plan --all --json
    """
    raw = client.get_raw("/api/v1/recommendations", state="all" if is_all else "live")
    found = client.decoded(raw, Recommendations).recommendations
    if is_json:
        say_json(raw)
    else:
        board = client.get("/api/v1/board", Board)
        rows = [command_row(row, board.at) for row in found]
        lines = block("do", rows, width()) + refusal_lines(board.refusals, width())
        say(lines or ["There is nothing to do."])
    _end(is_something=any(row.command.is_live for row in found), is_check=is_check)


@click.command()
@click.argument("id", type=Id(), metavar="ID")
@daemon_options
def explain(client: Client, *, is_json: bool, id: tuple[str, int]) -> None:
    """Why: everything that a recommendation (R11) or a finding (F31) rests on.

    For R11: the sentence, the evidence with source, time, value and threshold, what speaks against it, the steps with
    the exact writes and as lines to copy, how long it takes, what its owners said, gain and cost with their formulas,
    what must be proved before a node returns, what happens if nothing is done, who may approve; after it, what came of
    it against the forecast, and the rule's record.

    \b
    Examples: trimtab explain R11
              trimtab explain F31
    """
    letter, number = id
    path = "findings" if letter == "F" else "recommendations"
    raw = client.get_raw(f"/api/v1/{path}/{number}")
    if is_json:
        say_json(raw)
        return
    board = client.get("/api/v1/board", Board)
    if letter == "F":
        item = client.decoded(raw, OpenFinding)
        say(finding_lines(item, board.commands, at=board.at, columns=width()))
        return
    row = client.decoded(raw, CommandRow)
    found = [client.get(f"/api/v1/findings/{each}", OpenFinding) for each in row.command.recommendation.findings]
    say(recommendation_lines(row, found, at=board.at, mode=board.mode, columns=width()))


@click.command()
@click.argument("node", required=False, type=Named("node"))
@click.argument("gpu", required=False)
@click.option("--metric", default="sm_active_ratio,temperature_celsius,power_watts,sm_clock_hertz", show_default=True,
              help="Sample keys with commas between them (docs/metrics.md, without trimtab_gpu_).")  # fmt: skip
@click.option("--since", type=Span(), default="1h", show_default=True, help="How far back: 90s, 30m, 2h, 1d.")
@click.option("--all", "has_all", is_flag=True, help="Proposals written anew with the same steps too.")
@daemon_options
def history(
    client: Client, *, is_json: bool, node: str | None, gpu: str | None, metric: str, since: float, has_all: bool
) -> None:
    """What happened: findings, decisions and commands in order; with NODE and GPU, that GPU's values over time.

    GPU is its index on the node, or its UUID.

    \b
    Examples: trimtab history --since 2h
              trimtab history gpu-07 3
              trimtab history gpu-07 3 --metric temperature_celsius --since 1d
    """
    if node is None or gpu is None:
        if node is not None:
            raise click.UsageError("Give the GPU too: trimtab history NODE GPU (its index, or its UUID).")
        _timeline(client, since, is_json=is_json, has_all=has_all)
        return
    raw = client.get_raw("/api/v1/history", node=node, gpu=_uuid(client, node, gpu), metric=metric, since_seconds=since)
    if is_json:
        say_json(raw)
        return
    say(series_lines(client.decoded(raw, GpuHistory), columns=width()))


def _timeline(client: Client, since: float, *, is_json: bool, has_all: bool) -> None:
    audit = client.get("/api/v1/audit", Audit, since_seconds=since)
    found = client.get("/api/v1/findings", Findings, state="all", since_seconds=since)
    if is_json:
        say_json(msgspec.json.encode({"lines": audit.lines, "findings": found.findings}))
        return
    at = client.get("/api/v1/board", Board).at
    since_at = at.timestamp() - since
    lines = history_lines(audit.lines, found.findings, since=since_at, columns=width(), has_all=has_all)
    say(lines or ["Nothing happened."])


def _end(*, is_something: bool, is_check: bool) -> None:
    if is_something and is_check:
        raise click.exceptions.Exit(Exit.NOT_WELL)


def _uuid(client: Client, node: str, gpu: str) -> str:
    if not gpu.isdecimal():
        return gpu
    board = client.get("/api/v1/board", Board)
    row = next((each for each in board.nodes if each.name == node), None)
    if row is None:
        raise DaemonSaysNo(f"There is no node {node}. `trimtab status --json` lists them.")
    found = next((cell.uuid for cell in row.cells if cell.index == int(gpu)), None)
    if found is None:
        raise DaemonSaysNo(f"{node} has no GPU {gpu}; it has {len(row.cells)}, counted from 0.")
    return found
