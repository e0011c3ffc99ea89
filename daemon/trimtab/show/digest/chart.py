"""The digest's pictures as inline SVG: bars, readable in grey, with every number also in a table beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from trimtab.model.digest import Digest
from trimtab.model.past import GpuTimeState
from trimtab.show.digest.words import STATES, Telling

WIDTH = 720
ROW = 22
LABEL = 170
VALUE = 84
BAR = WIDTH - LABEL - VALUE

COLOURS: Mapping[GpuTimeState, str] = {
    GpuTimeState.WORKING: "#009e73",
    GpuTimeState.HELD_IDLE: "#e69f00",
    GpuTimeState.STRANDED: "#cc79a7",
    GpuTimeState.FREE: "#56b4e9",
    GpuTimeState.SPARE: "#a6cee3",
    GpuTimeState.OUT_OF_SERVICE: "#d55e00",
    GpuTimeState.UNKNOWN: "url(#unseen)",
}
"""Okabe and Ito's, which colour-blind people tell apart; what was not seen is hatched."""
_HATCH = (
    '<defs><pattern id="unseen" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#999" fill-opacity=".25"/><path d="M0 0V6" stroke="#888" stroke-width="2"/>'
    "</pattern></defs>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its label, its parts as (width in GPU-hours, colour, what it is), and the number at its end."""

    label: str
    parts: tuple[tuple[float, str, str], ...]
    value: str


def charts(digest: Digest, telling: Telling) -> dict[str, str]:
    """Name -> SVG, for those that have something to show."""
    found = {
        "days": _days(digest, telling),
        "causes": _causes(digest, telling),
        "gains": _gains(digest, telling),
    }
    return {name: svg for name, svg in found.items() if svg}


def _days(digest: Digest, telling: Telling) -> str:
    bars = [
        Bar(
            label=telling.moment(day.begins_at)[:10],
            parts=tuple((day.hours.of(state), COLOURS[state], telling.state(state)) for state in STATES),
            value=f"{day.hours.total:,.0f}",
        )
        for day in digest.days
        if day.hours.total > 0
    ]
    legend = [(telling.state(state), COLOURS[state]) for state in STATES if digest.hours.of(state) > 0]
    return _svg(bars, telling.say("hours"), legend) if bars else ""


def _causes(digest: Digest, telling: Telling) -> str:
    names = ((telling.say("column-out"), "#d55e00"), (telling.say("column-idle"), "#e69f00"))
    legend = [*names, (telling.say("column-lost"), "#0072b2")]
    bars = [
        Bar(
            label=telling.cause(one.cause),
            parts=tuple(
                (width, colour, name)
                for width, (name, colour) in zip((one.out_of_service, one.held_idle, one.lost), legend, strict=True)
            ),
            value=f"{one.total:,.1f}",
        )
        for one in digest.causes[:12]
    ]
    return _svg(bars, telling.say("causes"), legend) if bars else ""


def _gains(digest: Digest, telling: Telling) -> str:
    legend = [(telling.say("column-gained"), "#009e73"), (telling.say("column-forecast"), "#56b4e9")]
    bars: list[Bar] = []
    for one in digest.gains:
        shown = ((one.gained, legend[0]), (one.gained_forecast, legend[1]))
        bars += [
            Bar(label=f"{one.rule}, {name}", parts=((value, colour, name),), value=f"{value:,.1f}")
            for value, (name, colour) in shown
            if value is not None
        ]
    return _svg(bars, telling.say("gains"), legend) if any(bar.parts[0][0] > 0 for bar in bars) else ""


def _svg(bars: Sequence[Bar], title: str, legend: Sequence[tuple[str, str]]) -> str:
    most = max((sum(width for width, _, _ in bar.parts) for bar in bars), default=0.0) or 1.0
    height = ROW * len(bars) + ROW + 8
    inner = "".join((*_legend(legend), *(_bar(bar, index, most) for index, bar in enumerate(bars))))
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{_HATCH}{inner}</svg>"
    )


def _legend(legend: Sequence[tuple[str, str]]) -> Iterator[str]:
    x = 0.0
    for name, colour in legend:
        yield f'<rect x="{x:.0f}" y="4" width="11" height="11" fill="{colour}"/>'
        yield f'<text x="{x + 16:.0f}" y="14">{escape(name)}</text>'
        # Chinese characters are as wide as they are high, others half as wide.
        x += 34 + sum(13 if ord(letter) > 0x2E80 else 7.2 for letter in name)


def _bar(bar: Bar, index: int, most: float) -> str:
    y = ROW * (index + 1) + 4
    drawn = [f'<text x="{LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(_cut(bar.label))}</text>']
    x = float(LABEL)
    for width, colour, name in bar.parts:
        size = BAR * max(width, 0.0) / most
        if size > 0:
            said = f"{bar.label}: {name} {width:,.1f}"
            drawn.append(
                f'<rect x="{x:.1f}" y="{y}" width="{size:.1f}" height="{ROW - 5}" fill="{colour}">'
                f"<title>{escape(said)}</title></rect>"
            )
        x += size
    drawn.append(f'<text x="{x + 6:.1f}" y="{y + 13}">{escape(bar.value)}</text>')
    return "".join(drawn)


def _cut(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"
