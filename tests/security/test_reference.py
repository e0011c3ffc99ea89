"""The page of hostile requests is made of the table, and every test that it rests on is there."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.security.reference import page
from tests.security.table import HOSTILE

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "hostile-requests.md"


def defined(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_page_is_made_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make docs"


def test_every_test_that_a_row_rests_on_is_there() -> None:
    missing = []
    for row in HOSTILE:
        for named in row.tests:
            path, _, name = named.partition("::")
            if not (ROOT / path).exists() or name not in defined(ROOT / path):
                missing.append(f"{row.name}: {named}")
    assert missing == []
