"""Doctor about Alertmanager: each failure with its fix, and nothing where all is well."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.fakes.alerting import ALERTING
from tests.fakes.clock import START

from trimtab.show.alertmanager.facts import PeerState, alerting_checks


def test_nothing_is_wrong_where_all_is_well() -> None:
    checks = list(alerting_checks(ALERTING))
    assert [check.name for check in checks] == ["alertmanager am-0:9093", "alertmanager am-1:9093", "silences"]
    assert all(check.is_ok for check in checks)
    assert checks[0].sentence == "Alertmanager 0.31.1 at am-0:9093 has taken what it was given."


@pytest.mark.parametrize(
    ("changes", "name", "said"),
    [
        ({"pushed_left_out": 4}, "alertmanager room", "4 open incidents are not pushed"),
        ({"doubled": 2}, "alertmanager twice", "2 incidents stand with Alertmanager twice"),
        ({"unheard": 1}, "alertmanager pages", "it knows nothing of them"),
        ({"silences_trouble": "am-0:9093 does not answer."}, "silences", "keep nobody asleep"),
        ({"others_trouble": "Alerts of others cannot be kept: disk full."}, "alerts of others", "disk full"),
    ],
)
def test_each_failure_is_named_with_its_fix(changes: dict, name: str, said: str) -> None:
    (wrong,) = [check for check in alerting_checks(replace(ALERTING, **changes)) if not check.is_ok]
    assert wrong.name == name
    assert said in wrong.sentence
    assert wrong.fix


def test_a_peer_that_takes_nothing_says_since_when() -> None:
    down = PeerState(
        name="am-0:9093",
        posts_total={"failed": 3},
        trouble="am-0:9093 does not answer: connection refused.",
        failing_since=START + timedelta(seconds=5),
    )
    (wrong,) = [check for check in alerting_checks(replace(ALERTING, peers=(down,))) if not check.is_ok]
    assert wrong.sentence == "am-0:9093 does not answer: connection refused. (since 2026-11-02T09:00:05Z)"


def test_where_silences_are_not_read_nothing_is_said_of_them() -> None:
    assert [check.name for check in alerting_checks(replace(ALERTING, peers=(), silences=None))] == []
