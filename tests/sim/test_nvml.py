"""The real collector over the stand-in driver, and the real follower over the nodes' kernel files."""

from __future__ import annotations

import threading

import pynvml
import pytest
from tests.fakes.clock import FakeClock
from tests.sim.worlds import a_cluster, a_spec, forward, running

from trimtab.collect import nvml_door
from trimtab.collect.kernel_log import HostTime, KernelLogFollower
from trimtab.collect.nvml import NvmlCollector, node_inventory
from trimtab.model.metric import BY_NAME, split_key
from trimtab.model.reading import EventKind, EventSource, GpuState
from trimtab.sim.faults import Fault, inject
from trimtab.sim.kernel_file import KernelFiles
from trimtab.sim.nvml import SimNvml


class Rig:
    def __init__(self, tmp_path):
        self.kernel = KernelFiles(tmp_path / "kernel")
        self.cluster = a_cluster(nodes=3, kernel=self.kernel)
        self.job = running(self.cluster, a_spec("busy", gpus_per_pod=4), "gpu-01")
        self.driver = SimNvml(self.cluster)
        nvml_door.use_library(self.driver)
        self.clock = FakeClock()

    def collector(self, node):
        return NvmlCollector(
            clock=self.clock,
            inventory=node_inventory(None, "boot-a"),
            pid_name=self.driver.process_name,
            before_tick=lambda: self.driver.select(node),
            source="sim",
        )


@pytest.fixture
def rig(tmp_path):
    yield Rig(tmp_path)
    nvml_door.use_library(None)


def test_every_value_of_a_healthy_node_is_read_and_none_is_bad(rig):
    forward(rig.cluster, 60)
    collector = rig.collector("gpu-01")
    collector.collect()
    forward(rig.cluster, 10)
    rig.clock.advance(10)
    section = collector.collect()
    assert (section.errors, section.bad_samples, section.gpus_expected) == ({}, {}, 8)
    assert [gpu.state for gpu in section.gpus] == [GpuState.OK] * 8
    busy, idle = section.gpus[0].values, section.gpus[7].values
    assert {split_key(key)[0] for key in busy} <= set(BY_NAME)
    assert len(busy) > 150
    assert busy["sm_active_ratio"] > 0.7
    assert busy["power_watts"] > 500
    assert idle["power_watts"] < 90
    assert busy["sm_clock_hertz"] > 1.9e9
    assert busy["memory_used_bytes"] / busy["memory_total_bytes"] > 0.8
    assert idle["sm_active_ratio"] == idle["utilization_ratio"] == 0.0
    assert idle["clock_event_active/idle"] == 1.0
    assert section.gpus[0].processes[0].name == "python3"
    assert section.gpus[7].processes == ()


def test_the_identities_are_the_clusters(rig):
    gpus = rig.collector("gpu-02").collect().gpus
    node = rig.cluster.nodes["gpu-02"]
    assert [(gpu.info.uuid, gpu.info.pci, gpu.info.serial) for gpu in gpus] == [
        (gpu.uuid, gpu.pci, gpu.serial) for gpu in node.gpus
    ]


def test_one_lost_gpu_is_lost_and_the_other_seven_go_on(rig):
    collector = rig.collector("gpu-01")
    collector.collect()
    inject(rig.cluster, Fault(kind="gpu_falls_off", node="gpu-01", gpus=(3,)))
    section = collector.collect()
    assert [gpu.state for gpu in section.gpus].count(GpuState.OK) == 7
    assert section.gpus[3].state is GpuState.LOST
    assert [(event.kind, event.gpu) for event in section.events] == [
        (EventKind.GPU_LOST, rig.cluster.nodes["gpu-01"].gpus[3].uuid)
    ]


def test_a_handle_of_a_lost_gpu_answers_lost_to_every_call(rig):
    rig.driver.select("gpu-00")
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(3)
    inject(rig.cluster, Fault(kind="gpu_falls_off", node="gpu-00", gpus=(3,)))
    for call in (pynvml.nvmlDeviceGetUUID, pynvml.nvmlDeviceGetPowerUsage, pynvml.nvmlDeviceGetUtilizationRates):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            call(handle)


def test_a_call_that_the_card_does_not_know_is_not_supported(rig):
    rig.driver.select("gpu-00")
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetFanSpeed(handle)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByIndex(8)


def test_each_thread_is_on_the_node_that_it_selected(rig):
    seen = {}
    barrier = threading.Barrier(3)

    def read(node):
        rig.driver.select(node)
        barrier.wait(5.0)
        seen[node] = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0))

    threads = [threading.Thread(target=read, args=(node,)) for node in rig.cluster.nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5.0)
    assert seen == {name: node.gpus[0].uuid for name, node in rig.cluster.nodes.items()}


def test_the_kernel_says_xid_79_and_154_at_the_moment_and_place_of_the_fall(rig, tmp_path):
    node = rig.cluster.nodes["gpu-01"]
    rig.clock.advance(60)
    forward(rig.cluster, 60)

    def host_time():
        return HostTime(boot_id="boot-a", uptime_seconds=(rig.clock.now() - node.boot_at).total_seconds())

    follower = KernelLogFollower(
        str(rig.kernel.path("gpu-01")), clock=rig.clock, state_directory=tmp_path, host_time=host_time
    )
    assert follower.events() == []
    inject(rig.cluster, Fault(kind="gpu_falls_off", node="gpu-01", gpus=(3,)))
    events = [*follower.events(), *follower.events()]
    assert [(event.kind, event.code) for event in events] == [
        (EventKind.XID, 79),
        (EventKind.FALLEN_OFF, None),
        (EventKind.XID, 154),
    ]
    assert {(event.source, event.pci, event.gpu) for event in events} == {
        (EventSource.KERNEL, node.gpus[3].pci, node.gpus[3].uuid)
    }
    assert abs((events[0].at - rig.cluster.now).total_seconds()) < 0.01
    assert events[2].details["action"] == "0x2"


def test_a_fall_is_said_once_however_often_it_is_asked_for(rig):
    for _ in range(3):
        inject(rig.cluster, Fault(kind="gpu_falls_off", node="gpu-01", gpus=(3,)))
    assert rig.kernel.path("gpu-01").read_text().count(": 79,") == 1
