"""What a daemon that stands by keeps up: the ring, read behind the active one's journal, so that a take-over need not
read the last quarter of an hour back first.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

from trimtab.loop import Beat, moving
from trimtab.premises import clock_of, ring_of
from trimtab.settings import DaemonSettings
from trimtab.settings.secrets import database_url
from trimtab.store.database import Database, open_database
from trimtab.store.journal import Journal

FOLLOW_SECONDS = 1.0


class Shadow:
    """Follows the journal on a thread of its own until `finish`."""

    def __init__(self, settings: DaemonSettings) -> None:
        """Nothing is read yet."""
        self.ring = ring_of(settings)
        self._settings = settings
        self._clock = clock_of(settings.simulated)
        self._database: Database | None = None
        self._journal: Journal | None = None
        self._last_id: int | None = None
        self._is_over = threading.Event()
        self._beat = Beat("shadow", self._follow, interval_seconds=FOLLOW_SECONDS, clock=self._clock)

    def start(self) -> None:
        """Follow from now on. A database that is not there yet, or not upgraded, is tried again at each beat."""
        self._beat.start()

    def finish(self, journal: Journal) -> None:
        """Once no other daemon writes any more: read the rest. Raises StoreError."""
        self.stop()
        while self._read(journal):
            moving("reading reports back")

    def stop(self) -> None:
        """Follow no more."""
        self._is_over.set()
        self._beat.stop(timeout_seconds=60.0)
        if self._database is not None:
            self._database.close()
            self._database = self._journal = None

    def _follow(self) -> str:
        if self._journal is None:
            url, state = database_url(self._settings.store), Path(self._settings.state_directory)
            self._database = open_database(url, state_directory=state, is_left_as_it_is=True, session="trimtab shadow")
            self._journal = Journal(self._database)
        read = 0
        while not self._is_over.is_set() and self._read(self._journal):
            read += 1
        return f"{read} pages read behind the active daemon"

    def _read(self, journal: Journal) -> bool:
        """One page into the ring; false where there was none."""
        since = self._clock.now() - timedelta(seconds=self.ring.span_seconds)
        was = self._last_id
        deliveries, self._last_id = journal.follow(was, since=since)
        self.ring.add(deliveries)
        return self._last_id != was
