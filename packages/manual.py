"""`python -m packages.manual`: the manual page trimtab(1), made of what each verb's --help says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from packages.ground import epoch, version
from trimtab.cli import _root

WIDTH = 78


def manual() -> str:
    """The page in troff: each verb's own words, unfolded."""
    day = datetime.fromtimestamp(epoch(), tz=UTC)
    lines = [f'.TH TRIMTAB 1 "{day:%Y-%m-%d}" "trimtab {version()}" "trimtab"']
    lines += [".SH NAME", "trimtab \\- observability and rebalancing for GPU clusters"]
    for context in _contexts(click.Context(_root, info_name="trimtab", terminal_width=WIDTH)):
        lines += [f'.SH "{context.command_path.upper()}"', ".nf", _quoted(context.get_help()), ".fi"]
    lines += [".SH FILES", ".nf", "/etc/trimtab/agent.toml", "/etc/trimtab/daemon.toml", ".fi"]
    return "\n".join(lines) + "\n"


def _contexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            verb = group.get_command(context, name)
            if verb is not None and not verb.hidden:
                inner = click.Context(verb, info_name=name, parent=context, terminal_width=WIDTH)
                yield from _contexts(inner)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.splitlines())


if __name__ == "__main__":
    sys.stdout.write(manual())
