"""What verbs are given: spans of time, ids, names; each completes itself in a shell from what the daemon knows."""

from __future__ import annotations

import re

import click
from click.shell_completion import CompletionItem

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


class Named(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """The name of something that the daemon knows: `kind` is node, job or queue."""

    def __init__(self, kind: str) -> None:
        """What it names."""
        self.name = kind

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The name as it was given; whether there is such a thing is the daemon's to say."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Names that begin so, of those that the daemon knows; none where it does not answer at once."""
        return known_items(ctx, self.name, incomplete)


class Id(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """`R11` or `F31`; a bare number is a recommendation. `kinds` says which of them completion offers."""

    name = "id"

    def __init__(self, *kinds: str) -> None:
        """`recommendation`, `finding`; both where nothing is said."""
        self._kinds = kinds or ("recommendation", "finding")

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Letter and number."""
        found = _ID.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no id; write R11 for a recommendation, F31 for a finding.", param, ctx)
        return (found[1] or "R").upper(), int(found[2])

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Ids that stand now, each with its sentence."""
        return [item for kind in self._kinds for item in known_items(ctx, kind, incomplete.upper())]


def known_items(ctx: click.Context, kind: str, incomplete: str) -> list[CompletionItem]:
    """Completions: names of a kind that begin so, of those that the daemon knows now."""
    from trimtab.cli.names import known  # noqa: PLC0415 - asks the daemon, which nothing but a Tab does

    options = {name: ctx.params.get(name) for name in ("url", "token", "token_file", "ca_file")}
    return [CompletionItem(name, help=said) for name, said in known(kind, incomplete, options)]
