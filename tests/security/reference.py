"""The reference page of hostile requests, made from the table."""

from __future__ import annotations

from collections.abc import Iterable

from tests.security.hostile import Hostile
from tests.security.table import HOSTILE

_HEAD = """# Hostile requests

Made from the tests' table (`make docs`). Each row is tried: those with an answer code are fired at a real daemon, the
others by the tests that they name. What tells of a refusal is one of three things:

- **audit**: a line of the append-only audit, with who (a person's name, or the peer's address), what and why. For
  whoever wants to be somebody or do something that they may not. The first of a kind is written at once, then one a
  minute with how many there were; at most 60 a minute and 5,000 a day in all, so that nobody fills the disk with them.
- **counted**: `trimtab_door_answers_total{answer}` grows, and the log names the peer, bounded in the same way and apart
  from the audit, so that noise hides no attempt. For what is malformed or too large, whoever sent it. What the audit
  tells is counted too.
- what the last column says, where neither is due.

A request that is refused changes nothing, and none of these ends or blocks the daemon: after all of them, reports are
taken and people are answered.
"""


def page(rows: Iterable[Hostile] = HOSTILE) -> str:
    """The page, in Markdown."""
    lines = [_HEAD]
    by_group: dict[str, list[Hostile]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row)
    for group, members in by_group.items():
        lines += [f"## {group[:1].upper()}{group[1:]}", ""]
        lines += ["| Request | What is sent | What it meets | What tells |", "|---|---|---|---|"]
        lines += [_row(row) for row in members]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(row: Hostile) -> str:
    cells = (row.name, row.sends, row.meets, _tells(row))
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _tells(row: Hostile) -> str:
    parts = []
    if row.audit:
        parts.append(f"audit: {row.audit}")
    if row.answer:
        parts.append(f"counted: `{row.answer}`")
    return "; ".join(parts) or row.told
