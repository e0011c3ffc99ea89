"""`trimtab inspect`: a log, a page or an object that a person has at hand, read without any daemon."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from trimtab.clock import SystemClock
from trimtab.errors import UnreadableInput
from trimtab.inspect.inspection import Inspection, Refused
from trimtab.inspect.reader import inspect_stream
from trimtab.inspect.show import lines_of
from trimtab.model.advice import Action
from trimtab.secrecy import on_one_line

_COLOURS = {
    Action.NONE: "green",
    Action.CORDON_RESET: "red",
    Action.CORDON_REBOOT: "red",
    Action.HARDWARE_RMA: "red",
    Action.RESET_AFTER_DRAIN: "yellow",
    Action.CONFIG_PROBLEM: "yellow",
}


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…|-")
@click.option("--json", "is_json", is_flag=True, help="One object per file, one per line when there are several.")
def inspect(files: tuple[str, ...], is_json: bool) -> None:
    """Read files and say what is wrong in them and what to do; `-` is standard input.

    Reads exporter pages, kernel logs and journal exports, nvidia-smi output, kubectl get … -o json|yaml, and files
    of the alerting chain. Looks at nothing but the file.

    \b
    Examples: dmesg | trimtab inspect -
              curl -s localhost:9400/metrics | trimtab inspect -
              kubectl get nodes,pods -A -o json | trimtab inspect -

    \b
    Exit codes: 0 read; 1 read, and something must go out of service
    (cordon_reset, cordon_reboot, hardware_rma); 2 not readable.
    """
    codes = [_one(file, is_json=is_json, is_first=number == 0) for number, file in enumerate(files)]
    sys.exit(max(codes))


def _one(file: str, *, is_json: bool, is_first: bool) -> int:
    name = "standard input" if file == "-" else file
    try:
        inspection = _read(file)
    except UnreadableInput as error:
        _say_unreadable(error, name, is_json=is_json)
        return 2
    if is_json:
        click.echo(json.dumps(inspection.as_dict(), ensure_ascii=False, allow_nan=False))
    else:
        _say(inspection, name, is_first=is_first)
    return 1 if inspection.verdict.takes_node_out else 0


def _read(file: str) -> Inspection:
    clock = SystemClock()
    if file == "-":
        return inspect_stream(sys.stdin.buffer, now=clock.now())
    try:
        with Path(file).open("rb") as stream:
            return inspect_stream(stream, now=clock.now())
    except IsADirectoryError as error:
        raise UnreadableInput("is a directory: give the files in it") from error
    except OSError as error:
        raise UnreadableInput(f"cannot be read: {error.strerror}") from error


def _say_unreadable(error: UnreadableInput, name: str, *, is_json: bool) -> None:
    sentence = f"{name} {error}"
    if not is_json:
        click.echo(f"trimtab: {sentence}", err=True)
        return
    known = {"kind": error.kind, "reading": error.reading} if isinstance(error, Refused) else {}
    click.echo(json.dumps({"error": sentence} | known, ensure_ascii=False))


def _say(inspection: Inspection, name: str, *, is_first: bool) -> None:
    from trimtab.cli.text import say, width  # noqa: PLC0415 - only people need it

    colour = _COLOURS.get(inspection.verdict)
    lines = [] if is_first else [""]
    for line in map(on_one_line, lines_of(inspection, name=name, columns=width())):
        lines.append(click.style(line, fg=colour, bold=True) if line.startswith("verdict") else line)
    say(lines)
