"""A collector that gives the sections it was handed, one a tick, or raises; and a keeper that can refuse once."""

from __future__ import annotations

from dataclasses import replace

from trimtab.collect.collector import Section
from trimtab.errors import ShipError
from trimtab.model.reading import Report


class FakeCollector:
    def __init__(self, *sections: Section | Exception) -> None:
        self.sections = list(sections)
        self.commits = 0
        self.is_closed = False

    def collect(self) -> Section:
        section = self.sections.pop(0) if self.sections else Section()
        if isinstance(section, Exception):
            raise section
        return section

    def commit(self) -> None:
        self.commits += 1

    def close(self) -> None:
        self.is_closed = True


class FakeKeeper:
    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.next_append_error: ShipError | None = None

    def append(self, report: Report) -> Report:
        if self.next_append_error is not None:
            error, self.next_append_error = self.next_append_error, None
            raise error
        kept = replace(report, spool_id="spool-a", sequence=len(self.reports) + 1)
        self.reports.append(kept)
        return kept
