"""Reads settings again while a process runs: all that can be is in force at once, the rest waits for a restart.

Nothing of a file that cannot be used is taken; the settings in force stay, and it is said until a reload succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from trimtab.clock import Clock, count_text
from trimtab.errors import TrimtabError
from trimtab.service import Service
from trimtab.settings import AgentSettings, DaemonSettings, from_table
from trimtab.show.metrics_facts import SettingsFacts

log = structlog.get_logger()

S = TypeVar("S", AgentSettings, DaemonSettings)
V = TypeVar("V")
Take = Callable[[], None]
KEYS_SAID_MAX = 12


class Swappable(Mapping[str, V]):
    """A mapping whose content is replaced whole: whoever goes through it meanwhile sees the old one to its end."""

    def __init__(self, content: Mapping[str, V]) -> None:
        """Hold this content."""
        self._content = dict(content)

    def swap(self, content: Mapping[str, V]) -> None:
        """Hold this content from now on."""
        self._content = dict(content)

    def __getitem__(self, name: str) -> V:
        return self._content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[S]):
    """Some keys that can change while the process runs, and how.

    `prepare` makes what is new of the settings as they will be, and may raise SettingsError; what it returns puts that
    in place and cannot fail. Only when every part is prepared is anything put in place.
    """

    keys: tuple[str, ...]
    """`plan` is all of a table, `detect.interval_seconds` one key."""
    prepare: Callable[[S], Take]
    is_always_due: bool = False
    """Also where no key has changed: a key names a file, and what is in it may be another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One key whose value in the settings is another than before. Values are not said: some are secrets."""

    key: str
    is_in_force: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What came of reading the settings again."""

    at: datetime
    changes: tuple[Change, ...] = ()
    error: str = ""
    """Why nothing was taken over; empty where it was."""

    @property
    def is_ok(self) -> bool:
        """Whether the settings could be used."""
        return not self.error

    @property
    def in_force(self) -> tuple[str, ...]:
        """Keys whose new value counts now."""
        return tuple(one.key for one in self.changes if one.is_in_force)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Keys whose new value needs a restart."""
        return tuple(one.key for one in self.changes if not one.is_in_force)

    @property
    def sentence(self) -> str:
        """What came of it, for people."""
        if self.error:
            return f"Settings not reloaded, those in force stay: {self.error}"
        if not self.changes:
            return "Settings reloaded: nothing in them has changed."
        said = [f"in force now: {_listed(self.in_force)}"] if self.in_force else []
        said += [f"needs a restart: {_listed(self.waiting)}"] if self.waiting else []
        return f"Settings reloaded; {'; '.join(said)}."


class Reloader(Generic[S]):
    """The settings of one process, and how they are read again. `reload` is called on one thread."""

    def __init__(
        self,
        settings: S,
        *,
        read: Callable[[], S],
        parts: Sequence[Part[S]],
        clock: Clock,
        use: Callable[[S], None] = lambda _settings: None,
        told: Callable[[Reloaded], None] = lambda _reloaded: None,
    ) -> None:
        """`settings` are those in force; `read` raises SettingsError.

        `use` is given those that are in force from now on, `told` what came of each reload.
        """
        self.settings: S = settings
        self.last: Reloaded | None = None
        self.failures_total = 0
        self._started: S = settings
        self._read: Callable[[], S] = read
        self._parts: tuple[Part[S], ...] = tuple(parts)
        self._clock = clock
        self._use: Callable[[S], None] = use
        self._told = told

    def reload(self) -> Reloaded:
        """Read again and take over what can be; says what became of each changed key. Never raises."""
        try:
            found = self._take(self._read())
        except TrimtabError as error:
            found = self._failed(str(error))
            log.error("settings not reloaded; those in force stay", said=found.error)  # noqa: TRY400 - the sentence is all
        except Exception as error:  # a defect of a part: what ran well without the new settings goes on
            found = self._failed(f"a defect ({type(error).__name__}: {error}); its traceback is in the log")
            log.exception("settings not reloaded; those in force stay", said=found.error)
        else:
            log.info("settings reloaded", said=found.sentence, in_force=found.in_force, needs_restart=found.waiting)
        self.last = found
        try:
            self._told(found)
        except TrimtabError as error:  # a database that is away is no reason to end
            log.warning("the reload could not be written down", why=str(error))
        return found

    def _failed(self, why: str) -> Reloaded:
        self.failures_total += 1
        return Reloaded(at=self._clock.now(), error=why)

    @property
    def trouble(self) -> str:
        """What is to be said until the next reload that succeeds; empty where there is nothing."""
        return self.last.sentence if self.last is not None and not self.last.is_ok else ""

    @property
    def waiting(self) -> tuple[str, ...]:
        """Keys of the file that need a restart to be in force."""
        return self.last.waiting if self.last is not None and self.last.is_ok else ()

    def facts(self) -> SettingsFacts:
        """For /metrics and doctor."""
        last = self.last
        return SettingsFacts(
            is_ok=last is None or last.is_ok,
            at=last.at if last is not None else None,
            failures_total=self.failures_total,
            trouble=self.trouble,
            waiting=self.waiting,
        )

    def _take(self, new: S) -> Reloaded:
        table, now, then = _table(self._started), _table(self.settings), _table(new)
        keys = {key for part in self._parts for key in part.keys}
        merged = _table(self.settings)
        for key in keys:
            _copy(then, merged, key.split("."))
        # What stays is what it was at the start, so that a key that was changed and changed back is no news.
        settings = from_table(merged, type(self.settings), where="settings")
        live = set(_differing(now, merged))
        concerned = [
            part for part in self._parts if part.is_always_due or any(_is_within(key, part.keys) for key in live)
        ]
        takes = [part.prepare(settings) for part in concerned]
        for take in takes:
            take()
        self.settings = settings
        self._use(settings)
        waiting = [key for key in _differing(table, then) if not _is_within(key, tuple(keys))]
        changes = [Change(key=key, is_in_force=True) for key in sorted(live)]
        changes += [Change(key=key, is_in_force=False) for key in sorted(waiting)]
        return Reloaded(at=self._clock.now(), changes=tuple(changes))


def reload_if_asked(service: Service, reloader: Reloader[S], *, also: Callable[[], object] = str) -> None:
    """On SIGHUP: read the settings again, do what else is due, and tell systemd when it is over."""
    if service.reload_was_asked():
        service.reloading()
        try:
            reloader.reload()
            also()
        finally:
            service.ready()


def _table(settings: AgentSettings | DaemonSettings) -> dict[str, Any]:
    table: dict[str, Any] = msgspec.to_builtins(settings)
    return table


def _copy(source: Mapping[str, Any], target: dict[str, Any], path: Sequence[str]) -> None:
    first, *rest = path
    if rest:
        _copy(source[first], target[first], rest)
    else:
        target[first] = source[first]


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """Dotted keys whose values differ; a table that only one of them has is said by its name."""
    for name in dict.fromkeys((*one, *other)):
        here, there = one.get(name), other.get(name)
        if here == there:
            continue
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            yield from _differing(here, there, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _is_within(key: str, keys: tuple[str, ...]) -> bool:
    return any(key == one or key.startswith(f"{one}.") for one in keys)


def _listed(keys: Sequence[str]) -> str:
    more = len(keys) - KEYS_SAID_MAX
    return ", ".join(keys[:KEYS_SAID_MAX]) + (f" and {count_text(more, 'more key')}" if more > 0 else "")
