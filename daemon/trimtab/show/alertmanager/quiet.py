"""Why something pages nobody now: a maintenance window of ours, or a silence of Alertmanager's. Pure.

Doubt pages: a window must cover every node of an incident, a silence must surely match. Neither is asked by the
planner: a silence stops no evacuation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trimtab.clock import iso
from trimtab.model.alerts import Maintenance, MaintenanceScope, Quiet, Silence
from trimtab.show.alertmanager.matching import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What an incident is about, as far as silences and windows ask."""

    labels: Mapping[str, str]
    nodes: tuple[str, ...] = ()
    """All nodes that it is about, not only the one it is named after."""
    queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silences:
    """The silences as they were read; `read_at` None = never yet."""

    silences: tuple[Silence, ...] = ()
    read_at: datetime | None = None
    silenced_by: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Incident label -> ids of silences, as Alertmanager itself says: asked where we cannot tell."""

    def mutes(self, silence: Silence, labels: Mapping[str, str]) -> bool:
        """Whether one of them surely mutes what bears these labels."""
        told = matches(silence, labels)
        if told is None:
            return silence.id in self.silenced_by.get(labels.get("incident", ""), frozenset())
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Hush:
    """Everything that keeps people asleep, at one moment."""

    windows: tuple[Maintenance, ...] = ()
    silences: Silences = Silences()
    racks: Mapping[str, str] = field(default_factory=dict)
    """Node -> rack, as the scheduler says now."""
    stale_seconds: float = 300.0

    def why(self, about: About, now: datetime, *, wall: datetime) -> Quiet | None:
        """What keeps an incident from paging; None = nothing. `wall`: the moment by Alertmanager's clock."""
        window = self.window_over(about, now)
        if window is not None:
            return of_window(window)
        for silence in self._heard(wall):
            if self.silences.mutes(silence, about.labels):
                return of_silence(silence)
        return None

    def window_over(self, about: About, now: datetime) -> Maintenance | None:
        """The maintenance window that covers an incident; None = none does."""
        return next((one for one in self.windows if one.is_active(now) and self._covers(one, about)), None)

    def standing(self, now: datetime, *, wall: datetime) -> tuple[Quiet, ...]:
        """All windows and silences that hold now."""
        windows = [of_window(window) for window in self.windows if window.is_active(now)]
        return (*windows, *(of_silence(silence) for silence in self._heard(wall)))

    def _heard(self, wall: datetime) -> tuple[Silence, ...]:
        """Silences that hold, unless they were read too long ago to be believed."""
        read_at = self.silences.read_at
        if read_at is None or wall - read_at > timedelta(seconds=self.stale_seconds):
            return ()
        return tuple(silence for silence in self.silences.silences if silence.is_active(wall))

    def _covers(self, window: Maintenance, about: About) -> bool:
        if window.scope is MaintenanceScope.QUEUE:
            return about.queue == window.name
        if not about.nodes:
            return False
        if window.scope is MaintenanceScope.NODE:
            return all(node == window.name for node in about.nodes)
        return all(node in window.nodes or self.racks.get(node) == window.name for node in about.nodes)


def sentence_of(quiet: Quiet) -> str:
    """`Maintenance M3 of rack r3 until 2026-11-30T14:00:00Z, by anna: new switches.`"""
    what = "Maintenance" if quiet.kind == "maintenance" else "Silence"
    name = quiet.name if quiet.kind == "maintenance" else quiet.name[:8]
    why = f": {quiet.why.rstrip('.')}" if quiet.why else ""
    return f"{what} {name} of {quiet.about} until {iso(quiet.until)}, by {quiet.who or 'somebody'}{why}."


def undecided(silences: Sequence[Silence], abouts: Sequence[About], now: datetime) -> bool:
    """Whether Alertmanager must be asked about any of these."""
    return any(
        matches(silence, about.labels) is None for silence in silences if silence.is_active(now) for about in abouts
    )


def of_window(window: Maintenance) -> Quiet:
    """A window as people are told of it."""
    return Quiet(
        kind="maintenance", name=window.title, about=window.text, until=window.until, who=window.who, why=window.why
    )


def of_silence(silence: Silence) -> Quiet:
    """A silence as people are told of it."""
    about = "{" + ", ".join(matcher.text for matcher in silence.matchers) + "}"
    return Quiet(
        kind="silence",
        name=silence.id,
        about=about if silence.matchers else "conditions that this version does not read",
        until=silence.ends_at,
        who=silence.created_by,
        why=silence.comment,
    )
