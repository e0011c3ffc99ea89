"""ROOT of the daemon on PostgreSQL: stands by until it is elected, then is the daemon; begins anew when it is not.

The active daemon is put together only once the lock is ours, from what is stored, as after any restart. One that lost
its office keeps nothing that it has in memory: the process replaces itself and stands by.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import structlog

from trimtab import __version__
from trimtab.assembly import Daemon
from trimtab.certificates import Certificates
from trimtab.clock import Clock, SystemClock
from trimtab.doors import listener_of
from trimtab.errors import DatabaseAway, StoreError, TrimtabError
from trimtab.listener import Listener, split_listen
from trimtab.loop import Beat, starting
from trimtab.premises import check_settings
from trimtab.pulse import is_stalled
from trimtab.seat import Hatch, Seat, SteppedDown, pair_facts
from trimtab.service import STARTING_STEP_SECONDS_MAX, Service, lock_state
from trimtab.settings import DaemonSettings, read_token
from trimtab.settings.secrets import database_url
from trimtab.shadow import Shadow
from trimtab.ship.away import away_app
from trimtab.show.api import api_document
from trimtab.show.auth import Door
from trimtab.show.metrics import daemon_metrics
from trimtab.show.metrics_facts import DaemonFacts, DaemonView, PairFacts
from trimtab.show.peers import Peers
from trimtab.show.standby import standby_app
from trimtab.store.database import Database, open_database
from trimtab.store.election import Election, Me, Phase
from trimtab.store.election_session import session_name
from trimtab.store.journal import Journal

log = structlog.get_logger()

LOOK_SECONDS = 0.1


def run(settings: DaemonSettings, *, read: Callable[[], DaemonSettings] | None = None) -> None:
    """Run the daemon that the settings describe until SIGTERM or SIGINT: alone on SQLite, elected on PostgreSQL.

    `read` reads the settings again, for a reload.
    """
    check_settings(settings)
    if settings.store.url.startswith("postgresql"):
        Pair(settings, read=read).run()
    else:
        Daemon(settings, read=read).run()


class Pair:
    """One of the daemons on a PostgreSQL database, of which one is active."""

    def __init__(self, settings: DaemonSettings, *, read: Callable[[], DaemonSettings] | None = None) -> None:
        """Open ports and files. Raises SettingsError or StoreError with the fix."""
        self._settings, self._read = settings, read
        self._state = Path(settings.state_directory)
        self._lock = lock_state(self._state)
        self._clock: Clock = SystemClock()
        self._started_at = self._clock.now()
        self._service = Service()
        self._door: Door | None = None
        self._certificates = Certificates(settings)
        self._listeners = self._open()
        pair = settings.pair
        me = Me(
            cluster=settings.cluster,
            name=pair.name or socket.gethostname(),
            url=self._page_url(),
            version=__version__,
        )
        self._election = Election(
            database_url(settings.store),
            me,
            clock=self._clock,
            trust_seconds=pair.trust_seconds,
            silent_seconds=pair.silent_seconds,
        )
        self._shadow = Shadow(settings)
        self._got_on_at_seconds: float | None = None
        """When a take-over got on last; None = there is none."""
        self._beat = Beat("election", self._tick, interval_seconds=pair.check_seconds, clock=self._clock)

    def run(self) -> None:
        """Stand by, be the daemon, and end; or begin anew where another took over."""
        self._service.catch_signals()
        said = self._first_tick()
        self._beat.start()
        has_ended = False
        try:
            has_ended = not self._stood_by(said) or self._be_the_daemon()
        except SteppedDown as why:
            log.warning("this process begins anew, and stands by", why=str(why))
            _begin_anew()
        finally:
            self._beat.stop()
            self._shadow.stop()
            for _, listener in self._listeners.values():
                listener.stop()
            # Where something failed or hangs, threads of ours may act yet: the next daemon then waits, as after a kill.
            self._election.leave(is_in_order=has_ended)

    def _first_tick(self) -> str:
        """Once here and not on its thread: a database that cannot be used is said before anything starts.

        One that is away is waited for: a host may be up before its database, and a service that ends each time is given
        up by systemd. Raises StoreError.
        """
        try:
            return self._election.tick()
        except DatabaseAway as away:
            log.warning("the database is waited for", said=str(away))
            return str(away)

    def _tick(self) -> str:
        said = self._election.tick()
        since = self._got_on_at_seconds
        if since is not None and self._clock.monotonic_seconds() - since < STARTING_STEP_SECONDS_MAX:
            # The main thread puts the daemon together; what migrates or reads back for minutes is no hang. Where it
            # gets no further it is one: then another daemon is to have the office.
            self._service.alive("takes over")
        return said

    def _get_on(self, at: str) -> None:
        self._got_on_at_seconds = self._clock.monotonic_seconds()
        self._service.starting(at)

    # --- stand by

    def _stood_by(self, said: str) -> bool:
        """Wait; true once elected, false when it is time to end."""
        if self._election.phase is Phase.STANDS_BY:
            for _, listener in self._listeners.values():
                listener.start()
            log.info("this daemon stands by", name=self._election.me.name, said=said)
            self._shadow.start()
            self._service.ready()
            api_document()  # half a second of work that a take-over need not wait for
        while self._election.phase is Phase.STANDS_BY:
            if self._service.wait(LOOK_SECONDS):
                self._service.stopping()
                return False
            if self._service.reload_was_asked():
                self._read_anew()
            self._certificates.keep_good()
            if not self._why_not_well():
                self._service.alive(self._said())
        return True

    def _read_anew(self) -> None:
        """Begin anew, as nothing is lost by it while we stand by; settings that cannot be used change nothing."""
        self._service.reloading()
        try:
            if self._read is not None:
                check_settings(self._read())
        except TrimtabError as error:
            log.error("settings not reloaded; those in force stay", said=str(error))  # noqa: TRY400 - the sentence is all
            self._service.ready()
            return
        raise SteppedDown("the settings are to be read anew")

    def _said(self) -> str:
        holder = self._election.sight.holder
        if holder is None or self._beat.is_failing:
            return f"stands by; {self._beat.last_sentence}"
        return f"stands by; {holder.name} is active since {holder.since:%Y-%m-%d %H:%M:%S} UTC (term {holder.term})"

    def _why_not_well(self) -> str:
        return "election" if is_stalled(self._beat) or not self._beat.is_alive else ""

    # --- be the daemon

    def _be_the_daemon(self) -> bool:
        """Until the end; whether nothing of it goes on then."""
        settings, election = self._settings, self._election
        database: Database | None = None
        self._get_on("takes over")
        try:
            with starting(self._get_on):
                database = open_database(
                    database_url(settings.store),
                    state_directory=self._state,
                    session=session_name(election.me.instance),
                )
                election.enter(database, at=self._clock.now())
                self._shadow.finish(Journal(database))
                seat = Seat(
                    election=election,
                    database=database,
                    ring=self._shadow.ring,
                    lock=self._lock,
                    service=self._service,
                    listeners=self._listeners,
                    clock=self._clock,
                    daemons_expected=settings.pair.daemons,
                    keep_door=self._keep_door,
                    admitted=self._admitted,
                )
                daemon = Daemon(settings, seat=seat, read=self._read)
            daemon.run()
            return daemon.has_stopped
        except StoreError as error:
            if election.phase is Phase.LOST:
                raise SteppedDown(election.why_lost) from error
            raise
        finally:
            if database is not None:
                database.close()

    def _admitted(self) -> None:
        self._got_on_at_seconds = None

    def _keep_door(self, door: Door) -> None:
        self._door = door

    # --- ports

    def _open(self) -> dict[str, tuple[Hatch, Listener]]:
        people = self._settings.people
        hatches = {
            "people": Hatch(
                standby_app(
                    facts=self._facts,
                    exposition=daemon_metrics(
                        lambda: DaemonView(
                            now=self._clock.now(),
                            board=None,
                            window=None,
                            facts=DaemonFacts(version=__version__, started_at=self._started_at, pair=self._facts()),
                        )
                    ),
                    metrics_token=read_token(people.metrics_token_file, environment_name="TRIMTAB_METRICS_TOKEN"),
                    allowed=Peers(self._settings.metrics.allow_from, key="metrics.allow_from"),
                    why_not_well=self._why_not_well,
                )
            ),
            "ingest": Hatch(away_app(why_not_well=self._why_not_well)),
        }
        served = self._certificates
        sections = {"people": served.section("people"), "ingest": served.section("ingest")}
        return {
            name: (hatch, listener_of(hatch, name, sections[name], find_door=lambda: self._door))
            for name, hatch in hatches.items()
        }

    def _facts(self) -> PairFacts:
        return pair_facts(self._election, clock=self._clock, daemons_expected=self._settings.pair.daemons)

    def _page_url(self) -> str:
        people = self._settings.people
        listener = self._listeners["people"][1]
        host, _ = split_listen(people.listen, key="people.listen")
        return people.public_url or f"{listener.scheme}://{host}:{listener.port}"


def _begin_anew() -> NoReturn:
    """The same command in the same process: every thread, lock and connection of this one is gone at once."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, sys.orig_argv)
