"""The samples and the page of settings: made from the types, complete, and what they say holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.generate_docs import generated

from trimtab.settings import AgentSettings, DaemonSettings, load
from trimtab.settings.reference import KINDS, page, sample, tables

WHOLE = [(name, table, key) for name, kind in KINDS.items() for table in tables(kind) for key in table.keys]


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_what_is_generated_is_up_to_date(path: Path):
    assert path.read_text(encoding="utf-8") == generated()[path], "run: make docs"


def test_every_key_has_a_reason():
    assert [f"{name}.toml [{table.name}] {key.name}" for name, table, key in WHOLE if not key.reason] == []


def test_every_key_is_on_the_page():
    text = page()
    assert [key.name for _, _, key in WHOLE if f"| `{key.name}` |" not in text] == []


@pytest.mark.parametrize("kind", [AgentSettings, DaemonSettings])
def test_a_sample_as_it_stands_changes_nothing(kind: type[AgentSettings | DaemonSettings], tmp_path: Path):
    path = tmp_path / "sample.toml"
    path.write_text(sample(kind))
    assert load(path, kind) == kind()


@pytest.mark.parametrize("kind", [AgentSettings, DaemonSettings])
def test_the_defaults_in_a_sample_are_the_defaults(kind: type[AgentSettings | DaemonSettings], tmp_path: Path):
    """Every line with a default of the tables that are always there, taken at its word."""
    kept: list[str] = []
    is_there = True
    for line in sample(kind).splitlines():
        if re.match(r"#?\[", line):
            is_there = not line.startswith("#")
            kept += [line] if is_there else []
        elif is_there and re.match(r"#\w+ = ", line) and "…" not in line:
            kept.append(line.removeprefix("#"))
    path = tmp_path / "sample.toml"
    path.write_text("\n".join(kept))
    assert load(path, kind) == kind()
    assert len(kept) > 10
