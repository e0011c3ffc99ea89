"""Every kind of finding by its own fault: nodes report it, a real daemon finds it, rules fire, on-call is told once.

The daemon's clock, the rules and the waits of Alertmanager run at the same multiple of the wall's.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.alerts.hall import WAITING, Hall, Reporters, a_scheduler
from tests.alerts.servers import Chain, Told, a_chain, why_missing
from tests.system.processes import Daemon, eventually

from trimtab.clock import ScaledClock
from trimtab.model.runbook import ALERT_OF_RULE, PROGRAM_FAULT

SPEED = 15.0
SETTINGS = """
[detect]
interval_seconds = 5.0
silent_after_seconds = 240.0
idle_after_seconds = 300.0
[plan]
interval_seconds = 15.0
[simulated]
url = "{url}"
speed = {speed}
anchor = "{anchor}"
"""
EXPECTED = {
    "TrimtabDeviceFault": {"node": "n-device"},
    PROGRAM_FAULT: {"node": "n-program"},
    "TrimtabGpusMissing": {"node": "n-missing"},
    "TrimtabNodeSilent": {"node": "n-silent"},
    "TrimtabNodeBlind": {"node": "n-blind"},
    "TrimtabClockSkew": {"node": "n-clock"},
    "TrimtabHungJob": {"workload": "research/a-hung"},
    "TrimtabHotspot": {"node": "n-hot"},
    "TrimtabIdleGpu": {"workload": "research/a-idle"},
    "TrimtabContradiction": {"node": "n-odd"},
    "TrimtabStraggler": {"node": "g-1"},
    "TrimtabFragmentation": {"workload": f"research/{WAITING}"},
    "TrimtabRackBlind": {"rack": "r9"},
}


def told_of(chain: Chain, alert: str) -> list[Told]:
    wanted = EXPECTED[alert].items()
    return [one for one in chain.oncall.of(alert) if any(wanted <= each["labels"].items() for each in one.alerts)]


@pytest.mark.long
def test_every_kind_of_finding_is_told_once_by_its_own_fault_and_is_over_once_it_is_mended(tmp_path: Path) -> None:
    if why_missing():
        pytest.skip(why_missing())
    assert set(EXPECTED) == {*ALERT_OF_RULE.values(), PROGRAM_FAULT, "TrimtabRackBlind"}
    with ExitStack() as stack:
        hall = Hall(ScaledClock(anchor=datetime.now(UTC), speed=SPEED))
        scheduler = stack.enter_context(a_scheduler(hall))
        settings = SETTINGS.format(url=scheduler, speed=SPEED, anchor=hall.clock.anchor.isoformat())
        daemon = Daemon(tmp_path, settings=settings)
        stack.callback(daemon.close)
        daemon.up()
        reporters = stack.enter_context(Reporters(hall, daemon))
        eventually(
            lambda: len(daemon.board().nodes) == len(hall.spots), said=lambda: (reporters.refused, daemon.tail())
        )
        scrapes = [{"job_name": "trimtab-daemon", "honor_labels": True,
                    "static_configs": [{"targets": [daemon.url.removeprefix("http://")]}]}]  # fmt: skip
        chain = stack.enter_context(a_chain(tmp_path / "chain", scrapes=scrapes, factor=SPEED, interval="500ms"))
        eventually(lambda: chain.query("trimtab_cluster_gpus_reporting > 0"), said=daemon.tail)

        broken_at = time.monotonic()
        for spot in hall.spots:
            spot.is_ill = True
        hall.waits_since = hall.clock.now()
        said = lambda: f"{[one for one in EXPECTED if not told_of(chain, one)]}\n{daemon.tail()}"  # noqa: E731
        eventually(lambda: all(told_of(chain, alert) for alert in EXPECTED), seconds=240, said=said)

        mended_at = time.monotonic()
        for spot in hall.spots:
            spot.is_ill = False
            spot.boots += spot.name == "n-device"
        hall.waits_since = None
        open_ = lambda: [one for one in EXPECTED if told_of(chain, one)[-1].status != "resolved"]  # noqa: E731
        # The longest quiet that a finding asks for is a program's: an hour.
        eventually(lambda: not open_(), seconds=3600 / SPEED + 120, said=lambda: f"{open_()}\n{daemon.tail()}")

        print(f"\n{'alert':24} {'to page':>9} {'to end':>9}   at {SPEED:g} times the pace")
        for alert in EXPECTED:
            told = told_of(chain, alert)
            page, end = (told[0].at - broken_at) * SPEED, (told[-1].at - mended_at) * SPEED
            print(f"{alert:24} {page:7.0f} s {end:7.0f} s")
            assert [one.status for one in told] == ["firing", "resolved"], (alert, told)
            assert len({one.key for one in told}) == 1, (alert, told)
        names = {one.group["alertname"] for one in chain.oncall.told}
        assert names == {*EXPECTED, "TrimtabAlwaysFiring"}
        assert reporters.refused == []
        daemon.assert_had_no_trouble()
