"""Verbs that look: status, findings, plan, explain, history."""

from __future__ import annotations

import re

import click
import msgspec

from trimtab.cli.client import Client, daemon_options, say_json
from trimtab.cli.text import block, command_row, finding_row, refusal_lines, say, width
from trimtab.cli.text_explain import finding_lines, recommendation_lines
from trimtab.cli.text_history import history_lines, series_lines
from trimtab.cli.text_status import status_lines
from trimtab.errors import ClientError
from trimtab.model.advice import OpenFinding
from trimtab.model.board import Board, CommandRow, GpuHistory
from trimtab.show.api_types import Audit, Findings, Health, Recommendations

_ID = re.compile(r"([FfRr]?)(\d{1,15})")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")
_UNIT_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Span(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """A span of time: `90s`, `30m`, `2h`, `1d`, or plain seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if isinstance(value, float | int):
            return float(value)
        found = _SPAN.fullmatch(str(value).strip().lower())
        if found is None or float(found[1]) <= 0:
            self.fail(f"{value!r} is no span of time; write 90s, 30m, 2h or 1d.", param, ctx)
        return float(found[1]) * _UNIT_SECONDS[found[2]]


class Id(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """`R11` or `F31`; a bare number is a recommendation."""

    name = "id"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Letter and number."""
        found = _ID.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no id; write R11 for a recommendation, F31 for a finding.", param, ctx)
        return (found[1] or "R").upper(), int(found[2])


@click.command()
@daemon_options
def status(client: Client, *, is_json: bool) -> None:
    """What is wrong, whom it hits, who waits, and what to do: the start view in the terminal.

    The first line counts every GPU once. `wrong` lists open findings (F31), `waiting` the jobs that wait and why, `do`
    the recommendations (R11) with gain and cost. Go on with: trimtab explain R11, trimtab approve R11.
    """
    raw = client.get_raw("/api/v1/board")
    if is_json:
        say_json(raw)
        return
    health = client.get("/healthz", Health)
    say(status_lines(client.decoded(raw, Board), age_seconds=health.board_age_seconds, columns=width()))


@click.command()
@click.option("--state", type=click.Choice(["open", "closed", "all"]), default="open", show_default=True)
@click.option("--since", type=Span(), default="7d", show_default=True, help="For closed ones: how far back.")
@daemon_options
def findings(client: Client, *, is_json: bool, state: str, since: float) -> None:
    """What is wrong, worst first (or what was: --state closed)."""
    raw = client.get_raw("/api/v1/findings", state=state, since_seconds=since)
    if is_json:
        say_json(raw)
        return
    at = client.get("/api/v1/board", Board).at
    found = client.decoded(raw, Findings).findings
    rows = [finding_row(item, at) for item in found]
    say(block("wrong" if state == "open" else "findings", rows, width()) or ["Nothing is wrong."])


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Also those that are over, of the last seven days.")
@daemon_options
def plan(client: Client, *, is_json: bool, is_all: bool) -> None:
    """What to do: recommendations with gain and cost, and what is not done, with the number that decided."""
    raw = client.get_raw("/api/v1/recommendations", state="all" if is_all else "live")
    if is_json:
        say_json(raw)
        return
    board = client.get("/api/v1/board", Board)
    rows = [command_row(row, board.at) for row in client.decoded(raw, Recommendations).recommendations]
    lines = block("do", rows, width()) + refusal_lines(board.refusals, width())
    say(lines or ["There is nothing to do."])


@click.command()
@click.argument("id", type=Id(), metavar="ID")
@daemon_options
def explain(client: Client, *, is_json: bool, id: tuple[str, int]) -> None:
    """Why: everything that a recommendation (R11) or a finding (F31) rests on.

    For R11: the sentence, the evidence with source, time, value and threshold, what speaks against it, the steps with
    the exact writes and as lines to copy, how long it takes, what its owners said, gain and cost with their formulas,
    what must be proved before a node returns, what happens if nothing is done, who may approve; after it, what came of
    it against the forecast, and the rule's record.
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
@click.argument("node", required=False)
@click.argument("gpu", required=False)
@click.option("--metric", default="sm_active_ratio,temperature_celsius,power_watts,sm_clock_hertz", show_default=True,
              help="Sample keys with commas between them (docs/metrics.md, without trimtab_gpu_).")  # fmt: skip
@click.option("--since", type=Span(), default="1h", show_default=True, help="How far back: 90s, 30m, 2h, 1d.")
@daemon_options
def history(client: Client, *, is_json: bool, node: str | None, gpu: str | None, metric: str, since: float) -> None:
    """What happened: findings, decisions and commands in order; with NODE and GPU, that GPU's values over time.

    GPU is its index on the node, or its UUID.
    """
    if node is None or gpu is None:
        if node is not None:
            raise click.UsageError("Give the GPU too: trimtab history NODE GPU (its index, or its UUID).")
        _timeline(client, since, is_json=is_json)
        return
    raw = client.get_raw("/api/v1/history", node=node, gpu=_uuid(client, node, gpu), metric=metric, since_seconds=since)
    if is_json:
        say_json(raw)
        return
    say(series_lines(client.decoded(raw, GpuHistory), columns=width()))


def _timeline(client: Client, since: float, *, is_json: bool) -> None:
    audit = client.get("/api/v1/audit", Audit, since_seconds=since)
    found = client.get("/api/v1/findings", Findings, state="all", since_seconds=since)
    if is_json:
        say_json(msgspec.json.encode({"lines": audit.lines, "findings": found.findings}))
        return
    at = client.get("/api/v1/board", Board).at
    lines = history_lines(audit.lines, found.findings, since=at.timestamp() - since, columns=width())
    say(lines or ["Nothing happened."])


def _uuid(client: Client, node: str, gpu: str) -> str:
    if not gpu.isdecimal():
        return gpu
    board = client.get("/api/v1/board", Board)
    row = next((each for each in board.nodes if each.name == node), None)
    if row is None:
        raise ClientError(f"There is no node {node}. `trimtab status --json` lists them.")
    found = next((cell.uuid for cell in row.cells if cell.index == int(gpu)), None)
    if found is None:
        raise ClientError(f"{node} has no GPU {gpu}; it has {len(row.cells)}, counted from 0.")
    return found
