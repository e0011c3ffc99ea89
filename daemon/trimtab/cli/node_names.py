"""Names of many nodes as operators write them: gpu-[01-40], gpu-[1,3,7-9].hall-a, or a file with one a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

NAMES_MAX = 20_000
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def names_of(patterns: Iterable[str], files: Iterable[Path] = ()) -> tuple[str, ...]:
    """All names, each once, in the order in which they were written. Raises click.UsageError."""
    written = [*patterns, *(line for file in files for line in _lines(file))]
    names: dict[str, None] = {}
    for pattern in written:
        for name in _expanded(pattern):
            names[name] = None
            if len(names) > NAMES_MAX:
                raise click.UsageError(f"These are more than {NAMES_MAX} nodes; enrol them in several calls.")
    return tuple(names)


def _lines(file: Path) -> Iterator[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file}: cannot be read: {error}") from error
    for line in text.splitlines():
        name = line.partition("#")[0].strip()
        if name:
            yield name


def _expanded(pattern: str) -> Iterator[str]:
    found = _BRACKETS.search(pattern)
    if found is None:
        if "[" in pattern or "]" in pattern:
            raise click.UsageError(f"{pattern!r}: a bracket is open. Write gpu-[01-40] or gpu-[1,3,7-9].")
        yield pattern
        return
    before, after = pattern[: found.start()], pattern[found.end() :]
    for number in _numbers(found[1], pattern):
        yield from _expanded(f"{before}{number}{after}")


def _numbers(inner: str, pattern: str) -> Iterator[str]:
    for part in inner.split(","):
        read = _PART.fullmatch(part.strip())
        if read is None:
            raise click.UsageError(f"{pattern!r}: {part!r} is no number or range. Write gpu-[01-40] or gpu-[1,3,7-9].")
        first, last = read[1], read[2] or read[1]
        if int(last) < int(first) or int(last) - int(first) >= NAMES_MAX:
            raise click.UsageError(f"{pattern!r}: {part!r} runs backwards or is too long.")
        # As wide as the first is written: 01-40 gives 01, 1-40 gives 1.
        width = len(first) if first.startswith("0") or len(first) == len(last) else 0
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(width)
