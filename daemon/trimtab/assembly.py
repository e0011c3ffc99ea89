"""Puts the daemon together from its settings, runs its beats and listeners, and ends them cleanly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import structlog

from trimtab import __version__
from trimtab.admission import admissions_of
from trimtab.allocator import Trimmer
from trimtab.central import Central, Parts
from trimtab.certificates import Certificates
from trimtab.chores import Chore, slow_work
from trimtab.clock import SystemClock
from trimtab.collect.scrape import ScrapePool
from trimtab.context import Context
from trimtab.detect.detector import catalogue
from trimtab.doors import TOKEN_FILE, listener_of, people_door, tells_of_reports
from trimtab.errors import ShipError, TrimtabError
from trimtab.issue.issuer import Issuer
from trimtab.issue.verdicts import Verdicts
from trimtab.keeping import keeping_of
from trimtab.link import link_of
from trimtab.listener import Listener, split_listen
from trimtab.loop import Beat
from trimtab.model.command import AuditLine
from trimtab.model.devices import NodeDevices
from trimtab.model.reading import Delivery
from trimtab.onduty import on_duty
from trimtab.premises import check_settings, clock_of, ring_of
from trimtab.pulse import VITAL, Watchdog, doing, hung, why_not_well
from trimtab.recall import reserved_nodes
from trimtab.rehearsal import Rehearsal
from trimtab.reload import planner_of, reload_of
from trimtab.reloading import reload_if_asked
from trimtab.seat import Seat, why_not_write
from trimtab.service import Service, lock_state
from trimtab.settings import DaemonSettings
from trimtab.settings.secrets import database_url
from trimtab.ship.inbox import Inbox
from trimtab.ship.receiver import IngestCounts, ingest_app
from trimtab.show.api import people_app
from trimtab.show.auth import Door
from trimtab.show.board import BoardBox
from trimtab.show.checks import daemon_checks
from trimtab.show.discovery import discovery_checks
from trimtab.show.keys import operator_token, write_client_file
from trimtab.show.metrics import daemon_metrics
from trimtab.show.metrics_facts import DaemonView
from trimtab.store.database import Database, open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.timekeeping import Hold
from trimtab.vantage import OnCallLook, Vantage
from trimtab.weekly import digest_chore, digest_desk

log = structlog.get_logger()

END_SECONDS_MAX = 15.0


class Daemon:
    """The running daemon. Everything is opened in the constructor, so that what is wrong is said before it starts."""

    def __init__(
        self,
        settings: DaemonSettings,
        *,
        seat: Seat | None = None,
        read: Callable[[], DaemonSettings] | None = None,
    ) -> None:
        """Open database, ports and files. Raises SettingsError or StoreError with the fix.

        `seat`: on PostgreSQL, what this daemon was elected with (`pair.py`). `read` reads the settings again.
        """
        check_settings(settings)
        self._certificates = Certificates(settings)
        self.settings = settings
        self._state = Path(settings.state_directory)
        self._seat = seat
        self._lock = seat.lock if seat is not None else lock_state(self._state)
        self.clock = clock_of(settings.simulated)
        self._started_at = self.clock.now()
        self._database: Database = (
            open_database(database_url(settings.store), state_directory=self._state) if seat is None else seat.database
        )
        self._history = History(self._database, cluster=settings.cluster)
        self._journal = Journal(self._database)
        self._inbox = Inbox(settings.ingest.inbox_reports_max, backlog_reports_max=settings.ingest.backlog_reports_max)
        self._ingest_counts = IngestCounts()
        self._box = BoardBox()
        self._link = link_of(
            settings,
            clock=self.clock,
            audit=self._audit,
            devices=self._devices,
            reserves=lambda mark: reserved_nodes(self._history, mark),
            is_elected=seat.election.is_elected if seat is not None else None,
        )
        self._context = Context(settings=settings, history=self._history, clock=self.clock, page_url=lambda: self.url)
        self._duty = on_duty(
            settings,
            history=self._history,
            clock=self.clock,
            page_url=lambda: self.url,
            why_not_well=self._why_not_well,
            quiet=self._context,
            **({"gate": seat.gated} if seat is not None else {}),
        )
        self._keeping = keeping_of(
            settings,
            database=self._database,
            history=self._history,
            clock=self.clock,
            link=self._link,
            journal=self._journal,
            in_force=lambda: self.settings,
        )
        self._work = self._parts()
        self.central = Central(self._work)
        self._scrapes = ScrapePool(settings.scrape, cluster=settings.cluster, clock=self.clock)
        self._admissions = admissions_of(
            settings,
            database=self._database,
            clock=self.clock,
            authority=self._certificates.authority,
            reviews=self._link.reviews,
            door=lambda: self._door,
        )
        self._beats = self.central.beats = self._make_beats()
        self._vantage = Vantage(
            central=self.central,
            parts=self._work,
            scrapes=self._scrapes,
            received=self._ingest_counts,
            started_at=self._started_at,
            rollup=self._keeping.facts,
            door_answers=lambda: self._door.refusals.answers_total(),  # noqa: PLW0108 - there is no door yet
            enrolment_answers=lambda: dict(self._admissions.desk.answers_total),
            settings=lambda: self._reload.facts(),  # noqa: PLW0108 - nor a reload
            certificates=self._certificates.facts,
            disk=self._keeping.disk.facts,
            crowds=lambda: (self._people.crowd, self._ingest.crowd),
            pair=lambda: seat.facts() if seat is not None else None,
            oncall=OnCallLook(self._history, self._duty.arbiter, self._duty.counts, targets=self._duty.targets),
        )
        self._digests = digest_desk(
            settings,
            history=self._history,
            past=self._keeping.past,
            window=lambda: self.central.window,
            page_url=lambda: self.url,
        )
        self._people, self._door = self._people_listener()
        self._ingest = self._ingest_listener()
        self._slow = slow_work(self._chores())
        self._service = seat.service if seat is not None else Service()
        self._reload = reload_of(self, self._duty, self._door, parts=self._work, issuer=self._issuer, read=read)

    # --- life

    def run(self) -> None:
        """Run until SIGTERM or SIGINT. A beat that dies ends the process, and systemd starts it again."""
        self._service.catch_signals()
        self._link.start()
        for part in (self._people, self._ingest, self._slow, *self._beats):
            part.start()
        if self._seat is not None:
            self._seat.admit()
        self._say_where()
        self._service.ready()
        watchdog = Watchdog(self._service, self._beats, notice=lambda: doing(self._reload.trouble, self._box.latest()))
        trimmer = Trimmer(SystemClock())
        while not self._service.wait(1.0):
            self._fail_if_dead()
            trimmer.tend()
            reload_if_asked(self._service, self._reload, also=self._certificates.reload)
            watchdog.watch(self._beats)
            watchdog.feed()
        self._service.stopping()
        self._end()

    def _fail_if_dead(self) -> None:
        if self._seat is not None:
            self._seat.check()
        dead = [beat.name for beat in self._beats if not beat.is_alive]
        if dead:
            raise DaemonDied(f"the {dead[0]} beat of the daemon died; its traceback is above")
        deaf = [name for name, part in (("people", self._people), ("ingest", self._ingest)) if not part.is_alive]
        if deaf:
            raise DaemonDied(f"the {deaf[0]} listener of the daemon died; its traceback is above")

    def use_beats(self, beats: tuple[Beat, ...]) -> None:
        """After a reload: the beats that run from now on."""
        self._beats = self.central.beats = beats

    def _why_not_well(self) -> str:
        return why_not_well(self._beats, is_bell_failing=self.central.is_bell_failing)

    @property
    def has_stopped(self) -> bool:
        """Whether every beat has ended; one that hangs in a write may yet do it."""
        return not any(beat.is_alive for beat in self._beats)

    def _end(self) -> None:
        """The listeners first: whoever still waits for a commit gets it, and nobody new comes in."""
        self._box.close()
        self._ingest.stop()
        for beat in self._beats:
            beat.end_soon()
        wall = SystemClock()
        begun = wall.monotonic_seconds()
        for beat in self._beats:
            # One deadline for all: many targets that hang must not take the time in which the lease is given back.
            beat.stop(timeout_seconds=max(0.1, END_SECONDS_MAX - (wall.monotonic_seconds() - begun)))
        # A write may be under way in a beat that did not end: the lease then runs out by itself.
        self._link.stop(is_writing=any(beat.is_alive for beat in self._beats if beat.name in VITAL))
        self._people.stop()
        self._keeping.ended.set()
        self._slow.shutdown(wait=False)
        self._scrapes.close()
        self._database.close()
        log.info("daemon ended", cluster=self.settings.cluster)

    def _say_where(self) -> None:
        way_in = self._certificates.way_in(self._people, self.url)
        write_client_file(self._state / "client.toml", token=operator_token(self._state / TOKEN_FILE), **way_in)
        log.info(
            "daemon started",
            cluster=self.settings.cluster,
            version=__version__,
            mode=self.settings.issue.mode.value,
            database=self._database.place,
            agents_at=f"{self._ingest.scheme}://{self.settings.ingest.listen}",
            page=f"{self.url} (trimtab link makes an address that signs in)",
        )
        if sys.stdout.isatty():
            # To whoever sits there, and never into a log that others read: it signs in.
            print(f"Page: {self.url}/open/{self._door.new_link()}", flush=True)  # noqa: T201

    @property
    def url(self) -> str:
        """Where people reach the page."""
        host, _ = split_listen(self.settings.people.listen, key="people.listen")
        return self.settings.people.public_url or f"{self._people.scheme}://{host}:{self._people.port}"

    # --- parts

    def _audit(self, line: AuditLine) -> None:
        self._history.audit([line])

    def _devices(self) -> Mapping[str, NodeDevices]:
        return self.central.devices()

    def _pause_reason(self) -> str | None:
        snapshot = self.central.snapshot
        return snapshot.pause_reason if snapshot is not None else None

    def _parts(self) -> Parts:
        settings = self.settings
        detectors = catalogue(settings.detect, spares_kept=settings.plan.spares_kept)

        return Parts(
            settings=settings,
            clock=self.clock,
            inbox=self._inbox,
            journal=self._journal,
            ring=ring_of(settings) if self._seat is None else self._seat.ring,
            is_ring_filled=self._seat is not None,
            history=self._history,
            detectors=detectors,
            planner=planner_of(settings, self._link),
            issuer=self._issuer(settings),
            link=self._link,
            box=self._box,
            context=self._context,
            rollup=self._keeping.rollup,
            bell=self._duty.bell,
            unread=lambda: (*self._scrapes.unread, *self._keeping.disk.notes()),
        )

    def _issuer(self, settings: DaemonSettings) -> Issuer:
        return Issuer(
            ledger=self._history,
            schedulers=self._link.schedulers,
            settings=settings.issue,
            clock=self.clock,
            asker=self._link.asker,
            notify=self._link.notify,
            why_not_write=why_not_write(self._seat, self._link.lease),
        )

    def _make_beats(self) -> tuple[Beat, ...]:
        settings, central = self.settings, self.central
        hold = Hold(self.clock, interval_seconds=lambda: self.settings.detect.interval_seconds)

        def beat(name: str, tick: Callable[[], str], interval_seconds: float) -> Beat:
            return Beat(name, tick, interval_seconds=interval_seconds, clock=self.clock)

        beats = [
            beat("remember", central.remember, settings.store.commit_interval_seconds),
            beat("judge", lambda: hold.run(central.judge), settings.detect.interval_seconds),
            beat("rebalance", central.rebalance, settings.plan.interval_seconds),
            beat("alertmanager", self._context.tick, settings.alertmanager.interval_seconds),
        ]
        if self._link.lease is not None and settings.kubernetes is not None:
            beats.append(beat("lease", self._link.lease.tick, settings.kubernetes.lease_retry_seconds))
        if settings.scrape.targets:
            beats.append(beat("scrape", self._scrape, settings.scrape.interval_seconds))
        return (*beats, self._admissions.beat, *self._keeping.beats, *self._duty.beats)

    def _scrape(self) -> str:
        """Read the exporters; their reports go the way of everybody's."""
        reports = self._scrapes.scrape_all()
        now = self.clock.now()
        if reports and self._inbox.put([Delivery(report=report, received_at=now) for report in reports]) is None:
            raise ShipError(f"{len(reports)} exporters were read and the inbox is full: these reports are lost.")
        return f"{len(reports)} of {len(self.settings.scrape.targets)} exporters read"

    def _people_listener(self) -> tuple[Listener, Door]:
        metrics = self.settings.metrics
        door = people_door(
            self.settings.people, state=self._state, history=self._history, audit=self._audit, clock=self.clock
        )
        rehearsal = Rehearsal(central=self.central, parts=self._work, bell=self._duty.bell)
        desk = self._duty.desk(self._history, rehearsal.drill)
        app = people_app(
            settings=self.settings,
            box=self._box,
            decisions=Verdicts(
                ledger=self._history, clock=self.clock, settings=self.settings, pause_reason=self._pause_reason
            ),
            memory=self._history,
            past=self._keeping.past,
            digests=self._digests,
            door=door,
            clock=self.clock,
            checks=lambda: (
                *daemon_checks(self.view()),
                *discovery_checks(self._vantage.discovery(), has_gpu_series=metrics.gpu_series),
                *desk.checks(),
            ),
            exposition=daemon_metrics(
                self.view, has_dcgm_names=metrics.dcgm_aliases, has_gpu_series=metrics.gpu_series
            ),
            discovery=self._vantage.discovery,
            window=lambda: self.view().window,
            oncall=desk,
            alerting=self._context.alerting(self._box),
            enrolment=self._admissions.api,
        )
        self.people_app = app
        return self._listener(app, "people", door), door

    def _listener(self, app: Any, name: Literal["people", "ingest"], door: Door) -> Listener:  # noqa: ANN401 - ASGI
        section = self._certificates.section(name)
        return self._certificates.keep(listener_of(app, name, section, door, seat=self._seat))

    def _ingest_listener(self) -> Listener:
        ingest = self.settings.ingest
        app = ingest_app(
            inbox=self._inbox,
            tokens=self._admissions.credentials,
            enrolment=self._admissions.desk,
            settings=ingest,
            clock=self.clock,
            cluster=self.settings.cluster,
            counts=self._ingest_counts,
            why_not_well=lambda: hung(self._beats),
            tell=tells_of_reports(self._door),
            client_rule=self._certificates.client_rule(revoked=self._admissions.enrolled),
        )
        self.ingest_app = app
        return self._listener(app, "ingest", self._door)

    def _chores(self) -> tuple[Chore, ...]:
        """All minute-and-slower work, a reason beside each."""
        return (
            *self._keeping.chores,
            self._certificates.chore(),  # the daemon's own certificate must not end
            self._admissions.chore,  # what is over is kept for half a year
            *self._duty.chores,
            digest_chore(
                self.settings, self._digests, history=self._history, targets=self._duty.targets, clock=self.clock
            ),
        )

    # --- what /metrics and doctor see

    def view(self) -> DaemonView:
        """The daemon as it stands."""
        return self._vantage.view()


class DaemonDied(TrimtabError):
    """A thread of the daemon ended by an error that it does not know."""
