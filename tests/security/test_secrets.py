"""Secrets are compared in constant time, and whoever is outside fills no disk with refusals."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.fakes.clock import FakeClock

from trimtab.show.refusals import LINES_PER_DAY_MAX, Answer, Refusals

PACKAGE = Path(__file__).parent.parent.parent / "daemon" / "trimtab"
SECRET = re.compile(r"(?:^|_)(token|secret|signature|password|csrf|mac|sha256|digest|credential)s?$")
PLAIN = {
    "ship/membership.py", "ship/keyring.py", "ship/admission.py", "ship/enrolled.py", "ship/tokens.py",
    "ship/sender.py", "enrolment.py", "store/enrolment.py",
}  # fmt: skip
"""Our own against our own, a table's rows or an agent's token and its file: nobody outside sends either side."""


def names(node: ast.expr) -> list[str]:
    found = []
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.append(one.id)
        elif isinstance(one, ast.Attribute):
            found.append(one.attr)
    return found


def compared() -> list[str]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).as_posix()
        if own.startswith(("cli/", "setup/", "demo/", "sim/", "detect/", "plan/", "collect/")) or own in PLAIN:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
                continue
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Constant) for side in sides):
                continue
            if any(SECRET.search(name.lower()) for side in sides for name in names(side)[:1]):
                found.append(f"{own}:{node.lineno}: {ast.unparse(node)}")
    return found


def test_no_secret_is_compared_by_equality() -> None:
    statements = [one for one in compared() if ".c." not in one]  # SQL compares hashes
    assert statements == []


def test_the_search_would_find_one() -> None:
    assert SECRET.search("_metrics_token")
    assert SECRET.search("sha256")
    assert not SECRET.search("tokens_file")


def test_a_year_of_refusals_fills_no_disk() -> None:
    """A new address each second for two days: the lines have an end a day, the count has none."""
    clock, lines = FakeClock(), []
    refusals = Refusals(clock=clock, write=lambda who, what, why: lines.append((who, what, why)))
    days, a_day = 2, 86400
    for number in range(days * a_day):
        refusals.tell(Answer.WRONG, who=f"peer 2001:db8::{number:x}", what="refused to sign in", why="a wrong token")
        clock.advance(1.0)
    assert refusals.answers_total()["wrong"] == days * a_day
    assert len(lines) <= (days + 1) * LINES_PER_DAY_MAX
    assert sum(len("".join(line)) for line in lines) / days < 2_000_000


def test_noise_hides_no_attempt() -> None:
    """Whoever floods the log with nonsense does not keep the audit from hearing of a wrong token."""
    clock, lines = FakeClock(), []
    refusals = Refusals(clock=clock, write=lambda who, what, why: lines.append(what))
    for number in range(10_000):
        refusals.note(Answer.BROKEN, who=f"peer 10.0.{number // 256}.{number % 256}", what="no HTTP", why="-")
    refusals.tell(Answer.OTHER_NODE, who="peer 10.9.9.9", what="refused reports", why="another node's")
    assert lines == ["refused reports"]
