"""A copy of the cluster's objects, kept in step by one reflector a kind; says whether it is whole, and why not."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from trimtab.clock import Clock
from trimtab.errors import SchedulerError
from trimtab.schedulers.discovery import Served, discover
from trimtab.schedulers.kubernetes import Api
from trimtab.schedulers.objects import Loose, NodeObject, Pod
from trimtab.schedulers.pace import Pace
from trimtab.schedulers.reflector import QUIET_SECONDS_MAX, Counts, Reflector
from trimtab.schedulers.resources import RESOURCES, Kind
from trimtab.schedulers.shelf import Shelf
from trimtab.settings import KubernetesSettings

log = structlog.get_logger()

STALE_SECONDS_MAX = 30.0
"""A kind whose watch has been lost for longer is not known any more."""
REDISCOVER_SECONDS = 300.0
"""Schedulers are installed and upgraded while we run."""
STOP_SECONDS_MAX = 15.0
SHAPES: Mapping[str, type[Any]] = {"nodes": NodeObject, "pods": Pod}


class WatchedApi(Api, Protocol):
    """An API whose watches can be ended from another thread."""

    def close(self) -> None:
        """End all watches, whoever reads them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """All objects as last heard, kind by kind. Kinds are told by watches of their own: expect them moments apart."""

    nodes: Mapping[str, NodeObject] = field(default_factory=dict)
    pods: Mapping[str, Pod] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, Loose]] = field(default_factory=dict)
    """`plural.group` -> objects by key; kinds that are served and read, also where they have none."""
    served: Mapping[str, str] = field(default_factory=dict)
    """Kind -> version that is read."""
    changes: Mapping[str, int] = field(default_factory=dict)
    """Kind -> a number that is another one after every change; the mapping of an unchanged kind is the same object."""
    why_not_whole: str | None = None
    """None = everything that decides about moves is here and fresh."""
    notes: tuple[str, ...] = ()
    """What is missing and may be: kinds that we are not allowed to read, or whose server is in trouble."""


class Mirror:
    """Reads from `start` to `stop`, each kind in a thread of its own that mostly waits for the network."""

    def __init__(
        self,
        api: WatchedApi,
        settings: KubernetesSettings,
        clock: Clock,
        *,
        kinds: Iterable[Kind] = RESOURCES,
        quiet_seconds_max: float = QUIET_SECONDS_MAX,
        stale_seconds_max: float = STALE_SECONDS_MAX,
        rediscover_seconds: float = REDISCOVER_SECONDS,
    ) -> None:
        """`api` becomes ours: `stop` closes it."""
        self._api = api
        self._settings = settings
        self._clock = clock
        self._kinds = tuple(kinds)
        self._quiet_seconds_max = quiet_seconds_max
        self._stale_seconds_max = stale_seconds_max
        self._rediscover_seconds = rediscover_seconds
        self._readings: dict[str, _Reading] = {}
        self._served = Served()
        self._discovery_error: SchedulerError | None = None
        self._doubted_at: float | None = None
        self._is_discovered = False
        self._discovery = Pace(clock, random.random)
        self._is_discovery_wanted = threading.Event()
        self._is_stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.RLock()

    def start(self) -> None:
        """Begin to read; returns at once."""
        self._run("discovery", self._discover_for_ever)

    def stop(self) -> None:
        """End all reading."""
        self._is_stopping.set()
        self._is_discovery_wanted.set()
        self._poke()
        self._api.close()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(STOP_SECONDS_MAX)

    def objects(self) -> Mirrored:
        """What is known now."""
        with self._lock:
            readings = dict(self._readings)
            served, is_discovered, error = self._served, self._is_discovered, self._discovery_error
        reasons: list[str] = []
        notes: list[str] = []
        if not is_discovered:
            reasons.append(f"which kinds the cluster serves is not known: {error or 'it has not answered yet'}")
        self._say_unknown(served, reasons, notes)
        contents: dict[str, Mapping[str, Any]] = {}
        changes: dict[str, int] = {}
        for name, reading in readings.items():
            content = reading.reflector.shelf.content()
            trouble = self._trouble(reading)
            if trouble is not None:
                (reasons if reading.kind.is_needed or reading.is_pending else notes).append(trouble)
            elif content.unreadable:
                few = ", ".join(content.unreadable[:3])
                said = f"{len(content.unreadable)} of {name} cannot be read: {few}"
                (reasons if reading.kind.is_needed else notes).append(said)
            if reading.reflector.is_listed:
                contents[name], changes[name] = content.objects, content.changes
        return Mirrored(
            nodes=contents.pop("nodes", {}),
            pods=contents.pop("pods", {}),
            others=contents,
            served={name: readings[name].version for name in changes},
            changes=changes,
            why_not_whole="; ".join(reasons) or None,
            notes=tuple(notes),
        )

    def doubt(self) -> None:
        """The server did not answer just now: what is lost since before now is whole only when it is heard again."""
        self._doubted_at = self._clock.monotonic_seconds()

    def counts(self) -> Mapping[str, Counts]:
        """What each kind's reflector has done so far."""
        with self._lock:
            return {name: reading.reflector.counts for name, reading in self._readings.items()}

    def refresh(self) -> None:
        """Discover and read every kind once in this thread, until its watch ends; for tests and single looks."""
        self._discover()
        with self._lock:
            readings = list(self._readings.values())
        for reading in readings:
            reading.reflector.step()

    # --- threads

    def _run(self, name: str, target: Any, *arguments: Any) -> None:  # noqa: ANN401 - as Thread takes them
        thread = threading.Thread(target=target, args=arguments, name=f"mirror {name}", daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()]
            self._threads.append(thread)
        thread.start()

    def _discover_for_ever(self) -> None:
        while not self._is_stopping.is_set():
            self._discovery.begin()
            self._is_discovery_wanted.clear()
            is_good = self._discover()
            for reading in self._idle():
                self._run(reading.kind.name, self._read_for_ever, reading)
            rest = self._rediscover_seconds if is_good else self._discovery.after(is_failure=True)
            self._is_discovery_wanted.wait(self._clock.wall_seconds(rest))
            # Whatever asks for it, discovery keeps within the bound of any other reading.
            self._is_stopping.wait(self._clock.wall_seconds(self._discovery.bound_seconds()))

    def _read_for_ever(self, reading: _Reading) -> None:
        while not self._is_stopping.is_set() and reading.is_wanted:
            seconds = reading.reflector.step()
            if reading.reflector.error is not None and reading.reflector.error.code == 404:
                self._is_discovery_wanted.set()
            reading.poke.wait(self._clock.wall_seconds(seconds))
            if reading.poke.is_set():  # the server is back: go on sooner, not all at once and never past the bound
                reading.poke.clear()
                self._is_stopping.wait(self._clock.wall_seconds(reading.reflector.pace.when_called(seconds)))

    def _poke(self) -> None:
        with self._lock:
            readings = list(self._readings.values())
        for reading in readings:
            error = reading.reflector.error
            if self._is_stopping.is_set() or (error is not None and error.code != 403):
                reading.poke.set()

    # --- discovery

    def _discover(self) -> bool:
        try:
            served = discover(self._api, self._kinds)
        except SchedulerError as error:
            with self._lock:
                self._discovery_error = error
            return False
        with self._lock:
            self._served, self._discovery_error, self._is_discovered = served, None, True
            for kind in self._kinds:
                self._settle(kind, served)
        return True

    def _settle(self, kind: Kind, served: Served) -> None:
        version = served.versions.get(kind.name)
        reading = self._readings.get(kind.name)
        if version is None and kind.group in served.unclear:
            return  # it may well be there
        if reading is not None and reading.version != version:
            reading.is_wanted = False
            del self._readings[kind.name]
            log.info("no longer read", kind=kind.name, version=reading.version)
        if version is not None and kind.name not in self._readings:
            self._readings[kind.name] = _Reading(kind, version, self._reflector(kind, version))

    def _reflector(self, kind: Kind, version: str) -> Reflector:
        return Reflector(
            self._api,
            Shelf(kind, SHAPES.get(kind.name, Loose)),
            path=kind.path(version, self._settings.namespace),
            selection=kind.selection(self._settings.prefix),
            clock=self._clock,
            pace=Pace(self._clock, random.random),
            quiet_seconds_max=self._quiet_seconds_max,
            on_contact=self._poke,
            rest=self._is_stopping.wait,
        )

    def _idle(self) -> Iterator[_Reading]:
        with self._lock:
            readings = list(self._readings.values())
        for reading in readings:
            if not reading.has_thread:
                reading.has_thread = True
                yield reading

    # --- whole or not

    def _say_unknown(self, served: Served, reasons: list[str], notes: list[str]) -> None:
        for kind in self._kinds:
            into = reasons if kind.is_needed else notes
            if kind.name in served.unknown:
                offered = ", ".join(served.unknown[kind.name])
                into.append(f"{kind.name} is served as {offered} only; we read {', '.join(kind.versions)}")
            elif kind.group in served.unclear and kind.name not in self._readings:
                into.append(f"the server of {kind.group} does not say which kinds it has")

    def _trouble(self, reading: _Reading) -> str | None:
        reflector, kind = reading.reflector, reading.kind
        error, lost_at = reflector.error, reflector.lost_at
        if error is not None and error.code == 403:
            where = f"in namespace {self._settings.namespace}" if kind.is_ours else "in the whole cluster"
            return f"we may not list and watch {kind.name} {where} ({kind.why}): {error}"
        if not reflector.is_listed:
            return f"{kind.name} could not be read yet: {error}" if error else f"{kind.name} are not read yet"
        if lost_at is None:
            return None
        doubted_at = self._doubted_at
        if doubted_at is not None and doubted_at >= lost_at:
            return f"{kind.name} have not been read again since the server was away"
        lost_seconds = self._clock.monotonic_seconds() - lost_at
        if lost_seconds <= self._stale_seconds_max:
            return None
        return f"nothing was heard of {kind.name} for {lost_seconds:.0f} s: {error or 'every watch ends at once'}"


@dataclass(slots=True, eq=False)
class _Reading:
    """One kind that is being read."""

    kind: Kind
    version: str
    reflector: Reflector
    is_wanted: bool = True
    has_thread: bool = False
    poke: threading.Event = field(default_factory=threading.Event)

    @property
    def is_pending(self) -> bool:
        """Whether no attempt has come to an end yet."""
        return self.reflector.error is None and not self.reflector.is_listed
