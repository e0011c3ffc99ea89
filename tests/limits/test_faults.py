"""Each fault on real processes: nothing that was acknowledged is lost, nothing is kept twice, and it ends by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.limits.scene import Row
from tests.limits.table import FAULTS, LONG, SHORT

ALERTS = Path(__file__).parents[2] / "alerts"


def check(fault: Callable[[Path], Row], home: Path) -> None:
    row = fault(home)
    assert row.acknowledged > 0
    assert (row.lost, row.doubled) == (0, 0), row
    assert row.log, "the operator must read something"


@pytest.mark.parametrize("fault", SHORT, ids=lambda fault: fault.__name__)
def test_a_fault_loses_nothing_that_was_acknowledged(fault: Callable[[Path], Row], tmp_path: Path) -> None:
    check(fault, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("fault", LONG, ids=lambda fault: fault.__name__)
def test_a_long_fault_loses_nothing_that_was_acknowledged(fault: Callable[[Path], Row], tmp_path: Path) -> None:
    check(fault, tmp_path)


def test_every_alert_that_the_table_names_is_there() -> None:
    there = {
        rule["alert"]
        for path in ALERTS.glob("*.rules.yml")
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    files = {fault.__module__.rpartition(".")[2] for fault in FAULTS}
    text = "".join((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8") for name in files)
    named = set(re.findall(r"Trimtab[A-Z]\w+", text))
    assert named
    assert named <= there, named - there
