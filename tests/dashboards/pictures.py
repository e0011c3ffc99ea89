"""`make dashboards`: pictures of each dashboard's data, drawn from the same queries, into docs/pictures/dashboards."""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.dashboards.live import SCRAPE_SECONDS, Fleet, eventually, live_fleet
from tests.dashboards.past import write_past
from tests.dashboards.reading import DASHBOARDS, ROOT, charts_of, filled_in, read
from tests.dashboards.svg import Grid, Line, picture
from tests.dashboards.test_live import chosen, is_told_of_all
from tests.dashboards.test_sql import Past
from tests.postgres import PostgresServer

from trimtab.store.database import open_database

PICTURES = ROOT / "docs" / "pictures" / "dashboards"
LIVE_SECONDS = 75.0
"""The demo's stories take about forty; some quiet after them shows that they are over."""


ALL = {"cluster": "hall-a", "node": "gpu-.*"}
SCENES = {
    "trimtab-node": {"node": "gpu-07"},
    "trimtab-gpu": {"node": "gpu-07"},
    "trimtab-job": {"workload": "research/vision-3"},
    "trimtab-daemon": {"node": ".*"},
    "trimtab-faults": {"node": ".*"},
}
"""Where the demo's stories play: a fan fails on gpu-07, and one rank of vision-3 is slow."""


def lines_of(fleet: Fleet, panel: Mapping[str, Any], values: Mapping[str, str]) -> list[Line]:
    """The panel's series, named as its legend says."""
    found = []
    for target in panel["targets"]:
        for one in fleet.series(filled_in(target["expr"], values)):
            points = [(float(moment), float(value)) for moment, value in one["values"] if value != "NaN"]
            if points:
                found.append(Line(legend(target.get("legendFormat", ""), one["metric"]), points))
    return found


def legend(pattern: str, labels: Mapping[str, str]) -> str:
    """`{{node}} GPU {{index}}` with the labels in it."""
    if pattern == "__auto":
        return ", ".join(f"{name}={value}" for name, value in labels.items() if name != "__name__") or "value"
    return re.sub(r"\{\{(\w+)\}\}", lambda one: short(labels.get(one[1], "")), pattern).strip()


def short(value: str) -> str:
    """A UUID's first part is enough for a picture."""
    return value[:12] if value.startswith("GPU-") else value


def grid_of(fleet: Fleet, panel: Mapping[str, Any], values: Mapping[str, str]) -> Grid:
    """The panel's rows at the moment that has most: queries joined on their labels, columns named and ordered."""
    step = next(step for step in panel["transformations"] if step["id"] == "organize")["options"]
    names = sorted(step["renameByName"], key=step["indexByName"].__getitem__)
    asked = [(target["refId"], fleet.series(filled_in(target["expr"], values))) for target in panel["targets"]]
    moments = Counter(moment for one in asked[0][1] for moment, _ in one["values"])
    moment = max(moments, key=lambda one: (moments[one], one), default=0.0)
    rows: dict[frozenset[tuple[str, str]], dict[str, str]] = {}
    for ref_id, series in asked:
        for one in series:
            value = dict(one["values"]).get(moment)
            if value is not None:
                row = _row(rows, one["metric"])
                row["Value" if len(asked) == 1 else f"Value #{ref_id}"] = f"{float(value):.1f}".removesuffix(".0")
    titles = [step["renameByName"][name] for name in names]
    return Grid(titles, [[short(row.get(name, "")) for name in names] for row in rows.values()])


def _row(rows: dict[frozenset[tuple[str, str]], dict[str, str]], labels: Mapping[str, str]) -> dict[str, str]:
    """The row that has these labels already, else a new one."""
    key = frozenset(labels.items())
    found = next((row for held, row in rows.items() if key <= held), None)
    if found is None:
        found = rows[key] = dict(labels)
    return found


def draw_live(fleet: Fleet, name: str) -> str:
    """One dashboard of Prometheus's."""
    sheet = read(name)
    instance = fleet.page.removeprefix("http://")
    values = chosen(fleet, sheet, {**ALL, "instance": instance, **SCENES.get(sheet["uid"], {})})
    data: dict[int, Sequence[Line] | Grid] = {}
    for panel in charts_of(sheet):
        make = grid_of if panel["type"] == "table" else lines_of
        data[panel["id"]] = make(fleet, panel, values)
    return picture(sheet, data)


def draw_past(past: Past, name: str) -> str:
    """One dashboard of PostgreSQL's."""
    sheet = read(name)
    data: dict[int, Sequence[Line] | Grid] = {}
    for panel in charts_of(sheet):
        columns, rows = past.ask(panel["targets"][0]["rawSql"])
        if panel["type"] == "table":
            data[panel["id"]] = Grid(columns, [["" if one is None else _plain(one) for one in row] for row in rows])
        elif columns[0] == "time":
            data[panel["id"]] = _over_time(columns, rows)
        elif len(columns) == 1:
            data[panel["id"]] = [Line(columns[0], [(0.0, float(rows[0][0] or 0))])]
        else:
            data[panel["id"]] = [Line(str(row[0]), [(0.0, float(row[1]))]) for row in rows]
    return picture(sheet, data)


def _over_time(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[Line]:
    has_names = columns[1] == "metric"
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for column, value in zip(columns[2:] if has_names else columns[1:], row[2 if has_names else 1 :], strict=True):
            if value is not None:
                name = str(row[1]) if has_names else column
                found.setdefault(name, []).append((row[0].timestamp(), float(value)))
    return [Line(name, points) for name, points in found.items()]


def _plain(value: object) -> str:
    return value.strftime("%Y-%m-%d %H:%M") if isinstance(value, datetime) else str(value)


def main() -> None:
    """Draw them all."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    names = sorted(path.name for path in DASHBOARDS.glob("*.json"))
    with tempfile.TemporaryDirectory(prefix="trimtab-pictures-") as scratch, live_fleet(Path(scratch)) as fleet:
        eventually(lambda: is_told_of_all(fleet), said=lambda: "the demo's stories never ended")
        eventually(lambda: time.time() > fleet.began_at_seconds + LIVE_SECONDS, said=lambda: "time stands still")
        for name in (one for one in names if "history" not in one):
            _write(name, draw_live(fleet, name))
    server = PostgresServer()
    try:
        url = server.new_database()
        with tempfile.TemporaryDirectory(prefix="trimtab-pictures-") as scratch:
            database = open_database(url, state_directory=Path(scratch))
            past = Past(url, *write_past(database))
            database.close()
            for name in (one for one in names if "history" in one):
                _write(name, draw_past(past, name))
            past.close()
    finally:
        server.stop()


def _write(name: str, text: str) -> None:
    path = PICTURES / f"{name.removesuffix('.json')}.svg"
    path.write_text(text, encoding="utf-8")
    print(f"{path.relative_to(ROOT)}  {len(text) / 1024:.0f} kB, a point each {SCRAPE_SECONDS} s")


if __name__ == "__main__":
    main()
