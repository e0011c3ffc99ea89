"""The daemon as /metrics and doctor see it: facts gathered from its parts at the moment of asking."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from datetime import datetime

from trimtab import __version__
from trimtab.central import Central, Parts
from trimtab.collect.scrape import ScrapePool
from trimtab.crowd import Crowd
from trimtab.errors import StoreError
from trimtab.loop import Beat
from trimtab.model.oncall import Pager
from trimtab.settings import PeopleSettings
from trimtab.ship.receiver import IngestCounts
from trimtab.show.discovery import Discovery, discover
from trimtab.show.metrics_facts import (
    BeatFacts,
    DaemonFacts,
    DaemonView,
    OnCallFacts,
    PairFacts,
    RollupFacts,
    SettingsFacts,
)
from trimtab.show.metrics_limits import CrowdFacts, DiskFacts, LimitsFacts
from trimtab.show.oncall.delivery import DeliveryCounts
from trimtab.show.oncall.pager import Arbiter
from trimtab.store.history import History
from trimtab.tls import CertificateFacts


class OnCallLook:
    """The outbox as /metrics sees it. Where the store cannot be read, what was last seen stands: a finding must not
    pass from one pager to the other because a disk is full.
    """

    def __init__(self, history: History, arbiter: Arbiter, counts: DeliveryCounts, *, targets: Sized) -> None:
        """`targets`: without any the outbox pages nobody, whatever an incident says."""
        self._history = history
        self._arbiter = arbiter
        self._counts = counts
        self._targets = targets
        self._last: OnCallFacts | None = None

    def facts(self, now: datetime) -> OnCallFacts | None:
        """The numbers of this moment."""
        with contextlib.suppress(StoreError):
            self._last = self._read(now)
        return self._last

    def _read(self, now: datetime) -> OnCallFacts:
        counts, pager = self._history.outbox_counts(), self._arbiter.for_new()
        return OnCallFacts(
            pager=self._real(pager),
            pagers={
                one.finding: self._real(one.pager)
                for one in self._history.open_incidents()
                if one.finding is not None and not one.is_drill
            },
            messages={(target, state.value): count for (target, state), count in counts.letters.items()},
            oldest_waiting_seconds={
                target: max((now - at).total_seconds(), 0.0) for target, at in counts.oldest_waiting_at.items()
            },
            attempts_total=dict(self._counts.attempts_total),
        )

    def _real(self, pager: Pager) -> str:
        return "" if pager is Pager.OUTBOX and not self._targets else pager.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Vantage:
    """Looks over the daemon's parts."""

    central: Central
    parts: Parts
    scrapes: ScrapePool
    received: IngestCounts
    started_at: datetime
    oncall: OnCallLook | None = None
    rollup: Callable[[], RollupFacts | None] = lambda: None
    door_answers: Callable[[], Mapping[str, int]] = dict
    enrolment_answers: Callable[[], Mapping[str, int]] = dict
    settings: Callable[[], SettingsFacts | None] = lambda: None
    pair: Callable[[], PairFacts | None] = lambda: None
    certificates: Callable[[], tuple[CertificateFacts, ...]] = tuple
    disk: Callable[[], DiskFacts | None] = lambda: None
    crowds: Callable[[], Iterable[Crowd]] = tuple

    def view(self) -> DaemonView:
        """The daemon as it stands."""
        central, counts, parts = self.central, self.received, self.parts
        ring, tally = parts.ring, parts.tally
        now = parts.clock.now()
        latest = parts.box.latest()
        snapshot = central.snapshot
        facts = DaemonFacts(
            version=__version__,
            certificates=self.certificates(),
            started_at=self.started_at,
            beats=tuple(self._beat_facts(beat) for beat in central.beats),
            inbox_reports=parts.inbox.waiting,
            inbox_reports_max=parts.settings.ingest.inbox_reports_max,
            inbox_total=parts.inbox.counts.by_outcome(),
            body_bytes_total=counts.body_bytes_total,
            reports_replayed_total=counts.replayed_reports_total,
            reports_received_total=counts.reports_total,
            reports_stored_total=central.counts.reports_stored_total,
            reports_duplicate_total=central.counts.reports_duplicate_total,
            reports_refused_total={
                str(status): count for status, count in counts.requests_total.items() if status != 200
            },
            bad_samples_total=counts.bad_samples_total,
            ring_gpus=ring.gpus_count,
            ring_bytes=ring.size_bytes,
            ring_gpus_dropped_total=ring.gpus_dropped_total,
            ring_events_dropped_total=ring.events_dropped_total,
            detector_seconds=dict(tally.last_seconds),
            detector_errors_total=dict(tally.errors_total),
            snapshot_age_seconds=(now - snapshot.taken_at).total_seconds() if snapshot is not None else None,
            scheduler_failures_total=central.counts.scheduler_failures_total,
            command_changes_total=dict(central.counts.command_changes_total),
            scrape_failures_total=dict(self.scrapes.tally.failures_total),
            board_readers=parts.box.readers,
            cluster=parts.link.facts(),
            alerting=parts.context.facts() if parts.context is not None else None,
            page_url=_page_url(parts.settings.people),
            oncall=self.oncall.facts(now) if self.oncall is not None else None,
            budget=central.budget,
            rollup=self.rollup(),
            settings=self.settings(),
            door_answers_total=self.door_answers(),
            enrolment_answers_total=self.enrolment_answers(),
            pair=self.pair(),
            limits=LimitsFacts(disk=self.disk(), crowds=tuple(_crowd_facts(one) for one in self.crowds())),
        )
        return DaemonView(now=now, board=latest.board if latest else None, window=central.window, facts=facts)

    def discovery(self) -> Discovery:
        """What /sd lists for Prometheus, and what it leaves out and why."""
        latest, settings = self.parts.box.latest(), self.parts.settings
        return discover(
            self.central.window,
            latest.board if latest else None,
            cluster=settings.cluster,
            settings=settings.metrics,
            exporters=settings.scrape.targets,
        )

    def _beat_facts(self, beat: Beat) -> BeatFacts:
        return BeatFacts(
            name=beat.name,
            interval_seconds=beat.interval_seconds,
            beats_total=beat.beats_total,
            failures_total=beat.failures_total,
            dropped_total=beat.dropped_total,
            last_duration_seconds=beat.last_duration_seconds,
            age_seconds=self._age_seconds(beat),
            sentence=beat.last_sentence,
            is_alive=beat.is_alive,
            is_failing=beat.is_failing,
        )

    def _age_seconds(self, beat: Beat) -> float | None:
        ended = beat.last_beat_at_seconds
        return None if ended is None else self.parts.clock.monotonic_seconds() - ended


def _crowd_facts(crowd: Crowd) -> CrowdFacts:
    return CrowdFacts(
        listener=crowd.name,
        connections=crowd.connections,
        connections_max=crowd.connections_max,
        closed_total=dict(crowd.closed_total),
    )


def _page_url(people: PeopleSettings) -> str:
    """How people reach the page: as they were told, else where it listens."""
    scheme = "https" if people.certificate_file or people.own_certificate else "http"
    is_wildcard = people.listen.startswith(("0.0.0.0:", "[::]:"))  # no address that a browser could open
    return people.public_url.rstrip("/") or ("" if is_wildcard else f"{scheme}://{people.listen}")
