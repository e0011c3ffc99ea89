"""The seam of this stage: a collector reads one source and returns its section of a node's report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trimtab.model.reading import Event, GpuReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one source gave this time: a part of a report, in the report's own words."""

    source: str = ""
    driver: str | None = None
    gpus: tuple[GpuReading, ...] = ()
    gpus_expected: int | None = None
    events: tuple[Event, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    bad_samples: Mapping[str, int] = field(default_factory=dict)
    node_values: Mapping[str, float] = field(default_factory=dict)


class Collector(Protocol):
    """Reads one source, once a tick."""

    def collect(self) -> Section:
        """This tick's section. Raises NoData when there is nothing to read here."""
        ...


def merged(sections: Iterable[Section]) -> Section:
    """All sections as one; of a single value (source, driver, expected count) the first that has it counts."""
    parts = list(sections)
    bad_samples: dict[str, int] = {}
    for part in parts:
        for key, count in part.bad_samples.items():
            bad_samples[key] = bad_samples.get(key, 0) + count
    return Section(
        source=next((part.source for part in parts if part.source), ""),
        driver=next((part.driver for part in parts if part.driver), None),
        gpus=tuple(gpu for part in parts for gpu in part.gpus),
        gpus_expected=next((part.gpus_expected for part in parts if part.gpus_expected is not None), None),
        events=tuple(event for part in parts for event in part.events),
        errors={key: text for part in parts for key, text in part.errors.items()},
        bad_samples=bad_samples,
        node_values={key: value for part in parts for key, value in part.node_values.items()},
    )
