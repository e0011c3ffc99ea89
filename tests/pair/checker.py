"""Reads what both daemons wrote down, and proves that never two acted: terms follow each other, nothing is done twice.

Three witnesses that know nothing of each other: the audit in the database, both daemons' own logs, and the cluster's
control plane, which notes who wrote to it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import psycopg
from tests.pair.fleet import Written
from tests.pair.ground import PairDaemon

ACTIVE = "this daemon is the active one"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the audit."""

    id: int
    term: int | None
    at_ms: int
    who: str
    what: str
    command_id: int | None


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found."""

    terms: dict[int, str]
    """Term -> the daemon that held it."""
    lines: int
    submitted: int
    written: int
    troubles: tuple[str, ...]


def audit_of(url: str) -> list[Line]:
    with psycopg.connect(url, autocommit=True) as connection:
        asked = "SELECT id, term, at_ms, who, what, command_id FROM audit ORDER BY id"
        return [Line(*row) for row in connection.execute(asked).fetchall()]


def check(url: str, pair: Sequence[PairDaemon], written: Sequence[Written]) -> Proof:
    """Everything that can be said against them; nothing = there were never two actors."""
    lines = audit_of(url)
    holders = {
        int(found[1]): line.who for line in lines if (found := re.match(r"active daemon, term (\d+)", line.what))
    }
    troubles = [
        *_terms_out_of_order(lines),
        *_terms_that_overlap(lines),
        *_done_twice(lines),
        *_claimed_twice(pair, holders),
        *_written_by_two(written),
    ]
    submitted = sum(line.what.endswith("→ submitted") for line in lines)
    return Proof(
        terms={term: who.removeprefix("trimtab on ") for term, who in holders.items()},
        lines=len(lines),
        submitted=submitted,
        written=len(written),
        troubles=tuple(troubles),
    )


def _terms_out_of_order(lines: Sequence[Line]) -> Iterable[str]:
    """Ids are drawn within the transaction that raised or read the term, so they follow each other as terms do."""
    highest = 0
    for line in lines:
        if line.term is None:
            if line.command_id is not None:
                yield f"audit line {line.id} ({line.what}) was written in no term"
            continue
        if line.term < highest:
            yield f"audit line {line.id} ({line.what}) is of term {line.term}, after one of term {highest}"
        highest = max(highest, line.term)


def _terms_that_overlap(lines: Sequence[Line]) -> Iterable[str]:
    spans: dict[int, tuple[int, int]] = {}
    for line in lines:
        if line.term is not None:
            first, last = spans.get(line.term, (line.at_ms, line.at_ms))
            spans[line.term] = (min(first, line.at_ms), max(last, line.at_ms))
    ordered = sorted(spans.items())
    for (term, (_, last)), (next_term, (first, _)) in pairwise(ordered):
        if first < last:
            yield f"term {next_term} began {last - first} ms before the last line of term {term}"


def _done_twice(lines: Sequence[Line]) -> Iterable[str]:
    steps = Counter((line.command_id, line.what) for line in lines if line.command_id is not None and "→" in line.what)
    for (_, what), times in steps.items():
        if times > 1 and what.endswith("→ submitted"):
            yield f"{what} {times} times"


def _claimed_twice(pair: Sequence[PairDaemon], holders: dict[int, str]) -> Iterable[str]:
    said: dict[int, list[str]] = {}
    for daemon in pair:
        for line in daemon.text().splitlines():
            if ACTIVE in line:
                said.setdefault(int(json.loads(line)["term"]), []).append(daemon.name)
    for term, names in said.items():
        if len(names) > 1:
            yield f"term {term} was claimed by {' and '.join(names)}"
        if holders.get(term) != f"trimtab on {names[0]}":
            yield f"term {term} was claimed by {names[0]} in its log and by {holders.get(term)} in the audit"
    if set(said) != set(holders):
        yield f"the logs know the terms {sorted(said)} and the audit {sorted(holders)}"


def _written_by_two(written: Sequence[Written]) -> Iterable[str]:
    """Every write that changed anything was done once; whose turn it was changed, and never changed back in between."""
    firsts = Counter((one.mark, one.text) for one in written if one.is_first)
    yield from (f"{text} under {mark} was done {times} times" for (mark, text), times in firsts.items() if times > 1)


def turns(written: Sequence[Written]) -> list[str]:
    """Who wrote, in turns: as many as there were changes of the active daemon that had something to write."""
    found: list[str] = []
    for one in sorted(written, key=lambda one: one.at_seconds):
        if not found or found[-1] != one.who:
            found.append(one.who)
    return found
