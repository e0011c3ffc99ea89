"""A tolerant reader of the Prometheus text format: one bad line costs itself, never the page. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:.\-]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_.\-]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}
SERIES_KNOWN_MAX = 200_000
"""Known series are forgotten beyond this: a page that changes its labels each time cannot eat the memory."""
ERRORS_KEPT_MAX = 5


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A series' name and labels. One object a series as long as its reader knows it, so identity can be a key."""

    name: str
    labels: Mapping[str, str]

    @property
    def folded(self) -> Mapping[str, str]:
        """Labels with their names in lower case: exporters have changed case between versions."""
        return {key.lower(): value for key, value in self.labels.items()}


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series; NaN and infinities are kept here, for the reader of the page to drop and count."""

    series: Series
    value: float
    stamp: float | None = None
    """The explicit stamp as printed: some exporters write seconds, some milliseconds: the scrape counts."""


@dataclass(slots=True)
class Page:
    """A page's samples in order, and what could not be read."""

    samples: list[Sample] = field(default_factory=list)
    errors: int = 0
    error_texts: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """Names of all families that have a sample."""
        return {sample.series.name for sample in self.samples}


class PageReader:
    """Reads pages of one exporter; knows its series from the last page, which makes the next one cheap."""

    def __init__(self) -> None:
        """No series known."""
        self._known: dict[str, Series] = {}

    def read(self, text: str) -> Page:
        """The samples of a page. HELP and TYPE may be missing, first, repeated: they are not needed."""
        page = Page()
        if len(self._known) > SERIES_KNOWN_MAX:
            self._known.clear()
        for line in text.splitlines():
            if line and line[0] != "#":
                self._read_line(line, page)
        return page

    def _read_line(self, line: str, page: Page) -> None:
        cut = line.rfind(" # {")  # an OpenMetrics exemplar
        line = line[:cut] if cut > 0 else line
        end = line.rfind("}")
        head, rest = (line[: end + 1], line[end + 1 :]) if end >= 0 else _split_bare(line)
        series = self._known.get(head) or self._learn(head)
        value, stamp = _read_numbers(rest)
        if series is not None and value is not None:
            page.samples.append(Sample(series, value, stamp))
        elif line.strip():
            page.errors += 1
            if len(page.error_texts) < ERRORS_KEPT_MAX:
                page.error_texts.append(line[:120])

    def _learn(self, head: str) -> Series | None:
        series = read_series(head)
        if series is not None:
            self._known[head] = series
        return series


def _split_bare(line: str) -> tuple[str, str]:
    head, _, rest = line.strip().partition(" ")
    return head, rest


def read_series(head: str) -> Series | None:
    """Name and labels of `name{a="b", c="d"}`; None when it is no series."""
    head = head.strip()
    found = _NAME.match(head)
    if found is None:
        return None
    rest = head[found.end() :].lstrip()
    if not rest:
        return Series(found[0], {})
    if not (rest.startswith("{") and rest.endswith("}")):
        return None
    labels = _read_labels(rest[1:-1])
    return None if labels is None else Series(found[0], labels)


def _read_labels(text: str) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    position = 0
    while text[position:].strip():
        found = _LABEL.match(text, position)
        if found is None:
            return None
        value = found[2]
        labels[found[1]] = _ESCAPE.sub(_unescape, value) if "\\" in value else value
        position = found.end()
    return labels


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[1], found[0])


def _read_numbers(text: str) -> tuple[float | None, float | None]:
    parts = text.split()
    if not parts or len(parts) > 2:
        return None, None
    try:
        return float(parts[0]), float(parts[1]) if len(parts) == 2 else None
    except ValueError:
        return None, None


def is_exposition(text: str) -> bool:
    """Whether a text looks like a page: most of its first lines are comments or samples, and one is a sample."""
    lines = [line for line in text[:20000].splitlines()[:60] if line.strip() and not line.startswith("--- ")]
    if not lines:
        return False
    if len(text) > 20000:
        lines = lines[:-1] or lines
    samples = sum(1 for line in lines if _is_sample(line))
    comments = sum(1 for line in lines if line.startswith(("# HELP ", "# TYPE ", "# EOF", "# UNIT ")))
    return samples + comments > len(lines) * 0.6 and (samples > 0 or comments > 1)


def _is_sample(line: str) -> bool:
    page = PageReader().read(line)
    return bool(page.samples) and ("{" in line or "_" in line.split(" ", 1)[0])
