"""The field's alerting files: our reader sees what is wrong in theirs, and finds nothing of it in what we ship."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.alerts.promtool_tests import ALERTS
from tests.field_cases import FieldCase, case, field_cases
from tests.score import score_of

from trimtab.cli.setup import setup
from trimtab.inspect.inspection import Inspection, Refused
from trimtab.inspect.reader import inspect_text

ROOT = ALERTS.parent
NOW = datetime(2026, 11, 2, tzinfo=UTC)


def read(path: Path) -> Inspection:
    return inspect_text(path.read_text(encoding="utf-8"), now=NOW)


@pytest.mark.parametrize("found", field_cases("f-alerting"), ids=str)
def test_each_is_read_as_the_index_says(found: FieldCase) -> None:
    score = score_of(found)
    assert (score.is_reading_right, score.is_verdict_right, score.is_count_right) == (True, True, True), score.why


def test_rules_that_count_the_xid_gauge_are_named_and_ours_do_not() -> None:
    theirs = read(case("F12").path)
    assert theirs.reading["bad"] == case("F12").expected["bad"]
    for path in ALERTS.glob("*.rules.yml"):
        assert (read(path).reading["bad"], read(path).findings) == ([], ()), path.name


def test_a_dashboard_with_inputs_left_open_is_refused_and_ours_have_none() -> None:
    with pytest.raises(Refused, match="DS_HALLPROM"):
        read(case("F08").path)
    dashboards = sorted((ROOT / "dashboards").glob("*.json"))
    assert len(dashboards) > 5
    for path in dashboards:
        assert read(path).findings == (), path.name
        assert "__inputs" not in json.loads(path.read_text()), path.name


def test_the_same_gpu_index_on_another_node_is_another_alert() -> None:
    """F02: state is per alert; ours carry the GPU's UUID beside the node, so that no two faults share an identity."""
    found = read(case("F02").path).reading
    assert (found["firing"], found["resolved"]) == (5, 2)
    assert found["resolved_nodes"] == case("F02").expected["resolved_nodes"]


def test_data_sources_have_fixed_uids_like_the_good_pattern(tmp_path: Path) -> None:
    theirs = read(case("F10").path)
    assert (theirs.reading["uid"], theirs.findings) == (case("F10").expected["uid"], ())
    for folder in ("etc/grafana/provisioning", "etc/prometheus"):
        (tmp_path / folder).mkdir(parents=True)
    done = CliRunner().invoke(setup, ["--root", str(tmp_path)])
    assert done.exit_code == 0, done.output
    ours = read(tmp_path / "etc/grafana/provisioning/datasources/trimtab.yaml")
    assert ours.findings == ()
    assert ours.reading["default"] is False
