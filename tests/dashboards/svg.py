"""Draws a dashboard's data as SVG: Grafana's grid and forms, with nothing but what the queries answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

COLUMN, ROW, GAP = 50, 30, 6
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A7A00", "#666666")
INK, FAINT, PAPER, CARD = "#1b1f24", "#6b7280", "#f4f5f7", "#ffffff"
SERIES_MAX, BARS_MAX = 12, 10
VIRIDIS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


Area = tuple[int, int, int, int]
"""x, y, width, height."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series: what it is called, and its points (seconds, value)."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: its columns, and its rows as text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def picture(sheet: Mapping[str, Any], data: Mapping[int, Sequence[Line] | Grid]) -> str:
    """The whole dashboard."""
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in sheet["panels"]) * ROW + 44
    width = 24 * COLUMN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="11" role="img">',
        f"<title>{escape(sheet['title'])}</title>",
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        _text(8, 26, sheet["title"], size=18, weight=600),
    ]
    for panel in sheet["panels"]:
        place = panel["gridPos"]
        x, y = place["x"] * COLUMN, place["y"] * ROW + 40
        if panel["type"] == "row":
            parts.append(_text(x + 8, y + 20, panel["title"], size=13, weight=600))
            continue
        parts.append(_panel(panel, data.get(panel["id"], ()), (x, y, place["w"] * COLUMN, place["h"] * ROW)))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Mapping[str, Any], found: Sequence[Line] | Grid, area: Area) -> str:
    x, y, width, height = area
    inside = (x + 12, y + 34, width - 2 * GAP - 16, height - GAP - 42)
    box = f'<rect x="{x + 3}" y="{y + 3}" width="{width - GAP}" height="{height - GAP}" rx="4" fill="{CARD}"/>'
    title = _text(x + 12, y + 20, panel["title"], weight=600)
    drawn = _KINDS[panel["type"]](panel, found, inside) if found else _text(x + 12, y + 44, "no data", fill=FAINT)
    return f"{box}\n{title}\n{drawn}"


def _text(
    x: float, y: float, text: str, *, size: int = 11, fill: str = INK, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def _lines(panel: Mapping[str, Any], found: Sequence[Line], area: Area) -> str:
    x, y, width, height = area
    unit, defaults = _unit(panel), panel["fieldConfig"]["defaults"]
    shown = found[:SERIES_MAX]
    is_stacked = defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal"
    drawn = _stacked(shown) if is_stacked else shown
    values = [value for line in drawn for _, value in line.points]
    low = min([*values, defaults.get("min", min(values))])
    high = max([*values, low + 1e-9])
    first = min(moment for line in drawn for moment, _ in line.points)
    last = max(first + 1, *(moment for line in drawn for moment, _ in line.points))
    left, chart = x + 58, height - 30

    def at(moment: float, value: float) -> str:
        across = left + (moment - first) / (last - first) * (width - 62)
        return f"{across:.1f},{y + chart - (value - low) / (high - low) * (chart - 8):.1f}"

    parts = [_text(left - 6, y + 12, _said(high, unit), fill=FAINT, anchor="end"),
             _text(left - 6, y + chart, _said(low, unit), fill=FAINT, anchor="end"),
             f'<line x1="{left}" y1="{y + chart}" x2="{x + width}" y2="{y + chart}" stroke="#d0d4da"/>']  # fmt: skip
    for index, line in enumerate(drawn):
        path = " ".join(at(*point) for point in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{_colour(index)}" stroke-width="1.4"/>')
    return "\n".join([*parts, _legend(shown, x, y + height - 6, width, len(found) - len(shown))])


def _stacked(found: Sequence[Line]) -> list[Line]:
    sums: dict[float, float] = {}
    stacked = []
    for line in found:
        points = []
        for moment, value in line.points:
            sums[moment] = sums.get(moment, 0.0) + value
            points.append((moment, sums[moment]))
        stacked.append(Line(line.name, points))
    return stacked


def _legend(found: Sequence[Line], x: int, y: int, width: int, left_out: int) -> str:
    parts, across = [], x
    for index, line in enumerate(found):
        need = 18 + 6 * len(line.name)
        if across + need > x + width - 40:
            left_out += len(found) - index
            break
        parts.append(f'<rect x="{across}" y="{y - 8}" width="10" height="3" fill="{_colour(index)}"/>')
        parts.append(_text(across + 14, y - 3, line.name, size=10, fill=FAINT))
        across += need
    if left_out > 0:
        parts.append(_text(across, y - 3, f"and {left_out} more", size=10, fill=FAINT))
    return "\n".join(parts)


def _number(panel: Mapping[str, Any], found: Sequence[Line], area: Area) -> str:
    x, y, width, height = area
    said = [_mapped(panel, line) for line in found[:4]]
    size = 30 if len(said) == 1 else 16
    step = width / len(said)
    middle = y + height / 2 + size / 3
    return "\n".join(
        _text(x + step * (index + 0.5), middle, text, size=size, anchor="middle") for index, text in enumerate(said)
    )


def _mapped(panel: Mapping[str, Any], line: Line) -> str:
    if panel["options"].get("textMode") == "name":
        return line.name
    value = line.points[-1][1]
    for mapping in panel["fieldConfig"]["defaults"].get("mappings", []):
        told = mapping["options"].get(f"{value:g}")
        if told:
            return str(told["text"])
    return _said(value, _unit(panel))


def _bars(panel: Mapping[str, Any], found: Sequence[Line], area: Area) -> str:
    x, y, width, height = area
    is_rising = "bottomk" in str(panel["targets"][0].get("expr"))
    ranked = sorted(found, key=lambda line: line.points[-1][1], reverse=not is_rising)[:BARS_MAX]
    high = max(line.points[-1][1] for line in ranked) or 1.0
    step = min(height / max(len(ranked), 1), 26)
    parts = []
    for index, line in enumerate(ranked):
        value, top = line.points[-1][1], y + index * step
        long = max((width - 260) * value / high, 1)
        parts.append(_text(x + 186, top + step / 2 + 4, line.name[-30:], anchor="end", fill=FAINT))
        parts.append(
            f'<rect x="{x + 192}" y="{top + 3:.0f}" width="{long:.0f}" height="{step - 6:.0f}" fill="{PALETTE[0]}"/>'
        )
        parts.append(_text(x + 198 + long, top + step / 2 + 4, _said(value, _unit(panel))))
    return "\n".join(parts)


def _strip(panel: Mapping[str, Any], found: Sequence[Line], area: Area) -> str:
    """Rows over time, a cell a value."""
    x, y, width, height = area
    shown = sorted(found, key=lambda line: _natural(line.name))[:40]
    values = [value for line in shown for _, value in line.points]
    defaults = panel["fieldConfig"]["defaults"]
    low = defaults.get("min", min(values))
    high = defaults.get("max", max([*values, low + 1e-9]))
    first = min(line.points[0][0] for line in shown)
    last = max(line.points[-1][0] for line in shown)
    moments = max(len(line.points) for line in shown)
    step, wide = (height - 4) / len(shown), (width - 130) / max(moments, 1)
    parts = []
    for index, line in enumerate(shown):
        top = y + index * step
        parts.append(_text(x + 118, top + step * 0.75, line.name, size=int(min(step, 10)), anchor="end", fill=FAINT))
        for moment, value in line.points:
            across = x + 124 + (moment - first) / max(last - first, 1) * (width - 130 - wide)
            parts.append(
                f'<rect x="{across:.1f}" y="{top:.1f}" width="{wide + 0.4:.1f}" height="{step - 1:.1f}" '
                f'fill="{_viridis((value - low) / (high - low))}"/>'
            )
    said = f"{_said(low, _unit(panel))} … {_said(high, _unit(panel))}"
    return "\n".join([*parts, _text(x + width, y - 14, said, anchor="end", fill=FAINT)])


def _table(panel: Mapping[str, Any], found: Grid, area: Area) -> str:
    x, y, width, height = area
    step, wide = 18, width / max(len(found.columns), 1)
    room = int((height - step) / step)
    letters = max(int(wide / 6) - 1, 4)
    parts = [_text(x + index * wide, y + 10, name, weight=600, fill=FAINT) for index, name in enumerate(found.columns)]
    for number, row in enumerate(found.rows[:room]):
        for index, value in enumerate(row):
            short = value if len(value) <= letters else value[: letters - 1] + "…"
            parts.append(_text(x + index * wide, y + 10 + (number + 1) * step, short))
    return "\n".join(parts)


_KINDS: Mapping[str, Callable[..., str]] = {
    "timeseries": _lines, "stat": _number, "bargauge": _bars, "status-history": _strip, "table": _table,
}  # fmt: skip


def _unit(panel: Mapping[str, Any]) -> str:
    return str(panel["fieldConfig"]["defaults"]["unit"])


def _colour(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def _viridis(share: float) -> str:
    place = min(max(share, 0.0), 1.0) * (len(VIRIDIS) - 1)
    low = min(int(place), len(VIRIDIS) - 2)
    mixed = [round(a + (b - a) * (place - low)) for a, b in zip(VIRIDIS[low], VIRIDIS[low + 1], strict=True)]
    return "#" + "".join(f"{one:02x}" for one in mixed)


def _natural(name: str) -> list[object]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in name.replace("-", " ").split()]


_SCALED = {"bytes": "B", "Bps": "B/s", "hertz": "Hz", "watt": "W"}


def _said(value: float, unit: str) -> str:
    """A value as Grafana's unit shows it, or near."""
    if unit == "percentunit":
        return f"{value * 100:.0f} %"
    if unit == "celsius":
        return f"{value:.0f} °C"
    if unit == "s":
        return f"{value:.3g} s" if value < 120 else f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"
    if unit.startswith("suffix: "):
        return f"{value:.1f} {unit.removeprefix('suffix: ')}"
    if unit in _SCALED:
        return _scaled(value, _SCALED[unit])
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"


def _scaled(value: float, unit: str) -> str:
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
