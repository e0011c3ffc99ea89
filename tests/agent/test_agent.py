"""The agent's tick, on fake collectors and a fake spool."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_reading, an_xid
from tests.fakes.clock import START, FakeClock
from tests.fakes.nvml import FakeCollector, FakeKeeper

from trimtab.agent import EVENTS_UNKEPT_MAX, Agent
from trimtab.collect.catalog import Collectors
from trimtab.collect.collector import Section
from trimtab.errors import CollectError, NoData, ShipError
from trimtab.model.reading import GpuState, Report
from trimtab.settings import AgentSettings
from trimtab.ship.bounds import EVENTS_MAX


class Bench:
    def __init__(self, settings: AgentSettings | None = None, **collectors: FakeCollector) -> None:
        self.keeper = FakeKeeper()
        self.shown: list[Report] = []
        self.agent = Agent(
            settings or AgentSettings(cluster="hall-a", node="gpu-00"),
            boot_id="boot-a",
            collectors=Collectors(
                by_name=tuple(collectors.items()),
                commits=tuple(collector.commit for collector in collectors.values()),
                closes=tuple(collector.close for collector in collectors.values()),
            ),
            keeper=self.keeper,
            clock=FakeClock(),
            show=self.shown.append,
        )


def test_a_tick_makes_one_report_of_all_sections_keeps_and_shows_it() -> None:
    gpus = (a_reading(index=0), a_reading(index=1))
    nvml = FakeCollector(Section(source="nvml", driver="570", gpus=gpus, gpus_expected=2, bad_samples={"up": 1}))
    host = FakeCollector(Section(node_values={"load_1m_processes": 3.0}))
    bench = Bench(nvml=nvml, host=host)
    assert bench.agent.tick() == "2 GPUs read"
    assert bench.shown == bench.keeper.reports
    report = bench.shown[0]
    assert (report.cluster, report.node, report.boot_id, report.sequence) == ("hall-a", "gpu-00", "boot-a", 1)
    assert (report.sampled_at, report.driver, report.gpus, report.gpus_expected) == (START, "570", gpus, 2)
    assert (report.node_values, report.bad_samples) == ({"load_1m_processes": 3.0}, {"up": 1})


def test_a_collector_that_fails_costs_only_its_own_section() -> None:
    broken = FakeCollector(CollectError("the disk is gone"), ZeroDivisionError(), NoData("no log here"))
    bench = Bench(nvml=FakeCollector(*[Section(gpus=(a_reading(),))] * 3), kernel_log=broken)
    for _ in range(3):
        bench.agent.tick()
    assert [len(report.gpus) for report in bench.shown] == [1, 1, 1]
    assert [report.errors for report in bench.shown] == [
        {"kernel_log": "CollectError: the disk is gone"},
        {"kernel_log": "ZeroDivisionError: "},
        {"kernel_log": "no log here"},
    ]
    assert bench.agent.tally.errors_total == {"kernel_log": 2}


def test_events_of_a_report_that_could_not_be_kept_are_in_the_next() -> None:
    kernel_log = FakeCollector(Section(events=(an_xid(79),)), Section(events=(an_xid(154),)))
    bench = Bench(kernel_log=kernel_log)
    bench.keeper.next_append_error = ShipError("no room")
    with pytest.raises(ShipError):
        bench.agent.tick()
    assert kernel_log.commits == 0
    bench.agent.tick()
    bench.agent.tick()
    assert [[event.code for event in report.events] for report in bench.keeper.reports] == [[79, 154], []]
    assert kernel_log.commits == 2


def test_events_that_wait_too_long_are_dropped_oldest_first_and_counted() -> None:
    events = tuple(replace(an_xid(31), pid=number) for number in range(EVENTS_UNKEPT_MAX + 5))
    bench = Bench(kernel_log=FakeCollector(Section(events=events)))
    bench.agent.tick()
    assert (bench.shown[0].events[0].pid, len(bench.shown[0].events)) == (5, EVENTS_MAX)
    assert bench.agent.events_dropped_total == 5


def test_more_events_than_a_report_may_hold_go_out_over_several_and_the_cursor_waits_for_the_last() -> None:
    kernel_log = FakeCollector(Section(events=(an_xid(31),) * (EVENTS_MAX + 5)), Section(events=(an_xid(79),)))
    bench = Bench(kernel_log=kernel_log)
    bench.agent.tick()
    assert kernel_log.commits == 0
    bench.agent.tick()
    assert [len(report.events) for report in bench.keeper.reports] == [EVENTS_MAX, 6]
    assert bench.keeper.reports[1].events[-1].code == 79
    assert kernel_log.commits == 1


def test_a_kernel_event_gets_the_uuid_of_the_gpu_in_its_slot() -> None:
    gpu = a_reading(index=3, state=GpuState.LOST)
    elsewhere = replace(an_xid(79), gpu=None, pci="0000:99:00.0")
    named = replace(an_xid(79), gpu=None, pci=gpu.info.pci)
    bench = Bench(
        nvml=FakeCollector(Section(gpus=(gpu,))), kernel_log=FakeCollector(Section(events=(named, elsewhere)))
    )
    assert bench.agent.tick() == "0 GPUs read, 1 lost, 2 events"
    assert [event.gpu for event in bench.shown[0].events] == [gpu.uuid, None]


def test_the_number_of_gpus_expected_is_the_setting_where_there_is_one() -> None:
    bench = Bench(
        AgentSettings(node="gpu-00", gpus_expected=8), nvml=FakeCollector(Section(gpus=(a_reading(),), gpus_expected=1))
    )
    bench.agent.tick()
    assert bench.shown[0].gpus_expected == 8


def test_the_end_closes_what_the_collectors_hold() -> None:
    nvml = FakeCollector()
    Bench(nvml=nvml).agent.close()
    assert nvml.is_closed
