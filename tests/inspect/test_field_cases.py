"""Every field case of all six folders: reading, verdict and counts as the sidecar and the index say."""

from __future__ import annotations

import pytest
from tests.field_cases import FieldCase, field_cases
from tests.score import covers, main, score_of


@pytest.mark.parametrize("case", field_cases(), ids=str)
def test_a_field_case_is_read_judged_and_counted_right(case: FieldCase) -> None:
    score = score_of(case)
    assert (score.is_reading_right, score.is_verdict_right, score.is_count_right) == (True, True, True), (
        score.why,
        case.reading,
    )


def test_the_score_tells_null_from_zero_and_true_from_one() -> None:
    assert covers({"a": None}, {})
    assert not covers({"a": None}, {"a": 0})
    assert not covers({"a": 0}, {"a": None})
    assert not covers({"a": True}, {"a": 1})
    assert not covers([1], [1, 2])
    assert covers({"a": 2e-06}, {"a": 2e-06, "b": 1})
    assert not covers({"a": 2e-06}, {"a": 0})


def test_the_score_is_printed_by_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a-dcgm"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if " ALL " in line] == [["a-dcgm", "ALL", "17", "17", "17", "17"]]
