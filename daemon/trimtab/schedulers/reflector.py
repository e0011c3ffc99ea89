"""Keeps a copy of one kind in step with the cluster: list, watch, and again, however the connection ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import structlog

from trimtab.clock import Clock
from trimtab.errors import SchedulerBusy, SchedulerError, SchedulerGone, SchedulerSilent, SchedulerUnavailable
from trimtab.schedulers.kubernetes import Api, failure
from trimtab.schedulers.pace import Pace
from trimtab.schedulers.resources import Kind
from trimtab.schedulers.shelf import Page, Shelf

log = structlog.get_logger()

PAGE_OBJECTS = 5_000
"""Pods come at 5 kB each: a page is some 25 MB before it is decoded, and most clusters need one."""
SERVER_TIMEOUT_SECONDS = 290
"""The server ends a watch after this long by itself."""
QUIET_SECONDS_MAX = 90.0
"""Bookmarks come about every minute; a watch that is silent for longer is tried anew from where it was."""
PAUSE_SECONDS = 0.2
"""After an event the next ones may gather for so long; the first after a silence is taken at once."""
FORBIDDEN_SECONDS = 60.0
"""Rights are given by people: there is no hurry to ask again."""
SILENT_WATCHES_MAX = 2
"""So many watches in a row without a line: the version itself is doubted (the server was restored), so list."""


@dataclass(slots=True)
class Counts:
    """What one reflector has done so far."""

    attempts: int = 0
    """Every try to list or to watch on, whatever came of it."""
    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    relisted_differing: int = 0
    """Objects that a repeated list found changed, added or gone: what a gap would have lost."""
    errors: Counter[str] = field(default_factory=Counter)
    """By kind: gone, busy, conflict, refused, silent, unavailable."""


class Reflector:
    """One kind. `step` is called over and over by one thread; all else may be read from any."""

    def __init__(
        self,
        api: Api,
        shelf: Shelf[Any],
        *,
        path: str,
        selection: Mapping[str, str],
        clock: Clock,
        pace: Pace,
        quiet_seconds_max: float = QUIET_SECONDS_MAX,
        on_contact: Callable[[], None] = lambda: None,
        rest: Callable[[float], object] = lambda _: None,
    ) -> None:
        """`on_contact` is called when the server answers again after it did not; `rest` waits, or is cut short."""
        self.shelf = shelf
        self.path = path
        self.counts = Counts()
        self.error: SchedulerError | None = None
        """Why the last attempt failed; None while it is listed and watched."""
        self.lost_at: float | None = None
        """Monotonic seconds since when nothing is heard; None while connected."""
        self.is_listed = False
        self._api = api
        self._selection = dict(selection)
        self._clock = clock
        self.pace = pace
        self._quiet_seconds_max = quiet_seconds_max
        self._on_contact = on_contact
        self._rest = rest
        self._version = ""
        self._silent_watches = 0

    @property
    def kind(self) -> Kind:
        """What it reads."""
        return self.shelf.kind

    def step(self) -> float:
        """List if need be, watch until that ends; how many seconds to wait before the next step."""
        self.pace.begin()
        self.counts.attempts += 1
        try:
            if not self._version:
                self._list()
            self._watch()
        except SchedulerError as error:
            return self._failed(error)
        self._lost()
        return self.pace.after(is_failure=False)

    def _list(self) -> None:
        pages = list(self._pages())
        self.counts.lists += 1
        differing = self.shelf.fill(pages)
        if self.is_listed:
            self.counts.relisted_differing += differing
        self._version = pages[-1].metadata.resource_version
        self._silent_watches = 0
        self.is_listed = True
        self._heard()

    def _pages(self) -> Iterator[Page]:
        params = {**self._selection, "limit": str(PAGE_OBJECTS)}
        while True:
            try:
                page = msgspec.json.decode(self._api.raw(self.path, params), type=Page)
            except msgspec.DecodeError as error:
                raise SchedulerUnavailable(f"GET {self.path}: the list cannot be read: {error}") from error
            yield page
            if not page.metadata.continue_:
                return
            params["continue"] = page.metadata.continue_

    def _watch(self) -> None:
        params = {
            **self._selection,
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(SERVER_TIMEOUT_SECONDS),
        }
        lines = self._api.watch(self.path, params, quiet_seconds_max=self._quiet_seconds_max)
        self.counts.watches += 1
        self._heard()
        heard = self.counts.events + self.counts.bookmarks
        try:
            if hasattr(lines, "close"):
                with closing(cast("Any", lines)):
                    self._follow(lines)
            else:
                self._follow(lines)
        finally:
            is_silent = heard == self.counts.events + self.counts.bookmarks
            self._silent_watches = self._silent_watches + 1 if is_silent else 0

    def _follow(self, lines: Iterator[bytes]) -> None:
        paused_at = 0.0
        for line in lines:
            try:
                heard = self.shelf.hear(line)
            except msgspec.DecodeError as error:
                self._version = ""  # what was in it is not known: list
                raise SchedulerUnavailable(f"WATCH {self.path}: an event cannot be read: {error}") from error
            if heard.type == "ERROR":
                raise failure(f"WATCH {self.path}", int(heard.status.get("code") or 500), heard.status)
            self._version = heard.version or self._version
            if heard.type == "BOOKMARK":
                self.counts.bookmarks += 1
                continue
            self.counts.events += 1
            now = self._clock.monotonic_seconds()
            if now - paused_at >= PAUSE_SECONDS:
                # Under load events are taken in handfuls: half the CPU of a wake-up for each.
                self._rest(self._clock.wall_seconds(PAUSE_SECONDS))
                paused_at = now + PAUSE_SECONDS

    def _failed(self, error: SchedulerError) -> float:
        is_silent = isinstance(error, SchedulerSilent)
        self.counts.errors[type(error).__name__.removeprefix("Scheduler").lower()] += 1
        if isinstance(error, SchedulerGone) or self._silent_watches >= SILENT_WATCHES_MAX:
            self._version = ""
        if self.error is None:
            log.debug("a watch has ended", kind=self.kind.name, error=str(error))
        self.error = error
        self._lost()
        at_least = FORBIDDEN_SECONDS if error.code == 403 else 0.0
        if isinstance(error, SchedulerBusy):
            at_least = error.retry_after_seconds or 0.0
        return self.pace.after(is_failure=not is_silent, at_least_seconds=at_least)

    def _heard(self) -> None:
        was_lost = self.error is not None
        self.error = None
        self.lost_at = None
        if was_lost:
            log.debug("read again", kind=self.kind.name)
            self._on_contact()

    def _lost(self) -> None:
        if self.lost_at is None:
            self.lost_at = self._clock.monotonic_seconds()
