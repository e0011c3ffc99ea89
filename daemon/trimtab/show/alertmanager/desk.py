"""Everything between one daemon and its Alertmanagers: one beat that pushes, reads silences and keeps windows.

Also the answer to `why does this page nobody?`, which waits for nobody and asks only what was read last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from trimtab.clock import Clock
from trimtab.errors import SettingsError
from trimtab.model.alerts import Maintenance, PushedAlert, Quiet, Silence
from trimtab.model.command import AuditLine
from trimtab.model.oncall import Incident
from trimtab.settings.alertmanager import AlertmanagerSettings
from trimtab.show.alertmanager.alerts import Frame, alert_for
from trimtab.show.alertmanager.client import KnownAlert, Peer, PeerDown, PeerRefused
from trimtab.show.alertmanager.pusher import PeerFacts, Pusher, Pushes
from trimtab.show.alertmanager.quiet import About, Hush, Silences, of_window, sentence_of, undecided
from trimtab.show.alertmanager.silencing import Silencer, WindowMemory
from trimtab.show.oncall.pager import of_alertmanager

RENEWALS_MIN = 3
"""So often an alert must be renewed before it would end by itself."""
SETTLE_SECONDS = 15.0
"""So long after a start nobody is paged before the silences were asked for once: a restart must not wake people."""
UNHEARD_SECONDS = 600.0
"""Longer than a rule waits before it fires."""
WINDOWS_KEPT = timedelta(days=1)
NOT_ASKED_YET = "Alertmanager has not been asked for its silences yet: this daemon has just started."


class AlertMemory(Pushes, WindowMemory, Protocol):
    """All the memory that the desk needs; the history satisfies it."""

    def audit(self, lines: Sequence[AuditLine]) -> None:
        """Append audit lines."""
        ...


def _own_node(incident: Incident) -> tuple[str, ...]:
    return (incident.subject.node,) if incident.subject.node else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the beats know that silences and windows ask for, as of now."""

    nodes_of: Callable[[Incident], tuple[str, ...]] = _own_node
    """All nodes that an incident is about."""
    racks: Callable[[], Mapping[str, str]] = dict
    """Node -> rack, as the scheduler says."""


class Desk:
    """One thread calls `tick`; the others only read what it published."""

    def __init__(
        self,
        *,
        frame: Frame,
        memory: AlertMemory,
        clock: Clock,
        wall: Clock,
        scene: Scene | None = None,
    ) -> None:
        """Nothing is sent yet. Raises SettingsError.

        `clock` stamps incidents and windows; `wall` is a real one, as Alertmanager's is.
        """
        check_settings(frame.settings)
        self._frame = frame
        self._memory = memory
        self._clock, self._wall = clock, wall
        self._scene = scene or Scene()
        self._peers = tuple(Peer(url, frame.settings) for url in frame.settings.urls)
        self._silencer = Silencer(memory=memory, cluster=frame.cluster, clock=clock, wall=wall)
        self.pusher = Pusher(
            self._peers if frame.settings.push else (),
            frame=frame,
            memory=memory,
            clock=wall,
            is_muted=self._is_muted,
        )
        self.reads_total: Counter[str] = Counter()
        """Times that the silences were asked for, by result: read, failed."""
        self.trouble = ""
        """Why the silences could not be read or kept the last time; empty = they could."""
        self.doubled = 0
        """Incidents that we push and that our Prometheus rules fire for too: one of the two must stop."""
        self.unheard = 0
        """Incidents that Alertmanager is to page and knows nothing of: neither pushed nor fired by a rule."""
        self._started_seconds = wall.monotonic_seconds()
        self._read_due_seconds = self._started_seconds
        self._has_asked = not self._reads_silences
        self._windows: tuple[Maintenance, ...] = memory.maintenance_windows(clock.now() - WINDOWS_KEPT)
        self._silences = Silences()
        self._kept: frozenset[int] = frozenset()

    @property
    def settings(self) -> AlertmanagerSettings:
        """As they are set."""
        return self._frame.settings

    @property
    def peers(self) -> tuple[PeerFacts, ...]:
        """How each peer takes what it is given."""
        return self.pusher.facts

    @property
    def hush(self) -> Hush:
        """Everything that keeps people asleep now."""
        return Hush(
            windows=self._windows,
            silences=self._silences,
            racks=self._scene.racks(),
            stale_seconds=self._frame.settings.silences_stale_seconds,
        )

    # --- the beat

    def tick(self, incidents: Iterable[Incident]) -> str:
        """Read what is to be read, keep up what is to be kept up, push what Alertmanager pages."""
        standing = [incident for incident in incidents if incident.is_open]
        self.refresh_windows()
        self._read_when_due(standing)
        said = self.pusher.push(self._to_push(standing)) if self.pusher.facts else "no Alertmanager is pushed to"
        silences = len(self._silences.silences)
        quiet = f"; {silences} silences" if self._reads_silences else ""
        return f"{said}{quiet}" + (f"; {self.trouble}" if self.trouble else "")

    def refresh_windows(self) -> None:
        """Look at the windows anew: one that was just made counts from now on."""
        self._windows = self._memory.maintenance_windows(self._clock.now() - WINDOWS_KEPT)

    def _to_push(self, standing: Sequence[Incident]) -> list[Incident]:
        """What Alertmanager is to page; not yet what a window of ours keeps quiet, which its silences do not know."""
        hush, now = self.hush, self._clock.now()
        wanted: list[Incident] = []
        kept: dict[int, str] = {}
        for incident in of_alertmanager(standing):
            window = None
            if self.pusher.labels_of(incident.number) is None and not incident.is_drill:
                window = hush.window_over(self.about(incident), now)
            if window is None:
                wanted.append(incident)
            else:
                kept[incident.number] = sentence_of(of_window(window))
        self._note_kept(kept, now)
        return wanted

    def _note_kept(self, kept: Mapping[int, str], now: datetime) -> None:
        """What a window keeps from Alertmanager is in the audit, once; the bell notes the rest."""
        news = [
            AuditLine(at=now, who="trimtab", what=f"I{number} pages nobody", why=why)
            for number, why in kept.items()
            if number not in self._kept
        ]
        if news:
            self._memory.audit(news)
        self._kept = frozenset(kept)

    # --- silences

    @property
    def _reads_silences(self) -> bool:
        return self._frame.settings.silences and bool(self._peers)

    def _read_when_due(self, standing: Sequence[Incident]) -> None:
        at_seconds = self._wall.monotonic_seconds()
        if not self._peers or at_seconds < self._read_due_seconds:
            return
        self._read_due_seconds = at_seconds + self._frame.settings.silences_interval_seconds
        troubles: list[str] = []
        has_read = False
        for peer in self._peers:
            try:
                self._hear(peer)
                if self._reads_silences and not has_read:
                    self._read(peer, standing)
                    has_read = True
            except (PeerDown, PeerRefused) as error:
                troubles.append(str(error))
        if self._reads_silences:
            self.reads_total["read" if has_read else "failed"] += 1
        self.trouble = troubles[0] if troubles else ""
        self._has_asked = True

    def _hear(self, peer: Peer) -> None:
        status = peer.status()
        self.pusher.heard_up_since(peer.name, status.uptime, status.versionInfo.get("version", ""))

    def _read(self, peer: Peer, standing: Sequence[Incident]) -> None:
        silences = peer.silences()
        wall = self._wall.now()
        abouts = [self.about(incident) for incident in standing]
        ours, paged = self.pusher.open_alerts, of_alertmanager(standing)
        alerts = peer.alerts() if paged or undecided(silences, abouts, wall) else []
        self._silences = Silences(silences=silences, read_at=wall, silenced_by=_silenced_by(alerts))
        self.doubled = _doubled(ours, alerts)
        self.unheard = self._unheard(paged, alerts)
        if self._silencer.keep_up(peer, self._windows, silences):
            self.refresh_windows()

    def _is_muted(self, alert: PushedAlert, wall: datetime) -> bool:
        """Whether a silence lies over an alert, as last read, however long ago that was."""
        return any(
            silence.is_active(wall) and self._silences.mutes(silence, alert.labels)
            for silence in self._silences.silences
        )

    def _unheard(self, paged: Iterable[Incident], alerts: Iterable[KnownAlert]) -> int:
        """Incidents that Alertmanager is to page for long, and knows nothing of: nobody pages them."""
        known = {alert.labels.get("incident") for alert in alerts}
        hush, now = self.hush, self._clock.now()
        abouts = [self.about(one) for one in paged if (now - one.opened_at).total_seconds() > UNHEARD_SECONDS]
        return sum(
            1 for about in abouts if about.labels["incident"] not in known and hush.window_over(about, now) is None
        )

    # --- why quiet

    def about(self, incident: Incident) -> About:
        """What silences and windows are asked about an incident."""
        labels = self.pusher.labels_of(incident.number)
        if labels is None:
            labels = alert_for(incident, None, self._frame, self._wall.now()).labels
        nodes = self._scene.nodes_of(incident) or _own_node(incident)
        return About(labels=labels, nodes=nodes, queue=incident.queue or incident.subject.queue or "")

    def quiet_over(self, incident: Incident, now: datetime) -> Quiet | None:
        """What keeps it from paging; None = nothing that stands."""
        return self.hush.why(self.about(incident), now, wall=self._wall.now())

    def why_quiet(self, incident: Incident, now: datetime) -> str | None:
        """The sentence with who asked for quiet and until when; None = page. A drill is never quiet."""
        if incident.is_drill:
            return None
        found = self.quiet_over(incident, now)
        if found is not None:
            return sentence_of(found)
        is_young = self._wall.monotonic_seconds() - self._started_seconds < SETTLE_SECONDS
        return NOT_ASKED_YET if not self._has_asked and is_young else None

    def standing(self, incidents: Iterable[Incident], now: datetime) -> tuple[Quiet, ...]:
        """All silences and windows that hold now, each with what it keeps from paging."""
        hush, wall = self.hush, self._wall.now()
        kept: dict[tuple[str, str], list[str]] = {}
        for incident in incidents:
            quiet = None if incident.is_drill else hush.why(self.about(incident), now, wall=wall)
            if quiet is not None:
                named = f"F{incident.finding}" if incident.finding is not None else incident.name
                kept.setdefault((quiet.kind, quiet.name), []).append(named)
        return tuple(
            replace(one, findings=tuple(kept.get((one.kind, one.name), ()))) for one in hush.standing(now, wall=wall)
        )

    @property
    def silences(self) -> tuple[Silence, ...]:
        """As last read."""
        return self._silences.silences

    @property
    def silences_read_at(self) -> datetime | None:
        """When that was; None = never."""
        return self._silences.read_at

    @property
    def windows(self) -> tuple[Maintenance, ...]:
        """Maintenance windows, those over lately too."""
        return self._windows


def _doubled(ours: Iterable[PushedAlert], alerts: Iterable[KnownAlert]) -> int:
    """How many incidents that we pushed our Prometheus rules fire for as well: each is two alerts."""
    keys = {alert.key for alert in ours}
    incidents = {alert.labels["incident"] for alert in ours}
    return len(
        {
            alert.labels["incident"]
            for alert in alerts
            if alert.labels.get("incident") in incidents
            and "finding" in alert.labels
            and tuple(sorted(alert.labels.items())) not in keys
        }
    )


def _silenced_by(alerts: Iterable[KnownAlert]) -> Mapping[str, frozenset[str]]:
    """Incident label -> silences that mute everything which bears it: pushed by us, or fired by our rules."""
    found: dict[str, frozenset[str]] = {}
    for alert in alerts:
        incident = alert.labels.get("incident")
        if incident:
            ids = frozenset(alert.status.silencedBy)
            found[incident] = found[incident] & ids if incident in found else ids
    return found


def check_settings(settings: AlertmanagerSettings) -> None:
    """Raises SettingsError where what is pushed would end before it is renewed, or a label would lose its meaning."""
    if settings.hold_seconds < RENEWALS_MIN * settings.renew_seconds:
        raise SettingsError(
            f"alertmanager.hold_seconds = {settings.hold_seconds:g} leaves room for fewer than {RENEWALS_MIN} renewals "
            f"of {settings.renew_seconds:g} s: an alert would end while its fault goes on. Set at least "
            f"{RENEWALS_MIN * settings.renew_seconds:g}."
        )
    if settings.renew_seconds < settings.interval_seconds:
        raise SettingsError("alertmanager.renew_seconds is less than interval_seconds, which is how often we look.")
    taken = {"alertname", "cluster", "incident", "node", "gpu", "workload", "queue", "rack", "audience", "drill"}
    clash = sorted((taken & set(settings.labels)) | ({settings.severity_label or ""} & (taken | set(settings.labels))))
    if clash:
        raise SettingsError(f"alertmanager: the label {clash[0]} is ours and cannot be set. Choose another name.")
    if settings.user and settings.token_file:
        raise SettingsError("alertmanager: set token_file, or user and password_file, not both.")
