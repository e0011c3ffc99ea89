"""Dashboards as built: what is committed is what the code says, by Grafana's types, PromQL's grammar and our rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import promql_parser
import pytest
from dashboards.build import SHEETS, built
from tests.dashboards.reading import (
    DASHBOARDS,
    EXPORTED,
    Asked,
    asked_of,
    charts_of,
    filled_in,
    names_in,
    panels_of,
    read,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "grafana"
FILES = sorted(path.name for path in DASHBOARDS.glob("*.json"))
ALL = [(name, panel) for name in FILES for panel in charts_of(read(name))]
ANNOTATION_OF_A_SOURCE = {"expr", "step", "tagKeys", "textFormat", "titleFormat", "rawQuery", "rawSql", "format"}
QUERIES = [asked for name in FILES for asked in asked_of(read(name))]


def schema(name: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(json.loads((FIXTURES / f"{name}.schema.json").read_text()))


@pytest.fixture(scope="module")
def whole() -> jsonschema_rs.Validator:
    return schema("dashboard")


def errors(validator: jsonschema_rs.Validator, value: object) -> list[str]:
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message[:300]}" for error in validator.iter_errors(value)
    ]


def named(value: Any) -> str:
    return f"{value[0]}-{value[1]['title']}" if isinstance(value, tuple) else str(value)


def test_what_is_committed_is_what_the_code_builds() -> None:
    texts = {name: (DASHBOARDS / name).read_text(encoding="utf-8") for name in FILES}
    assert texts == dict(built()), "run: make dashboards"


@pytest.mark.parametrize("name", FILES)
def test_a_dashboard_is_what_grafanas_own_types_say(name: str, whole: jsonschema_rs.Validator) -> None:
    sheet = read(name)
    for annotation in sheet["annotations"]["list"]:
        # Grafana's type of an annotation knows its built-in source only ("this should be a regular DataQuery").
        assert {annotation.pop(key) is not None for key in ANNOTATION_OF_A_SOURCE & annotation.keys()} == {True}
    assert errors(whole, sheet) == []


@pytest.mark.parametrize(
    "broken",
    [
        lambda sheet: sheet.update(refresh=10),
        lambda sheet: sheet["panels"][1]["gridPos"].update(w="12"),
        lambda sheet: sheet["templating"]["list"][0].update(hide="no"),
        lambda sheet: sheet.update(pannels=[]),
    ],
    ids=["refresh", "width", "hide", "unknown"],
)
def test_the_schema_sees_what_is_wrong(broken: Any, whole: jsonschema_rs.Validator) -> None:
    sheet = read(FILES[0])
    broken(sheet)
    assert errors(whole, sheet) != []


@pytest.mark.parametrize(("name", "panel"), ALL, ids=[named(one) for one in ALL])
def test_a_panels_options_are_those_of_its_kind(name: str, panel: dict[str, Any]) -> None:
    assert errors(schema(panel["type"]), panel["options"]) == []
    own_fields = FIXTURES / f"{panel['type']}-field.schema.json"
    if own_fields.exists():
        assert errors(schema(f"{panel['type']}-field"), panel["fieldConfig"]["defaults"].get("custom", {})) == []


@pytest.mark.parametrize("asked", QUERIES, ids=str)
def test_a_query_is_promql_and_names_only_what_is_exported(asked: Asked) -> None:
    promql_parser.parse(filled_in(asked.expression))
    assert names_in(asked.expression) <= EXPORTED
    assert names_in(asked.expression), "a query without a metric says nothing"


@pytest.mark.parametrize("asked", QUERIES, ids=str)
def test_a_query_asks_only_for_what_was_chosen(asked: Asked) -> None:
    for selector in re.findall(r"trimtab_\w+\{([^}]*)\}", asked.expression):
        assert 'cluster=~"$cluster"' in selector or 'instance=~"$instance"' in selector
    assert len(re.findall(r"trimtab_\w+", asked.expression)) == len(re.findall(r"trimtab_\w+\{", asked.expression))


@pytest.mark.parametrize("asked", QUERIES, ids=str)
def test_a_gpu_is_counted_once_however_many_scrape_it(asked: Asked) -> None:
    plain = re.sub(r"\b(rate|increase|count_over_time)\(", "", asked.expression)
    for before in re.findall(r"([\w() ,]*)\(trimtab_(?:gpu|node)_", plain):
        assert re.search(r"(max|min) by \([^)]*node[^)]*\) $", before), f"not made one before it is added: {before}"


@pytest.mark.parametrize("asked", QUERIES, ids=str)
def test_a_rate_is_taken_of_counters_only_and_over_grafanas_own_interval(asked: Asked) -> None:
    for function, name, span in re.findall(r"(rate|increase)\((\w+)\{[^}]*\}\[([^]]+)\]\)", asked.expression):
        assert name.endswith("_total")
        assert span == ("$__rate_interval" if function == "rate" else "$__range")


@pytest.mark.parametrize(("name", "panel"), ALL, ids=[named(one) for one in ALL])
def test_a_panel_has_a_title_a_unit_and_a_sentence(name: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["title"] == panel["title"].strip()
    assert panel["description"].endswith(".")
    assert len(panel["description"]) > len(panel["title"])
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert [target["refId"] for target in panel["targets"]] == list("ABCDEFGH"[: len(panel["targets"])])
    assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


@pytest.mark.parametrize("name", FILES)
def test_titles_are_said_once_and_nothing_lies_on_top_of_another(name: str) -> None:
    sheet = read(name)
    titles = [panel["title"] for panel in charts_of(sheet)]
    assert len(titles) == len(set(titles))
    assert len({panel["id"] for panel in panels_of(sheet)}) == len(list(panels_of(sheet)))
    taken: set[tuple[int, int]] = set()
    for panel in panels_of(sheet):
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        cells = set(cells_of(panel["gridPos"]))
        assert not cells & taken, panel["title"]
        taken |= cells


def cells_of(place: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(place["x"], place["x"] + place["w"]):
        for y in range(place["y"], place["y"] + place["h"]):
            yield x, y


@pytest.mark.parametrize("name", FILES)
def test_a_dashboard_can_be_provisioned_and_leads_to_all_others(name: str) -> None:
    sheet = read(name)
    assert f"{sheet['uid']}.json" == name
    assert "__inputs" not in sheet
    assert sheet["editable"] is False
    assert sheet["tags"] == ["trimtab"]
    assert "id" not in sheet
    others = [link for link in sheet["links"] if link["type"] == "dashboards" and link["tags"] == ["trimtab"]]
    assert others
    assert others[0]["includeVars"]
    assert others[0]["keepTime"]
    assert "placement" not in others[0]


@pytest.mark.parametrize("sheet", [sheet for sheet in SHEETS if not sheet.is_history], ids=lambda sheet: sheet.uid)
def test_what_comes_from_prometheus_chooses_its_source_and_shows_findings(sheet: Any) -> None:
    value = read(f"{sheet.uid}.json")
    source, *others = value["templating"]["list"]
    assert (source["type"], source["query"], source["name"]) == ("datasource", "prometheus", "datasource")
    assert source["current"]["value"] == "trimtab-prometheus"
    assert all(one["datasource"]["uid"] == "${datasource}" for one in others)
    assert "Findings" in [one["name"] for one in value["annotations"]["list"]]
    assert any(link["url"] == "${page}/" for link in value["links"] if link["type"] == "link")


def test_a_dashboard_of_single_things_never_asks_for_a_whole_fleet_at_once() -> None:
    for name, variable, is_multi in (("node", "node", True), ("gpu", "gpu", False), ("job", "workload", False)):
        found = {one["name"]: one for one in read(f"trimtab-{name}.json")["templating"]["list"]}[variable]
        assert (found["includeAll"], found["multi"]) == (False, is_multi)


def test_every_address_within_a_dashboard_leads_somewhere() -> None:
    known = {read(name)["uid"]: {one["name"] for one in read(name)["templating"]["list"]} for name in FILES}
    for name in FILES:
        for uid, rest in re.findall(r'"/d/([\w-]+)\?([^"]*)"', (DASHBOARDS / name).read_text(encoding="utf-8")):
            assert uid in known, f"{name} leads to {uid}"
            chosen = set(re.findall(r"var-(\w+)=", rest))
            assert chosen <= known[uid]
            assert "node" in chosen or "gpu" not in chosen, "a GPU is listed under its node"
            assert "${__url_time_range}" in rest
