"""Reads dcgm-exporters from outside, so that a cluster can be watched without agents. Used by the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

import structlog

from trimtab.clock import Clock
from trimtab.collect.dcgm import DcgmPage, DcgmReader
from trimtab.collect.dcgm_xid import XidGauge
from trimtab.errors import CollectError, NoData
from trimtab.handshakes import Keys, sentence_of
from trimtab.model.reading import Report
from trimtab.outbound import OutboundError, session
from trimtab.settings import ScrapeSettings, ScrapeTarget

log = structlog.get_logger()

KEYS = Keys(address="scrape.targets")
SOURCE = "dcgm-exporter"
PAGE_BYTES_MAX = 16 * 1024 * 1024
POLLERS_MAX = 16
UNREAD_MAX = 8
"""More exporters that are not read than this are counted, not listed."""
_CHUNK_BYTES = 256 * 1024


class Pages(Protocol):
    """Where pages come from; a fake in tests."""

    def get(self, url: str) -> str:
        """The text of a page. Raises CollectError."""
        ...


class HttpPages:
    """Pages over HTTP, bounded in size and time."""

    def __init__(self, *, timeout_seconds: float) -> None:
        """One session for all targets."""
        self._session = session(timeout_seconds=timeout_seconds)

    def get(self, url: str) -> str:
        """The text of a page. Raises CollectError."""
        try:
            with self._session.get(url, stream=True, headers={"Accept": "text/plain"}) as answer:
                if answer.status_code != 200:
                    raise CollectError(f"{url}: answered {answer.status_code}. Is this the exporter's /metrics page?")
                body = bytearray()
                for chunk in answer.iter_content(_CHUNK_BYTES):
                    body += chunk
                    if len(body) > PAGE_BYTES_MAX:
                        raise CollectError(f"{url}: the page is larger than {PAGE_BYTES_MAX} bytes")
        except OutboundError as error:
            said = sentence_of(error, url=url, keys=KEYS)
            why = said or f"{type(error).__name__}. Is the exporter up and reachable from here?"
            raise CollectError(f"{url}: {why}") from error
        return body.decode("utf-8", "replace")

    def close(self) -> None:
        """Close connections."""
        self._session.close()


class Scraper:
    """Makes the reports of one node from its exporter's page."""

    def __init__(self, target: ScrapeTarget, *, cluster: str, pages: Pages, clock: Clock, spool_id: str) -> None:
        """`spool_id` is new at each start of the daemon, so that sequences may count from 1 again."""
        self.target = target
        self._cluster = cluster
        self._pages = pages
        self._clock = clock
        self._spool_id = spool_id
        self._reader = DcgmReader()
        self._gauge = XidGauge()
        self._sequence = 0
        self._gpus_most = 0

    def scrape(self) -> Report:
        """One report. Raises CollectError when there is no page, NoData when it names no GPU (that is not 0 GPUs)."""
        text = self._pages.get(self.target.url)
        at = self._clock.now()
        page = self._reader.read(text)
        if not page.gpus:
            raise NoData(f"{self.target.url}: the page names no GPU")
        self._sequence += 1
        self._gpus_most = max(self._gpus_most, len(page.gpus))
        return Report(
            cluster=self._cluster,
            node=self.target.node,
            boot_id="unknown",
            spool_id=self._spool_id,
            sequence=self._sequence,
            sampled_at=at,
            source=SOURCE,
            driver=page.driver,
            gpus=page.gpus,
            gpus_expected=self._gpus_most,
            events=tuple(self._gauge.changes(page, at=at)),
            errors=_errors(page),
            bad_samples=page.bad_samples,
        )


def _errors(page: DcgmPage) -> dict[str, str]:
    found = {}
    if page.errors:
        found["page"] = f"{page.errors} lines could not be read"
    if page.traffic_gap:
        found["nvlink"] = "NVLink traffic is 0 on every GPU beside clear activity: the exporter does not see it"
    return found


@dataclass(slots=True)
class ScrapeTally:
    """Counts per target over the life of the daemon, and the last failure's sentence."""

    reports_total: dict[str, int] = field(default_factory=dict)
    failures_total: dict[str, int] = field(default_factory=dict)
    last_failure: dict[str, str] = field(default_factory=dict)


class ScrapePool:
    """Scrapes all targets at once, each within its time-out; a failed one gives no report and is counted."""

    def __init__(
        self, settings: ScrapeSettings, *, cluster: str, clock: Clock, pages: Pages | None = None, spool_id: str = ""
    ) -> None:
        """`pages` is HTTP unless given; `spool_id` is random unless given."""
        self._http = HttpPages(timeout_seconds=settings.timeout_seconds)
        spool_id = spool_id or f"scrape-{uuid4().hex}"
        self._scrapers = [
            Scraper(target, cluster=cluster, pages=pages or self._http, clock=clock, spool_id=spool_id)
            for target in settings.targets
        ]
        self._pool = ThreadPoolExecutor(
            max_workers=max(min(POLLERS_MAX, len(self._scrapers)), 1), thread_name_prefix="scrape"
        )
        self.tally = ScrapeTally()

    def scrape_all(self) -> list[Report]:
        """The reports of this round, in the order of the targets."""
        outcomes = list(self._pool.map(_scrape_one, self._scrapers))
        reports = []
        for scraper, outcome in zip(self._scrapers, outcomes, strict=True):
            node = scraper.target.node
            if isinstance(outcome, Report):
                reports.append(outcome)
                self.tally.reports_total[node] = self.tally.reports_total.get(node, 0) + 1
                self.tally.last_failure.pop(node, None)
            else:
                if node not in self.tally.last_failure:
                    log.warning("an exporter is not read", node=node, said=outcome)
                self.tally.failures_total[node] = self.tally.failures_total.get(node, 0) + 1
                self.tally.last_failure[node] = outcome
        return reports

    @property
    def failing(self) -> Mapping[str, str]:
        """Nodes whose last scrape failed, with the sentence why."""
        return self.tally.last_failure

    @property
    def unread(self) -> tuple[str, ...]:
        """A sentence for each target whose last scrape failed; beyond some, how many more."""
        failing = dict(self.tally.last_failure)
        said = [
            f"{node} is not seen: its exporter is not read. {failing[node]}" for node in sorted(failing)[:UNREAD_MAX]
        ]
        more = len(failing) - len(said)
        return (*said, f"Of {more} more nodes the exporter is not read.") if more else tuple(said)

    def close(self) -> None:
        """Stop the pollers and close connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._http.close()


def _scrape_one(scraper: Scraper) -> Report | str:
    try:
        return scraper.scrape()
    except (CollectError, NoData) as error:
        return str(error)
