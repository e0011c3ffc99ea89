"""Every query of every dashboard, put to a real Prometheus that scrapes the demo: each is answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests
from tests.dashboards.live import RATE_INTERVAL, Fleet, eventually
from tests.dashboards.reading import DASHBOARDS, Asked, asked_of, filled_in, read

FILES = sorted(path.name for path in DASHBOARDS.glob("*.json") if "history" not in path.name)
FROM_ELSEWHERE = {
    "Writes-A",
    "Lease-A",
    "Watches and lists-A",
    "Watches and lists-B",
    "Errors of watches and lists-A",
    "Nodes of each pool that may still be cordoned-A",
    "Stopped, left alone, not ours-A",
    "Messages by state-A",
    "Oldest message that waits-A",
    "Kept from paging-B",
    "Alertmanagers that do not take our alerts-A",
    "Who pages-A",
}
"""Answered from the reviewed page of a daemon on Kubernetes: the demo has no API, no pools, no open breaker, and pages
nobody unless it is told to."""

INSTANCE_LABELS = "Hostname, gpu, GPU_I_ID, GPU_I_PROFILE"
STOCK_LABELS = 'Hostname=~".*", gpu=~".*"'
STOCK = {
    "temperature": f"max by (Hostname, gpu, UUID) (DCGM_FI_DEV_GPU_TEMP{{{STOCK_LABELS}}})",
    "mean temperature": f"avg(DCGM_FI_DEV_GPU_TEMP{{{STOCK_LABELS}}})",
    "power": f"max by (Hostname, gpu, UUID) (DCGM_FI_DEV_POWER_USAGE{{{STOCK_LABELS}}})",
    "power in all": f"sum(max by (gpu) (DCGM_FI_DEV_POWER_USAGE{{{STOCK_LABELS}}}))",
    "SM clock": f"max by (Hostname, UUID, gpu) (1000000 * DCGM_FI_DEV_SM_CLOCK{{{STOCK_LABELS}}})",
    "utilisation": f"max by ({INSTANCE_LABELS}) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{STOCK_LABELS}}})",
    "tensor cores": f"max by ({INSTANCE_LABELS}) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{STOCK_LABELS}}})",
    "memory used": f"max by ({INSTANCE_LABELS}) (DCGM_FI_DEV_FB_USED{{{STOCK_LABELS}}})",
    "utilisation, older": f"avg by (instance, gpu) (DCGM_FI_DEV_GPU_UTIL{{{STOCK_LABELS}}})",
    "its variable Hostname": "group by (Hostname) (DCGM_FI_DEV_FB_FREE)",
    "its variable gpu": f"group by (gpu) (DCGM_FI_DEV_FB_FREE{{{STOCK_LABELS}}})",
}
"""What the dashboard that comes with dcgm-exporter (Grafana 12239) asks for, by metric and label."""


def label_values(query: str) -> tuple[str, str]:
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    assert found is not None, query
    return found[1], found[2]


def chosen(fleet: Fleet, sheet: dict[str, Any], wanted: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """What a person sees: all where that can be chosen, else one; of nodes one that something is wrong with."""
    values = {"__rate_interval": RATE_INTERVAL, "__range": "120s", "__interval": "3s"}
    for variable in sheet["templating"]["list"]:
        if variable["type"] != "query":
            continue
        selector, label = label_values(filled_in(variable["query"]["query"], values))
        found = fleet.label_values(selector, label)
        assert found, f"{variable['name']}: nothing to choose from {selector}"
        if variable["name"] in (wanted or {}):
            values[variable["name"]] = (wanted or {})[variable["name"]]
            continue
        values[variable["name"]] = ".*" if variable["includeAll"] else _one(fleet, variable["name"], found)
    return values


def _one(fleet: Fleet, name: str, found: list[str]) -> str:
    if name != "node":
        return found[-1]
    return fleet.label_values('trimtab_finding_info{cluster="hall-a", node=~"gpu-.+"}', "node")[0]


def unanswered(fleet: Fleet, left: Mapping[Asked, str]) -> Iterator[Asked]:
    for asked, expression in left.items():
        if not fleet.series(expression):
            yield asked


@pytest.mark.parametrize("name", FILES)
def test_every_variable_and_every_panel_is_answered(name: str, fleet: Fleet) -> None:
    sheet = read(name)
    eventually(lambda: is_told_of_all(fleet), said=lambda: f"findings, commands and outcomes never came: {fleet}")
    values = chosen(fleet, sheet)
    left = {asked: filled_in(asked.expression, values) for asked in asked_of(sheet)}
    assert left

    def look() -> bool:
        for asked in set(left) - set(unanswered(fleet, left)):
            del left[asked]
        return not left

    eventually(look, said=lambda: "never answered:\n" + "\n".join(f"{asked}: {text}" for asked, text in left.items()))


def is_told_of_all(fleet: Fleet) -> bool:
    """Until the demo's stories have been found, answered and measured."""
    names = ("trimtab_finding_info", "trimtab_command_info", "trimtab_command_saved_gpu_seconds")
    return all(fleet.series(f'{name}{{cluster="hall-a"}}') for name in names)


def test_only_what_a_simulated_cluster_lacks_is_answered_from_elsewhere(fleet: Fleet) -> None:
    eventually(lambda: is_told_of_all(fleet), said=lambda: "findings, commands and outcomes never came")
    elsewhere = set()
    for name in FILES:
        sheet = read(name)
        values = {**chosen(fleet, sheet), "cluster": "hall-a", "instance": fleet.page.removeprefix("http://")}
        for asked in asked_of(sheet):
            if not fleet.series(filled_in(asked.expression, values)):
                elsewhere.add(asked.place)
    assert elsewhere <= FROM_ELSEWHERE


@pytest.mark.parametrize("what", STOCK)
def test_a_stock_dashboard_of_dcgm_exporter_is_answered_through_the_aliases(what: str, fleet: Fleet) -> None:
    eventually(lambda: fleet.series(STOCK[what]), said=lambda: f"never answered: {STOCK[what]}", seconds=60)
    for one in fleet.series(STOCK[what]):
        assert all(one["metric"].get(label) for label in {"Hostname", "gpu"} & one["metric"].keys())


def test_the_aliases_say_the_same_as_our_own_metrics(fleet: Fleet) -> None:
    pairs = {
        "DCGM_FI_DEV_GPU_TEMP": ("trimtab_gpu_temperature_celsius", 1.0),
        "DCGM_FI_DEV_SM_CLOCK": ("trimtab_gpu_sm_clock_hertz", 1e-6),
        "DCGM_FI_DEV_FB_TOTAL": ("trimtab_gpu_memory_total_bytes", 1.0 / 1048576),
    }
    for theirs, (ours, scale) in pairs.items():
        agent = 'job="trimtab-agents"'
        difference = f'max(abs({theirs}{{{agent}}} - on (UUID) label_replace({ours}{{{agent}, gi=""}}, "UUID", "$1", '
        difference += f'"gpu", "(.*)") * {scale}))'
        eventually(lambda asked=difference: fleet.series(asked), said=lambda asked=difference: asked, seconds=60)
        assert max(float(value) for one in fleet.series(difference) for _, value in one["values"]) < 1.0


def test_links_lead_to_pages_that_there_are(fleet: Fleet) -> None:
    eventually(lambda: is_told_of_all(fleet), said=lambda: "findings, commands and outcomes never came")
    assert fleet.page in fleet.label_values("trimtab_page_info", "url")
    found = {
        address for name in FILES for address in re.findall(r'"\$\{page\}([^"]*)"', (DASHBOARDS / name).read_text())
    }
    kinds = {"node": "gpu-07", "gpu": "GPU-1", "workload": "research/vision-3", "Finding": "F1", "Command": "R1"}
    assert found
    for address in found:
        filled = re.sub(r"\$\{__(?:field\.labels|data\.fields)\.(\w+)\}", lambda one: kinds[one[1]], address)
        answer = requests.get(fleet.page + filled, timeout=10)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8"), filled


def test_the_first_xid_of_a_code_is_counted_too(fleet: Fleet) -> None:
    asked = next(one for one in asked_of(read("trimtab-faults.json")) if one.place.startswith("XIDs over the time"))
    text = filled_in(asked.expression, {"__range": "600s"})
    eventually(lambda: fleet.series(text), said=lambda: text)
    counts = {one["metric"]["code"]: float(one["values"][-1][1]) for one in fleet.series(text)}
    assert counts == {"13": 3.0}
