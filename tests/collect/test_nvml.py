"""The NVML collector through the real binding, on a stand-in driver: values, lost GPUs, failing fields."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.standin.driver import Driver
from tests.standin.node import PCI_3, UUID_3, Node, gpu, kinds, states

from trimtab.model.metric import BY_NAME, split_key
from trimtab.model.reading import EventKind, GpuState


def test_a_healthy_node_gives_every_gpu_in_our_units(driver: Driver) -> None:
    node = Node()
    node.tick()
    section = node.tick()
    reading = gpu(section, 3)
    assert (section.driver, section.gpus_expected, len(section.gpus)) == ("570.86.15", 8, 8)
    assert (section.errors, section.bad_samples, section.events) == ({}, {}, ())
    assert (reading.info.pci, reading.info.serial, reading.info.index) == (PCI_3, "1652000000003", 3)
    assert {key: reading.values[key] for key in EXPECTED} == EXPECTED


EXPECTED = {
    "up": 1.0,
    "utilization_ratio": 0.97,
    "memory_controller_utilization_ratio": 0.41,
    "sm_active_ratio": 0.825,
    "memory_total_bytes": 85520809984.0,
    "memory_used_bytes": 70e9,
    "temperature_celsius": 61.0,
    "memory_temperature_celsius": 71.0,
    "temperature_margin_celsius": 26.0,
    "temperature_slowdown_celsius": 87.0,
    "power_watts": 412.0,
    "power_limit_watts": 700.0,
    "energy_joules_total": 81234567.89,
    "sm_clock_hertz": 1.755e9,
    "pcie_link_generation": 5.0,
    "pcie_link_width_lanes": 16.0,
    "pcie_transmit_bytes_total": 7e6,
    "pcie_receive_bytes_total": 8e6,
    "nvlink_links": 18.0,
    "nvlink_up/17": 1.0,
    "nvlink_transmit_bytes_total/2": 1002 * 1024.0,
    "nvlink_receive_bytes_total/2": 2002 * 1024.0,
    "ecc_errors_total/uncorrected": 0.0,
    "row_remap_pending": 0.0,
    "recovery_action": 0.0,
    "fabric_state": 3.0,
    "remap_banks/max": 2560.0,
    "mig_mode": 0.0,
}


def test_every_key_is_of_the_catalogue_and_of_its_labels(driver: Driver) -> None:
    node = Node()
    node.tick()
    for key in gpu(node.tick(), 0).values:
        name, label = split_key(key)
        metric = BY_NAME[name]
        assert (label is None) == (metric.label is None), key
        assert not metric.label_values or label in metric.label_values, key


def test_one_lost_gpu_costs_the_other_seven_nothing(driver: Driver) -> None:
    node = Node()
    node.tick()
    driver["3.lost"] = 1
    section = node.tick()
    lost = gpu(section, 3)
    assert states(section) == [GpuState.OK] * 3 + [GpuState.LOST] + [GpuState.OK] * 4
    assert (lost.info.pci, lost.info.index, lost.values) == (PCI_3, 3, {"up": 0.0})
    assert [(event.kind, event.gpu, event.pci) for event in section.events] == [(EventKind.GPU_LOST, UUID_3, PCI_3)]
    assert "GPU is lost" in section.errors["gpu 3"]
    assert section.gpus_expected == 8


def test_a_lost_gpu_is_news_once_and_so_is_its_return(driver: Driver) -> None:
    node = Node()
    node.tick()
    driver["3.lost"] = 1
    assert [kinds(node.tick()), kinds(node.tick())] == [[EventKind.GPU_LOST], []]
    del driver["3.lost"]
    returned = node.tick()
    assert (kinds(returned), states(returned)) == ([EventKind.GPU_RETURNED], [GpuState.OK] * 8)
    assert kinds(node.tick()) == []


def test_a_gpu_missing_after_a_restart_of_the_agent_is_lost(driver: Driver, tmp_path: Path) -> None:
    Node(tmp_path).tick()
    driver["order"] = "0,1,2,4,5,6,7"  # the driver started without it: the indexes move
    section = Node(tmp_path).tick()
    assert gpu(section, 3).state is GpuState.LOST
    assert (gpu(section, 4).info.index, len(section.gpus), section.gpus_expected) == (3, 8, 8)
    assert kinds(section) == [EventKind.GPU_LOST]
    assert kinds(Node(tmp_path).tick()) == []


def test_a_gpu_without_a_handle_after_a_restart_is_lost(driver: Driver, tmp_path: Path) -> None:
    Node(tmp_path).tick()
    driver["3.return.nvmlDeviceGetHandleByIndex_v2"] = 999
    section = Node(tmp_path).tick()
    assert gpu(section, 3).state is GpuState.LOST
    assert "nvmlDeviceGetHandleByIndex" in section.errors["gpu 3"]


def test_a_new_boot_counts_its_gpus_anew(driver: Driver, tmp_path: Path) -> None:
    Node(tmp_path).tick()
    driver["order"] = "0,1,2,4,5,6,7"
    section = Node(tmp_path, boot_id="boot-b").tick()
    assert (len(section.gpus), section.gpus_expected, section.events) == (7, 7, ())


def test_a_failing_call_costs_its_own_value_alone(driver: Driver) -> None:
    node = Node()
    whole = gpu(node.tick(), 2).values
    driver["2.return.nvmlDeviceGetUtilizationRates"] = 999
    section = node.tick()
    assert set(whole) - set(gpu(section, 2).values) == {"utilization_ratio", "memory_controller_utilization_ratio"}
    assert "Unknown Error" in section.errors["gpu 2 utilization_ratio"]
    assert "utilization_ratio" in gpu(section, 1).values


def test_a_failing_field_costs_its_own_value_alone(driver: Driver) -> None:
    node = Node()
    whole = gpu(node.tick(), 2).values
    driver["2.field.83"] = "!999"
    section = node.tick()
    # Its fallback is a call of its own, so even the value is there; field 230 has none.
    assert gpu(section, 2).values["energy_joules_total"] == whole["energy_joules_total"]
    driver["2.field.230"] = "!999"
    section = node.tick()
    assert set(whole) - set(gpu(section, 2).values) == {"recovery_action"}
    assert "field 230" in section.errors["gpu 2 recovery_action"]


def test_a_field_that_the_driver_chokes_on_costs_the_others_nothing(driver: Driver) -> None:
    driver["2.poison_field"] = 145
    section = Node().tick()
    assert "row_remap_failed" in gpu(section, 2).values  # from its fallback call
    assert gpu(section, 2).values["power_watts"] == 412.0
    assert "field 145" in section.errors["gpu 2 row_remap_failed"]


def test_what_a_gpu_does_not_support_is_no_error_and_is_asked_for_again_after_an_hour(driver: Driver) -> None:
    driver["5.return.nvmlDeviceGetFanSpeed"] = 3
    driver["5.field.230"] = "!3"
    node = Node()
    section = node.tick()
    assert section.errors == {}
    assert not {"fan_speed_ratio", "recovery_action"} & set(gpu(section, 5).values)
    del driver["5.return.nvmlDeviceGetFanSpeed"], driver["5.field.230"]
    assert "recovery_action" not in gpu(node.tick(100.0), 5).values
    assert {"fan_speed_ratio", "recovery_action"} <= set(gpu(node.tick(3600.0), 5).values)


def test_what_cannot_be_true_is_dropped_and_counted(driver: Driver) -> None:
    driver["1.utilization"] = 4294967295
    driver["1.field.82"] = 2147483647
    driver["1.field.83"] = "18446744073709551615"
    driver["1.pcie_width"] = 4294967295
    driver["1.clock_events"] = 4294967295
    driver["1.gpm.2"] = "nan"
    driver["1.gpm.3"] = "inf"
    driver["1.gpm.5"] = 250
    node = Node()
    node.tick()
    section = node.tick()
    gone = {"utilization_ratio", "memory_temperature_celsius", "sm_active_ratio", "sm_occupancy_ratio"}
    gone |= {"tensor_active_ratio", "pcie_link_width_lanes", "clock_event_active/idle"}
    assert not gone & set(gpu(section, 1).values)
    # The clock events are asked for twice: under the call's new name, then under its old one.
    asked_twice = {"clock_event_active/idle": 2}
    assert section.bad_samples == {**dict.fromkeys((*gone, "energy_joules_total"), 1), **asked_twice}
    assert gpu(section, 1).values["energy_joules_total"] == 81234567.89  # the call has it


def test_values_of_all_types_of_a_field_are_read(driver: Driver) -> None:
    driver["0.field.186"] = "d:412500.5"
    driver["0.field.82"] = "i:-3"
    section = Node().tick()
    assert gpu(section, 0).values["power_instant_watts"] == 412.5005
    assert section.bad_samples == {"memory_temperature_celsius": 1}  # read as -3, which is below the metric's range


def test_a_memory_temperature_of_zero_is_not_measured(driver: Driver) -> None:
    driver["0.memory_temperature"] = 0
    assert "memory_temperature_celsius" not in gpu(Node().tick(), 0).values


def test_a_gpu_that_answers_nothing_is_unreadable(driver: Driver) -> None:
    node = Node()
    node.tick()
    driver["6.return.nvmlDeviceGetUUID"] = 16
    section = node.tick()
    assert (gpu(section, 6).state, gpu(section, 6).values) == (GpuState.UNREADABLE, {"up": 0.0})
    assert "GPU requires restart" in section.errors["gpu 6"]
    assert kinds(section) == []


def test_an_old_driver_gives_what_it_has(old_driver: Driver) -> None:
    section = Node().tick()
    values = gpu(section, 3).values
    assert (states(section), section.errors) == ([GpuState.OK] * 8, {})
    assert values["temperature_celsius"] == 61.0
    assert values["power_watts"] == 412.0
    assert values["clock_event_active/idle"] == 0.0
    assert values["memory_used_bytes"] == 70.6e9  # version 1 counts what is reserved as used
    assert not {"sm_active_ratio", "recovery_action", "fabric_state", "temperature_margin_celsius"} & set(values)


@pytest.mark.parametrize("links", [0, 4, 12])
def test_links_are_counted_and_not_assumed(driver: Driver, links: int) -> None:
    driver["all.links"] = links
    section = Node().tick()
    found = [key for key in gpu(section, 0).values if key.startswith("nvlink_up/")]
    assert (len(found), section.errors) == (links, {})


def test_links_are_counted_one_by_one_where_the_driver_has_no_count(driver: Driver) -> None:
    driver["all.field.91"] = "!3"
    driver["all.field.165"] = "!3"
    values = gpu(Node().tick(), 0).values
    assert values["nvlink_links"] == 18.0
    assert values["nvlink_up/17"] == 1.0


def test_a_link_that_is_down_keeps_its_fields_for_when_it_is_up(driver: Driver) -> None:
    node = Node()
    driver["0.field.163.5"] = "!3"
    assert "nvlink_crc_errors_total/5" not in gpu(node.tick(), 0).values
    del driver["0.field.163.5"]
    assert gpu(node.tick(), 0).values["nvlink_crc_errors_total/5"] == 0.0


def test_errors_summed_over_links_need_every_link(driver: Driver) -> None:
    driver["all.links"] = 4
    driver["all.field.206"] = 3
    key = "nvlink_receive_errors_by_kind_total/malformed"
    assert gpu(Node().tick(), 0).values[key] == 12.0
    driver["all.field.206.2"] = "!999"
    assert key not in gpu(Node().tick(), 0).values
