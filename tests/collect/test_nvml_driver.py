"""The driver as a whole: missing, changed, unloaded, hanging. Real threads and deadlines where it hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.fakes.clock import FakeClock
from tests.fakes.nvml import FakeNvmlLibrary
from tests.standin.driver import Driver
from tests.standin.node import Node, gpu, kinds, states

from trimtab.clock import SystemClock
from trimtab.collect import nvml_door
from trimtab.collect.nvml import NvmlCollector, ThreadReader
from trimtab.collect.nvml_inventory import Inventory
from trimtab.errors import CollectError
from trimtab.model.reading import EventKind, GpuState

DEADLINE_SECONDS = 0.25
HANG_SECONDS = 60


def test_a_missing_library_is_said_with_its_fix_and_tried_again(driver: Driver) -> None:
    node = Node()
    node.collector._library = "/nonexistent/libnvidia-ml.so.1"
    section = node.tick()
    assert (section.gpus, section.driver, section.gpus_expected) == ((), None, None)
    assert "nvml_library" in section.errors["nvml"]
    node.collector._library = str(driver.library)
    assert "nvml_library" in node.tick(1.0).errors["nvml"]  # it backs off
    assert states(node.tick(5.0)) == [GpuState.OK] * 8


@pytest.mark.parametrize(
    ("code", "fix"), [(9, "modprobe nvidia"), (12, "install the NVIDIA driver"), (18, "reboot")], ids=str
)
def test_a_driver_that_does_not_start_is_said_with_its_fix(driver: Driver, code: int, fix: str) -> None:
    driver["return.nvmlInitWithFlags"] = code
    assert fix in Node().tick().errors["nvml"]


def test_attempts_to_start_a_driver_become_rarer(driver: Driver) -> None:
    driver["return.nvmlInitWithFlags"] = 9
    node = Node()
    node.tick()
    del driver["return.nvmlInitWithFlags"]
    driver["return.nvmlInitWithFlags"] = 18
    said = ["mismatch" in node.tick(1.0).errors["nvml"] for _ in range(16)]
    assert said == [False] * 4 + [True] * 12  # 5 s after the first, then not before 10 s more


def test_a_driver_that_is_unloaded_leaves_its_gpus_unreadable_and_comes_back(driver: Driver) -> None:
    node = Node()
    node.tick()
    driver["return.nvmlSystemGetDriverVersion"] = 9
    section = node.tick()
    assert (states(section), section.gpus_expected) == ([GpuState.UNREADABLE] * 8, 8)
    assert "modprobe nvidia" in section.errors["nvml"]
    assert kinds(section) == []
    del driver["return.nvmlSystemGetDriverVersion"]
    assert states(node.tick(60.0)) == [GpuState.OK] * 8


def test_a_driver_that_goes_while_gpus_are_read_is_opened_again(driver: Driver) -> None:
    node = Node()
    node.tick()
    driver["4.return.nvmlDeviceGetUUID"] = 1
    assert states(node.tick()) == [GpuState.UNREADABLE] * 8
    del driver["4.return.nvmlDeviceGetUUID"]
    assert states(node.tick()) == [GpuState.OK] * 8


def test_a_changed_driver_is_an_event_and_is_learnt_anew(driver: Driver) -> None:
    driver["1.field.230"] = "!3"
    node = Node()
    assert "recovery_action" not in gpu(node.tick(), 1).values
    del driver["1.field.230"]
    driver["driver"] = "580.10.01"
    section = node.tick()
    assert [(event.kind, event.details) for event in section.events] == [
        (EventKind.DRIVER_CHANGED, {"from": "570.86.15", "to": "580.10.01"})
    ]
    assert (section.driver, gpu(section, 1).info.driver) == ("580.10.01", "580.10.01")
    assert gpu(section, 1).values["recovery_action"] == 0.0
    assert node.tick().events == ()


@pytest.fixture
def hanging(driver: Driver) -> Iterator[NvmlCollector]:
    clock = SystemClock()
    collector = NvmlCollector(
        clock=clock,
        inventory=Inventory(path=None, boot_id="boot-a"),
        reader=ThreadReader(deadline_seconds=DEADLINE_SECONDS, clock=clock),
    )
    collector.collect()
    yield collector
    for key in [key for key in driver._lines if key.endswith(".hang")]:
        del driver[key]  # lets the thread go before the library is used again
    until(lambda: not collector._reader.is_waiting())


def until(holds: Callable[[], bool], *, seconds: float = 10.0) -> None:
    ends_at = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends_at, "it did not happen in time"
        threading.Event().wait(0.01)


def test_a_gpu_that_hangs_does_not_hold_up_the_others(driver: Driver, hanging: NvmlCollector) -> None:
    driver["3.hang"] = HANG_SECONDS
    started = time.monotonic()
    section = hanging.collect()
    assert time.monotonic() - started < HANG_SECONDS / 2
    assert states(section) == [GpuState.OK] * 3 + [GpuState.UNREADABLE] + [GpuState.OK] * 4
    assert section.errors["gpu 3"].startswith("GPU 3 does not answer since ")
    assert len(gpu(section, 7).values) > 100


def test_while_a_gpu_hangs_it_is_not_asked_again_and_costs_no_time(driver: Driver, hanging: NvmlCollector) -> None:
    driver["3.hang"] = HANG_SECONDS
    hanging.collect()
    started = time.monotonic()
    section = hanging.collect()
    assert time.monotonic() - started < HANG_SECONDS / 2
    assert gpu(section, 3).state is GpuState.UNREADABLE
    assert len(section.gpus) == 8


def test_a_gpu_that_answers_again_is_read_again(driver: Driver, hanging: NvmlCollector) -> None:
    driver["3.hang"] = HANG_SECONDS
    hanging.collect()
    del driver["3.hang"]
    until(lambda: states(hanging.collect()) == [GpuState.OK] * 8)


def test_all_gpus_hanging_take_two_deadlines_and_the_heartbeat_goes_on(driver: Driver, hanging: NvmlCollector) -> None:
    for index in range(8):
        driver[f"{index}.hang"] = HANG_SECONDS
    started = time.monotonic()
    section = hanging.collect()
    assert time.monotonic() - started < HANG_SECONDS / 2
    assert states(section) == [GpuState.UNREADABLE] * 8
    assert [key for key in section.errors if key.startswith("gpu ")] == [f"gpu {index}" for index in range(8)]


def test_a_driver_that_hangs_when_it_is_opened_claims_nothing_and_is_waited_for(driver: Driver) -> None:
    driver["hang"] = 60
    clock = SystemClock()
    collector = NvmlCollector(
        clock=clock,
        inventory=Inventory(path=None, boot_id="boot-a"),
        reader=ThreadReader(deadline_seconds=DEADLINE_SECONDS, clock=clock),
    )
    section = collector.collect()
    assert (section.gpus, section.gpus_expected) == ((), None)
    assert section.errors["nvml"].startswith("NVML does not answer since ")
    del driver["hang"]
    until(lambda: states(collector.collect()) == [GpuState.OK] * 8)


def test_a_read_that_is_refused_is_an_answer() -> None:
    def refused() -> int:
        raise CollectError("no")

    reader = ThreadReader(deadline_seconds=DEADLINE_SECONDS, clock=SystemClock())
    answers = reader.answers({"well": lambda: 7, "refused": refused})
    assert (answers["well"].value, str(answers["refused"].error)) == (7, "no")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_that_no_one_foresaw_reaches_the_caller_and_the_next_round_runs() -> None:
    threads: list[threading.Thread] = []

    def broken() -> int:
        threads.append(threading.current_thread())
        raise ZeroDivisionError

    reader = ThreadReader(deadline_seconds=DEADLINE_SECONDS, clock=SystemClock())
    with pytest.raises(ZeroDivisionError):
        reader.answers({"broken": broken})
    assert reader.answers({"well": lambda: 7})["well"].value == 7
    threads[0].join(10.0)
    assert not threads[0].is_alive()


def test_a_library_of_plain_objects_serves_many_nodes_by_turns(driver: Driver) -> None:
    library = FakeNvmlLibrary({"a": [10, 20], "b": [90]})
    nvml_door.use_library(library)  # the fixture puts the one before back
    nodes = {
        name: NvmlCollector(
            clock=FakeClock(),
            inventory=Inventory(path=None, boot_id=name),
            before_tick=partial(library.select, name),
            source="sim",
        )
        for name in ("a", "b")
    }
    for _ in range(2):
        sections = {name: node.collect() for name, node in nodes.items()}
    read = {
        name: [(found.uuid, found.values["utilization_ratio"]) for found in section.gpus]
        for name, section in sections.items()
    }
    assert read == {"a": [("GPU-a-0", 0.1), ("GPU-a-1", 0.2)], "b": [("GPU-b-0", 0.9)]}
    assert [(section.source, section.errors) for section in sections.values()] == [("sim", {})] * 2
