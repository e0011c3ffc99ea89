"""What Alertmanager and we tell each other: other people's alerts, silences, maintenance windows, our own alerts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

TEXT_CHARACTERS_MAX = 300
"""Of what others say, as people see it."""


class AlertState(StrEnum):
    """Whether somebody else's alert stands."""

    FIRING = "firing"
    RESOLVED = "resolved"
    AGED = "aged"
    """Not heard of for too long: nobody claims it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPlace:
    """What an alert is about, as its labels say. `gpu` is a UUID or an index on its node; all None = nothing known."""

    node: str | None = None
    gpu: str | None = None
    pod: str | None = None
    """`namespace/pod`, or the pod alone where the namespace is not told."""
    workload: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignAlert:
    """Somebody else's alert, heard through the webhook. `fingerprint` and `starts_at` are its identity."""

    fingerprint: str
    starts_at: datetime
    state: AlertState
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    place: AlertPlace
    heard_at: datetime
    """When it was last told, whatever was told."""
    ends_at: datetime | None = None
    group_key: str = ""
    source: str = ""
    """Whose token brought it."""

    @property
    def size(self) -> int:
        """Characters of its labels and annotations."""
        texts = (*self.labels.items(), *self.annotations.items())
        return sum(len(name) + len(value) for name, value in texts)

    @property
    def text(self) -> str:
        """Its name and what it says of itself, for people."""
        said = self.annotations.get("summary") or self.annotations.get("description") or self.annotations.get("message")
        return f"{self.name}: {said}"[:TEXT_CHARACTERS_MAX] if said else self.name[:TEXT_CHARACTERS_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """One condition of a silence on a label; a label that is not there is the empty text."""

    name: str
    value: str
    is_regex: bool = False
    is_equal: bool = True

    @property
    def text(self) -> str:
        """As Alertmanager writes it: `node!~"gpu-.*"`."""
        sign = ("=" if self.is_equal else "!") + ("~" if self.is_regex else "")
        sign = {"=": "=", "=~": "=~", "!": "!=", "!~": "!~"}[sign]
        return f'{self.name}{sign}"{self.value}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A silence that Alertmanager holds. No matchers = we cannot tell what it is about (never: everything)."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime
    created_by: str = ""
    comment: str = ""

    def is_active(self, at: datetime) -> bool:
        """Whether it holds at that moment."""
        return self.starts_at <= at < self.ends_at


class MaintenanceScope(StrEnum):
    """What a maintenance window is about."""

    NODE = "node"
    RACK = "rack"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """A time in which faults of a node, rack or queue page nobody. Shown as `M3`; it stops no evacuation."""

    id: int
    scope: MaintenanceScope
    name: str
    starts_at: datetime
    until: datetime
    who: str
    why: str
    nodes: tuple[str, ...] = ()
    """Of a rack: its nodes when the window was made; what the scheduler says now counts as well."""
    ended_at: datetime | None = None
    ended_by: str = ""
    wants_silence: bool = False
    """Whether Alertmanager is to silence it too."""
    silence_id: str = ""
    """Its silences there, once they are made: ids with a blank between."""
    silence_until: datetime | None = None
    """Until when they hold there, as last set by us; None = not set, or taken away."""

    @property
    def title(self) -> str:
        """`M3`."""
        return f"M{self.id}"

    @property
    def text(self) -> str:
        """What it is about, for people: `gpu-07`, `rack r3`, `queue research`."""
        return self.name if self.scope is MaintenanceScope.NODE else f"{self.scope} {self.name}"

    def is_active(self, at: datetime) -> bool:
        """Whether it holds at that moment."""
        return self.ended_at is None and self.starts_at <= at < self.until

    def is_over(self, at: datetime) -> bool:
        """Whether it holds no more and never will again."""
        return self.ended_at is not None or at >= self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """One reason why some things page nobody now, as the board shows it."""

    kind: str
    """`silence` or `maintenance`."""
    name: str
    """The silence's id, or `M3`."""
    about: str
    """What it is about: matchers, or `rack r3`."""
    until: datetime
    who: str
    why: str
    findings: tuple[str, ...] = ()
    """Open findings (`F31`) that it keeps from paging now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedAlert:
    """An alert that we gave to Alertmanager; its labels are its identity there and never change."""

    incident: int
    """Number of the incident: 17 of I17."""
    labels: Mapping[str, str]
    base_labels: Mapping[str, str]
    """The labels that came from the incident when it was first pushed: they stay, whatever it says later."""
    starts_at: datetime
    annotations: Mapping[str, str] = field(default_factory=dict)
    link: str = ""
    """Where to look; empty = left out."""
    resolved_at: datetime | None = None

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Its identity there."""
        return tuple(sorted(self.labels.items()))
