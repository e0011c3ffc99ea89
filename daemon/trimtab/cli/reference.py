"""The reference page of all commands, read from click's own tree (`make docs`)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence

import click

from trimtab.cli import VERBS, _root

_ABOUT = (
    "Generated from the command line itself (`make docs`). `trimtab VERB --help` says the same. How each verb ends is "
    "in [exit-codes.md](exit-codes.md)."
)


def page() -> str:
    """docs/reference/commands.md: every command with its words, arguments and options."""
    context = click.Context(_root, info_name="trimtab")
    lines = ["# Commands", "", _ABOUT, "", "| Command | |", "|---|---|"]
    whole = list(_commands(context, _root, ("trimtab",)))
    lines += [f"| [`{' '.join(path)}`](#{_anchor(path)}) | {_cell(_first(command))} |" for path, command in whole]
    for path, command in whole:
        lines += ["", f"## {' '.join(path)}", "", "```", _usage(path, command), "```", "", *_told(command)]
        lines += _options(command, context)
    return "\n".join(lines) + "\n"


def _commands(
    context: click.Context, group: click.Group, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below, a group before what it holds."""
    names: Sequence[str] = tuple(VERBS) if path == ("trimtab",) else sorted(group.list_commands(context))
    for name in names:
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _commands(context, command, (*path, name))


def _usage(path: tuple[str, ...], command: click.Command) -> str:
    own = click.Context(command, info_name=" ".join(path))
    return " ".join((" ".join(path), *command.collect_usage_pieces(own)))


def _first(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "").partition("\n\n")[0].replace("\n", " ")


def _told(command: click.Command) -> Iterable[str]:
    """The help as paragraphs; what click keeps as it is (examples) stays so."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            lines += ["```", *paragraph.removeprefix("\b").strip("\n").splitlines(), "```", ""]
        elif paragraph:
            lines += [_escaped(paragraph.replace("\n", " ")), ""]
    return lines


def _options(command: click.Command, context: click.Context) -> list[str]:
    own = click.Context(command, parent=context)
    records = [one.get_help_record(own) for one in command.get_params(own) if isinstance(one, click.Option)]
    rows = [f"| `{names}` | {_cell(said)} |" for names, said in filter(None, records) if "--help" not in names]
    return ["| Option | |", "|---|---|", *rows] if rows else ["No options."]


def _anchor(path: tuple[str, ...]) -> str:
    return "-".join(path)


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("<", "\\<")
