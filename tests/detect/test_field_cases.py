"""Every kernel log of the field cases, parsed and judged without snapshot or node, gives its verdict."""

from __future__ import annotations

import pytest
from tests.fakes.clock import START
from tests.field_cases import FieldCase, field_cases

from trimtab.collect.kernel_log import events_of, parse_kernel_log
from trimtab.detect.detector import judge_events
from trimtab.detect.verdict import verdict_of


def judged(case: FieldCase):
    return judge_events(events_of(parse_kernel_log(case.text.splitlines(), now=START), received_at=START), node="")


@pytest.mark.parametrize("case", field_cases("b-kernel"), ids=str)
def test_a_kernel_log_gives_its_verdict(case: FieldCase):
    findings = judged(case)
    assert verdict_of(findings).value == case.verdict, (case.reading, [each.sentence for each in findings])


@pytest.mark.parametrize("case", [case for case in field_cases("b-kernel") if "incidents" in case.counts], ids=str)
def test_a_kernel_log_gives_its_incidents(case: FieldCase):
    findings = judged(case)
    assert len(findings) == case.counts["incidents"], (case.reading, [each.sentence for each in findings])
