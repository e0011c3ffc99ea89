"""Pages of dcgm-exporter against the field cases and the traps of this exporter."""

from __future__ import annotations

import pytest
from tests.fakes.clock import START
from tests.field_cases import case, field_cases

from trimtab.collect.dcgm import DcgmReader
from trimtab.collect.dcgm_xid import XidGauge, standing_codes
from trimtab.model.reading import EventSource


def read(text):
    return DcgmReader().read(text)


def blocks(text):
    return [block.split("\n", 1)[1] for block in ("\n" + text).split("\n--- ")[1:]]


def row(family, value, *, uuid="GPU-a", **labels):
    inner = ",".join(f'{key}="{text}"' for key, text in {"gpu": "0", "UUID": uuid, **labels}.items())
    return f"{family}{{{inner}}} {value}\n"


@pytest.mark.parametrize("found", field_cases("a-dcgm"), ids=str)
def test_each_page_gives_the_values_of_its_sidecar(found):
    page = read(blocks(found.text)[-1] if found.text.startswith("---") else found.text)
    expected = found.expected
    assert len(page.gpus) == expected["gpus"], found.reading
    assert len(page.per_instance) == expected["mig_instances"], found.reading
    for kind, got in (("per_gpu", page.per_gpu), ("per_instance", page.per_instance)):
        wanted = expected.get(kind, {})
        assert got.keys() == wanted.keys()
        for key, values in wanted.items():
            assert {name: got[key].get(name) for name in values} == values, found.reading
    for uuid, pci in expected.get("pci", {}).items():
        assert next(gpu.info.pci for gpu in page.gpus if gpu.uuid == uuid) == pci
    for uuid, mib in expected.get("fb_total_mib", {}).items():
        assert next(gpu for gpu in page.gpus if gpu.uuid == uuid).values["memory_total_bytes"] == mib * 1048576


def test_values_are_in_our_units():
    (first, _) = read(case("A12").text).gpus
    assert first.values["sm_clock_hertz"] == 300e6
    assert first.values["memory_used_bytes"] == 254 * 1048576
    assert first.values["energy_joules_total"] == pytest.approx(618830.472)
    assert first.values["utilization_ratio"] == 0.0
    assert "memory_temperature_celsius" not in first.values
    assert (first.info.pci, first.info.driver, first.info.model) == ("0000:31:00.0", "580.82.07", "NVIDIA L4")


def test_empty_labels_are_no_holder():
    assert all(gpu.holder is None and gpu.shared_by == () for gpu in read(case("A02").text).gpus)
    first, second = read(case("A12").text).gpus
    assert (first.holder, second.holder) == ("lumen/lab-mira-0", None)


def test_each_instance_has_its_own_holder_and_no_whole_card_value_is_made_of_them():
    (gpu,) = read(case("A07").text).gpus
    assert gpu.values == {}
    assert gpu.info.is_mig
    assert [(one.gi, one.profile, one.holder) for one in gpu.instances] == [
        (2, "2g.12gb", "quarry/fluid-grid-0"),
        (5, "1g.6gb", "quarry/frames-b-0"),
    ]
    assert gpu.instances[0].values == {"graphics_engine_active_ratio": 0.873415}


def test_a_whole_card_fact_repeated_for_each_instance_is_the_cards_once():
    page = read(case("A06").text)
    assert [gpu.values for gpu in page.gpus] == [{"vgpu_license_status": 0.0}] * 2
    assert all(one.values == {} for gpu in page.gpus for one in gpu.instances)


def test_time_slicing_gives_the_device_value_once_and_names_all_holders():
    (gpu,) = read(case("A20").text).gpus
    assert gpu.values["power_watts"] == 121.48
    assert gpu.holder is None
    assert gpu.shared_by == tuple(f"bazaar/thumbs-{index}" for index in range(4))


def test_the_attributed_row_wins_over_its_duplicate_in_either_order():
    page = read(row("DCGM_FI_DEV_GPU_UTIL", 10) + row("DCGM_FI_DEV_GPU_UTIL", 71, pod="p", namespace="n"))
    (gpu,) = page.gpus
    assert (gpu.values["utilization_ratio"], gpu.holder) == (0.71, "n/p")
    assert page.per_gpu["GPU-a"]["DCGM_FI_DEV_GPU_UTIL"] == 71
    again = read(row("DCGM_FI_DEV_GPU_UTIL", 71, pod="p", namespace="n") + row("DCGM_FI_DEV_GPU_UTIL", 10))
    assert again.per_gpu["GPU-a"]["DCGM_FI_DEV_GPU_UTIL"] == 71


def test_exported_labels_name_the_workload_and_plain_ones_then_the_exporter():
    page = read(
        row("DCGM_FI_DEV_GPU_UTIL", 1, pod="dcgm-x", namespace="mon", exported_pod="train-0", exported_namespace="ml")
        + row("DCGM_FI_DEV_GPU_UTIL", 1, uuid="GPU-b", pod="dcgm-x", namespace="mon")
    )
    assert [gpu.holder for gpu in page.gpus] == ["ml/train-0", None]


def test_blanks_of_all_three_types_are_dropped_and_counted():
    page = read(
        row("DCGM_FI_DEV_GPU_TEMP", "2147483632")
        + row("DCGM_FI_DEV_POWER_USAGE", "140737488355329.000000")
        + row("DCGM_FI_PROF_PCIE_TX_BYTES", "9223372036854775792")
        + row("DCGM_FI_DEV_FAN_SPEED", "9.223372036854776e+18")
        + row("DCGM_FI_DEV_SM_CLOCK", "NaN")
        + row("DCGM_FI_PROF_PCIE_RX_BYTES", "2147483633")
    )
    assert dict(page.gpus[0].values) == {"pcie_receive_bytes_per_second": 2147483633.0}
    assert (page.blanks, sum(page.bad_samples.values())) == (5, 5)
    assert read(case("A18").text).blanks == case("A18").counts["blank_series"]


def test_garbage_out_of_range_is_dropped_and_counted():
    page = read(row("DCGM_FI_DEV_GPU_UTIL", 4294967295) + row("DCGM_FI_PROF_SM_ACTIVE", 87.3))
    assert page.gpus[0].values == {}
    assert page.bad_samples == {"utilization_ratio": 1, "sm_active_ratio": 1}
    assert page.per_gpu["GPU-a"] == {"DCGM_FI_DEV_GPU_UTIL": None, "DCGM_FI_PROF_SM_ACTIVE": None}


def test_zero_nvlink_on_all_beside_activity_is_a_gap_and_on_idle_gpus_is_a_value():
    busy = read(case("A10").text)
    assert busy.traffic_gap
    assert not any(key.startswith("nvlink_") for gpu in busy.gpus for key in gpu.values)
    idle = read(
        "".join(
            row("DCGM_FI_PROF_NVLINK_TX_BYTES", 0, uuid=uuid) + row("DCGM_FI_DEV_GPU_UTIL", 0, uuid=uuid)
            for uuid in ("GPU-a", "GPU-b")
        )
    )
    assert [gpu.values["nvlink_transmit_bytes_per_second"] for gpu in idle.gpus] == [0.0, 0.0]


def test_the_mask_of_clock_events_becomes_one_value_a_reason():
    (gpu,) = read(row("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 68)).gpus
    active = {key for key, value in gpu.values.items() if value}
    assert active == {"clock_event_active/sw_power_cap", "clock_event_active/hw_thermal"}


def test_new_names_of_4_6_are_the_same_metrics():
    (gpu,) = read(row("DCGM_FI_DEV_BOARD_POWER_WATTS", 300) + row("DCGM_FI_PROF_SM_UTIL_RATIO", 0.5)).gpus
    assert dict(gpu.values) == {"power_watts": 300.0, "sm_active_ratio": 0.5}


def test_a_link_row_is_kept_by_its_link():
    (gpu,) = read(row("DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", 7, nvlink="3")).gpus
    assert dict(gpu.values) == {"nvlink_crc_errors_total/3": 7.0}


def test_the_sticky_gauge_gives_one_event_over_five_scrapes():
    reader, gauge = DcgmReader(), XidGauge()
    found = [gauge.changes(reader.read(block), at=START) for block in blocks(case("A14").text)]
    assert [[(event.code, event.source) for event in events] for events in found] == [
        [], [(31, EventSource.EXPORTER)], [], [], [],
    ]  # fmt: skip


def test_the_first_code_of_a_series_that_was_absent_is_an_event():
    gauge = XidGauge()
    assert gauge.changes(read(row("DCGM_FI_DEV_GPU_UTIL", 0)), at=START) == []
    (event,) = gauge.changes(read(row("DCGM_FI_DEV_XID_ERRORS", 79, err_msg="GPU fell off")), at=START)
    assert (event.code, event.details["message"]) == (79, "GPU fell off")


def test_a_code_standing_at_the_first_scrape_is_the_past():
    page = read(row("DCGM_FI_DEV_XID_ERRORS", 79))
    assert XidGauge().changes(page, at=START) == []
    assert [event.code for event in standing_codes(page.gpus, at=START)] == [79]
