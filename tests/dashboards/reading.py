"""Reads the committed dashboards: their panels, queries and variables, and fills in what Grafana would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DASHBOARDS = ROOT / "dashboards"
EXPORTED = {
    line.split()[2]
    for page in ("metrics-daemon.txt", "metrics-agent.txt")
    for line in (ROOT / "tests" / "golden" / page).read_text(encoding="utf-8").splitlines()
    if line.startswith("# TYPE ")
}
_ANYTHING: Mapping[str, str] = {"__rate_interval": "1m", "__range": "6h", "__interval": "15s"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One PromQL query of a dashboard, and where it stands."""

    sheet: str
    place: str
    expression: str
    is_instant: bool = False

    def __str__(self) -> str:
        return f"{self.sheet}-{self.place}"


def read(name: str) -> dict[str, Any]:
    """One committed dashboard."""
    value: dict[str, Any] = json.loads((DASHBOARDS / name).read_text(encoding="utf-8"))
    return value


def panels_of(sheet: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Its panels, headings included."""
    yield from sheet["panels"]


def charts_of(sheet: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Its panels without the headings."""
    yield from (panel for panel in panels_of(sheet) if panel["type"] != "row")


def asked_of(sheet: dict[str, Any]) -> Iterator[Asked]:
    """Every PromQL query: of panels and of annotations."""
    for panel in charts_of(sheet):
        for target in panel["targets"]:
            if "expr" in target:
                place = f"{panel['title']}-{target['refId']}"
                yield Asked(sheet["uid"], place, target["expr"], bool(target.get("instant")))
    for annotation in sheet["annotations"]["list"]:
        if "expr" in annotation:
            yield Asked(sheet["uid"], f"annotation {annotation['name']}", annotation["expr"])


def filled_in(expression: str, chosen: Mapping[str, str] | None = None) -> str:
    """The query as Grafana sends it; what was not chosen is everything."""
    values = {**_ANYTHING, **(chosen or {})}
    return re.sub(r"\$\{?(\w+)\}?", lambda found: values.get(found[1], ".*"), expression)


def names_in(expression: str) -> set[str]:
    """Metrics that it asks for."""
    return set(re.findall(r"\btrimtab_\w+", expression))
