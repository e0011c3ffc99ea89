"""dcgm-exporter's names: its units, labels and types, so that dashboards made for it go on working."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from tests.builders import a_reading, a_window, an_xid, gpu_uuid
from tests.fakes.exported import a_daemon_view, an_agent_view, every_value
from tests.fakes.people import NOW, a_board

from trimtab.collect.dcgm import DcgmReader
from trimtab.model.metric import CATALOGUE, alias_index
from trimtab.model.reading import EventSource, GpuInfo, MigReading
from trimtab.show.metrics import agent_exposition, daemon_exposition
from trimtab.show.metrics_dcgm import COUNTER_NAMES

QUERIES = (Path(__file__).parent.parent / "fixtures" / "stock-dcgm-dashboard.promql").read_text().splitlines()
VALUES = {
    "utilization_ratio": 0.97,
    "sm_active_ratio": 0.5,
    "memory_used_bytes": 3 * 1048576.0,
    "memory_free_bytes": 5 * 1048576.0,
    "sm_clock_hertz": 1.755e9,
    "temperature_celsius": 62.0,
    "power_watts": 431.2,
    "energy_joules_total": 12.5,
    "clock_event_active/sw_power_cap": 1.0,
    "clock_event_active/hw_thermal": 1.0,
    "clock_event_active/idle": 0.0,
    "nvlink_crc_errors_total/0": 2.0,
    "nvlink_crc_errors_total/1": 3.0,
    "nvlink_effective_bit_error_ratio/0": 1e-12,
}
INFO = GpuInfo(uuid="GPU-1", pci="0000:3b:00.0", model="NVIDIA H100 80GB HBM3", index=3, minor=4, driver="570.1")


def a_page(**changes: object) -> dict[str, dict[str, float]]:
    """Sample name -> {labels as text: value} of an agent's page, dcgm-exporter's names alone."""
    reading = replace(a_reading("gpu-00", 3, values=VALUES), info=INFO, **changes)
    text = agent_exposition(an_agent_view(gpus=(reading,)), has_dcgm_names=True)[0].decode()
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(DCGM_\w+)\{(.*)\} (\S+)", line)
        if match:
            found.setdefault(match[1], {})[match[2]] = float(match[3])
    return found


def value(page: dict[str, dict[str, float]], name: str) -> float:
    (found,) = page[name].values()
    return found


def test_values_are_in_dcgm_exporters_units() -> None:
    page = a_page()
    for name, there in {
        "DCGM_FI_DEV_GPU_UTIL": 97.0, "DCGM_FI_PROF_SM_ACTIVE": 0.5, "DCGM_FI_DEV_FB_USED": 3.0,
        "DCGM_FI_DEV_FB_FREE": 5.0, "DCGM_FI_DEV_SM_CLOCK": 1755.0, "DCGM_FI_DEV_GPU_TEMP": 62.0,
        "DCGM_FI_DEV_POWER_USAGE": 431.2, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 12500.0,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 0x44, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 0x44,
        "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC": 5.0,
    }.items():  # fmt: skip
        assert value(page, name) == there, name
    assert "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT" not in page, "a sum of ratios is no ratio"
    assert "DCGM_FI_DEV_MEMORY_TEMP" not in page, "what is not known is not exported"


def test_labels_are_dcgm_exporters() -> None:
    (labels,) = a_page(holder="research/llama-70b-0")["DCGM_FI_DEV_GPU_TEMP"]
    assert labels == (
        'DCGM_FI_DRIVER_VERSION="570.1",Hostname="gpu-00",UUID="GPU-1",device="nvidia4",gpu="3",'
        'modelName="NVIDIA H100 80GB HBM3",namespace="research",pci_bus_id="00000000:3B:00.0",pod="llama-70b-0"'
    )
    (labels,) = a_page(holder="48113")["DCGM_FI_DEV_GPU_TEMP"]
    assert 'hpc_job="48113"' in labels
    assert "pod=" not in labels


def test_mig_instances_have_their_profile_and_number() -> None:
    instance = MigReading(gi=7, ci=0, profile="1g.10gb", values={"sm_active_ratio": 0.25}, holder="research/mig-0")
    active = a_page(instances=(instance,))["DCGM_FI_PROF_SM_ACTIVE"]
    (labels,) = [labels for labels in active if "GPU_I_ID" in labels]
    assert active[labels] == 0.25
    assert 'GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"' in labels
    assert 'pod="mig-0"' in labels


def test_our_own_exporter_reader_reads_the_same_values_back() -> None:
    """Out and in again by the same catalogue: every alias that is published means what it says."""
    reading = replace(a_reading("gpu-00", 3, values={**VALUES, "xid_last_code": 79.0}), info=INFO)
    text = agent_exposition(an_agent_view(gpus=(reading,)), has_dcgm_names=True)[0].decode()
    ours = "\n".join(line for line in text.splitlines() if "DCGM_" in line) + "\n"
    (back,) = DcgmReader().read(ours).gpus
    assert back.info.uuid == "GPU-1"
    for key, there in {**VALUES, "xid_last_code": 79.0}.items():
        if not key.startswith(("nvlink", "clock_event")):
            assert back.values[key] == pytest.approx(there, rel=0.01), key


def test_types_are_those_of_dcgm_exporters_own_list() -> None:
    reading = a_reading("gpu-00", 0, values={**every_value(), "remapped_rows/uncorrectable": 1.0})
    text = agent_exposition(an_agent_view(gpus=(reading,)), has_dcgm_names=True)[0].decode()
    types = dict(re.findall(r"^# TYPE (DCGM_\w+) (\w+)$", text, re.MULTILINE))
    for name in ("TOTAL_ENERGY_CONSUMPTION", "PCIE_REPLAY_COUNTER", "NVLINK_BANDWIDTH_TOTAL",
                 "UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS"):  # fmt: skip
        assert types[f"DCGM_FI_DEV_{name}"] == "counter"
    for name in ("DEV_GPU_TEMP", "DEV_XID_ERRORS", "DEV_FB_USED", "PROF_GR_ENGINE_ACTIVE", "PROF_PCIE_TX_BYTES",
                 "DEV_ROW_REMAP_FAILURE", "DEV_VGPU_LICENSE_STATUS"):  # fmt: skip
        assert types[f"DCGM_FI_{name}"] == "gauge"
    assert not [name for name, kind in types.items() if kind == "untyped"]
    assert {family.name for family in text_string_to_metric_families(text)} >= {"DCGM_FI_DEV_GPU_TEMP"}


def test_openmetrics_stays_well_formed() -> None:
    """There a counter must end in _total, which these names do not: they are of unknown type."""
    body, content_type = agent_exposition(
        an_agent_view(), accept="application/openmetrics-text; version=1.0.0", has_dcgm_names=True
    )
    assert content_type.startswith("application/openmetrics-text")
    types = {family.name: family.type for family in parse_openmetrics(body.decode())}
    assert types["DCGM_FI_DEV_PCIE_REPLAY_COUNTER"] == "unknown"
    assert types["DCGM_FI_DEV_GPU_TEMP"] == "gauge"


def test_every_published_name_is_an_alias_of_the_catalogue() -> None:
    reading = a_reading("gpu-00", 0, values=every_value())
    text = agent_exposition(an_agent_view(gpus=(reading,)), has_dcgm_names=True)[0].decode()
    told = set(re.findall(r"^(DCGM_\w+)\{", text, re.MULTILINE))
    masks = {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"}
    assert told - masks <= set(alias_index())
    assert len(told) > 70
    assert set(alias_index()) >= COUNTER_NAMES
    assert len({metric.name for metric in CATALOGUE if metric.dcgm}) > 60


def test_without_the_setting_there_are_none_of_them() -> None:
    assert b"DCGM_" not in agent_exposition(an_agent_view())[0]
    assert b"DCGM_" not in daemon_exposition(a_daemon_view())[0]


def test_the_xid_gauge_holds_the_last_code_seen() -> None:
    view = an_agent_view(gpus=(a_reading("gpu-00", 0),))
    never = agent_exposition(view, has_dcgm_names=True)[0].decode()
    assert re.search(r"^DCGM_FI_DEV_XID_ERRORS\{.*\} 0\.0$", never, re.MULTILINE)
    facts = replace(view.facts, last_xids={gpu_uuid("gpu-00", 0): 79})
    after = agent_exposition(replace(view, facts=facts), has_dcgm_names=True)[0].decode()
    assert re.search(r"^DCGM_FI_DEV_XID_ERRORS\{.*\} 79\.0$", after, re.MULTILINE)


def test_the_daemons_page_knows_the_last_code_from_the_events() -> None:
    told = an_xid(48, gpu=gpu_uuid("gpu-00", 0))
    wrong = replace(told, code=79, source=EventSource.USERSPACE)
    window = a_window({"gpu-00": [a_reading("gpu-00", 0)]}, events=(("gpu-00", told), ("gpu-00", wrong)), at=NOW)
    view = a_daemon_view(window=window, board=a_board(snapshot=None, window=window, findings=()))
    text = daemon_exposition(view, has_dcgm_names=True)[0].decode()
    assert re.search(r'^DCGM_FI_DEV_XID_ERRORS\{.*Hostname="gpu-00".*\} 48\.0$', text, re.MULTILINE)


def test_a_silent_nodes_values_are_not_passed_off_as_fresh_under_these_names_either() -> None:
    view = a_daemon_view()
    board = view.board
    assert board is not None
    silent = replace(board, nodes=tuple(replace(row, is_silent=True) for row in board.nodes))
    assert b"DCGM_" not in daemon_exposition(replace(view, board=silent), has_dcgm_names=True)[0]


@pytest.mark.parametrize("query", [line for line in QUERIES if line and not line.startswith("#")])
def test_a_stock_dashboards_queries_name_what_is_there(query: str) -> None:
    reading = replace(a_reading("gpu-00", 0, values=every_value(), holder="research/a-0"), info=INFO)
    text = agent_exposition(an_agent_view(gpus=(reading,)), has_dcgm_names=True)[0].decode()
    for name in re.findall(r"DCGM_\w+", query):
        (labels,) = re.findall(rf"^{name}\{{(.*)\}} \S+$", text, re.MULTILINE)
        for label in re.findall(r"[{,]\s*(\w+)\s*=~", query):
            assert label in ("instance", "job") or f'{label}="' in labels, (name, label)
