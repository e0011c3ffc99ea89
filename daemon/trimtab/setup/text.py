"""Plain values as YAML that people can read; no more of YAML than provisioning files need."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

MARK = "# Written by `trimtab setup`; what is edited here is left alone from then on."


def yaml_text(value: Mapping[str, object], *, says: str) -> str:
    """The mapping as a YAML file, with our mark and a line of what it is for."""
    return "\n".join([MARK, f"# {says}", *_lines(value, 0)]) + "\n"


def literal(text: str) -> str:
    """A text that Grafana must not take for a variable: it expands `$` in provisioning files."""
    return text.replace("$", "$$")


def _lines(value: object, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _entry(f"{pad}{key}:", one, depth)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            first, *rest = _lines(one, depth + 1)
            yield f"{pad}- {first.lstrip()}"
            yield from rest
    else:
        yield f"{pad}{_scalar(value)}"


def _entry(head: str, value: object, depth: int) -> Iterator[str]:
    is_nested = isinstance(value, (Mapping, Sequence)) and not isinstance(value, str)
    if is_nested and not value:
        yield f"{head} {'{}' if isinstance(value, Mapping) else '[]'}"
    elif is_nested:
        yield head
        yield from _lines(value, depth + 1)
    else:
        yield f"{head} {_scalar(value)}"


def _scalar(value: object) -> str:
    """A JSON scalar is a YAML scalar: nothing in it can be taken for something else.

    Of what is not printable some ends a line in YAML and some is not allowed there: all of it is written by number.
    """
    return "".join(map(_shown, json.dumps(value, ensure_ascii=False)))


def _shown(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"
