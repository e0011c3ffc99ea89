"""What surrounds the findings: others' alerts, silences, maintenance windows, and the alerts that we push.

One beat keeps it up; the other beats ask it what they need and wait for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from trimtab.clock import Clock, SystemClock
from trimtab.detect.closing import NODES
from trimtab.model.advice import OpenFinding
from trimtab.model.alerts import ForeignAlert, MaintenanceScope, Quiet
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.oncall import Incident
from trimtab.settings import DaemonSettings
from trimtab.show.alertmanager.alerts import Frame
from trimtab.show.alertmanager.desk import Desk, Scene
from trimtab.show.alertmanager.facts import AlertingFacts, alerting_facts
from trimtab.show.alertmanager.others import Others
from trimtab.show.alertmanager.windows import Windows
from trimtab.show.api_alerts import Alerting
from trimtab.show.board import BoardBox
from trimtab.store.history import History

QUIET_SECONDS = 1.0
"""Silences begin and end by themselves: what was concluded is good for so long."""
TEXTS_SHOWN_MAX, SIZE_SHOWN_MAX = 16, 2000
"""Labels and annotations of an alert on the board, and their characters in all."""
ALERTS_SHOWN_MAX = 200
"""Others' alerts on the board; all of them are at GET /api/v1/alerts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the last judgement saw, as far as silences and windows ask."""

    findings: Mapping[int, OpenFinding]
    racks: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastQuiet:
    """What kept people asleep, and what that was concluded from."""

    key: tuple[object, ...]
    at: datetime
    quiet: tuple[Quiet, ...]


class Context:
    """Made by the assembly; the judging beat tells it what it saw."""

    def __init__(
        self,
        *,
        settings: DaemonSettings,
        history: History,
        clock: Clock,
        wall: Clock | None = None,
        page_url: Callable[[], str] | None = None,
    ) -> None:
        """Nothing is sent yet. Raises SettingsError.

        `page_url`: where people reach the page, asked when a link is made; without it, what the settings say.
        """
        wall = wall or (clock if isinstance(clock, SystemClock) else SystemClock())
        self._history = history
        self._clock = clock
        self._seen = Seen(findings={}, racks={})
        self.desk = Desk(
            frame=Frame(
                settings=settings.alertmanager,
                cluster=settings.cluster,
                page_url=page_url or (lambda: settings.people.public_url),
                runbook_base=settings.oncall.runbook_url,
            ),
            memory=history,
            clock=clock,
            wall=wall,
            scene=Scene(nodes_of=self._nodes_of, racks=lambda: self._seen.racks),
        )
        self.others = Others(
            memory=history,
            settings=settings.alertmanager.others,
            cluster=settings.cluster,
            clock=clock,
            wall=wall,
        )
        self._incidents: tuple[Incident, ...] = ()
        self._quiet: _LastQuiet | None = None
        self.others.standing()

    def tick(self) -> str:
        """The beat: push what Alertmanager pages, read silences, keep windows, let others' alerts age."""
        self._incidents = self._history.open_incidents()
        said = self.desk.tick(self._incidents)
        aged = self.others.age_when_due()
        return said + (f"; {aged} alerts of others were not heard of again" if aged else "")

    def alerts(self) -> tuple[ForeignAlert, ...]:
        """Others' alerts that stand, for the window."""
        return self.others.standing()

    def shown(self) -> tuple[ForeignAlert, ...]:
        """Those that the board has room for, the newest first, with as much of their texts."""
        return tuple(_short(alert) for alert in self.others.last_read[:ALERTS_SHOWN_MAX])

    def see(self, findings: Iterable[OpenFinding], snapshot: ClusterSnapshot | None) -> None:
        """What a judgement found, before anybody is told of it."""
        racks = self._seen.racks
        if snapshot is not None:
            racks = {node.name: node.rack for node in snapshot.nodes if node.rack is not None}
        self._seen = Seen(findings={one.id: one for one in findings}, racks=racks)

    def why_quiet(self, incident: Incident, now: datetime) -> str | None:
        """Why an incident is to wake nobody now; None = page."""
        return self.desk.why_quiet(incident, now)

    def quiet(self, now: datetime) -> tuple[Quiet, ...]:
        """What keeps people asleep now, for the board; hundreds of silences over a storm are not matched each time."""
        key = (self.desk.windows, self.desk.silences, self._incidents)
        last = self._quiet
        is_same = last is not None and all(one is other for one, other in zip(last.key, key, strict=True))
        if last is None or not is_same or abs((now - last.at).total_seconds()) > QUIET_SECONDS:
            last = self._quiet = _LastQuiet(key=key, at=now, quiet=self.desk.standing(self._incidents, now))
        return last.quiet

    def alerting(self, box: BoardBox) -> Alerting:
        """What the API's routes about all this work on; names are checked against the board."""
        windows = Windows(
            memory=self._history,
            desk=self.desk,
            clock=self._clock,
            known=lambda: _names_on(box),
            nodes_of_rack=self.nodes_of_rack,
        )
        return Alerting(desk=self.desk, others=self.others, windows=windows, quiet=self.quiet)

    def facts(self) -> AlertingFacts:
        """All of it as numbers and sentences."""
        return alerting_facts(self.desk, self.others, quiet=self.quiet(self._clock.now()))

    def nodes_of_rack(self, rack: str) -> tuple[str, ...]:
        """The nodes of a rack, as the scheduler says; none where it does not."""
        return tuple(sorted(node for node, name in self._seen.racks.items() if name == rack))

    def _nodes_of(self, incident: Incident) -> tuple[str, ...]:
        found = self._seen.findings.get(incident.finding) if incident.finding is not None else None
        named = found.finding.facts.get(NODES, "").split() if found is not None else []
        own = [incident.subject.node] if incident.subject.node else []
        return tuple(dict.fromkeys((*own, *named)))


def _short(alert: ForeignAlert) -> ForeignAlert:
    """An alert as the board has it: whoever sends a book is not shown the whole of it on every page."""
    if len(alert.labels) + len(alert.annotations) <= TEXTS_SHOWN_MAX and alert.size <= SIZE_SHOWN_MAX:
        return alert
    labels = {name: value[:100] for name, value in list(alert.labels.items())[:TEXTS_SHOWN_MAX]}
    said = {name: value[:300] for name, value in list(alert.annotations.items())[:4]}
    return replace(alert, labels=labels, annotations=said)


def _names_on(box: BoardBox) -> dict[MaintenanceScope, frozenset[str]]:
    """What windows can be about, as the last board has it."""
    latest = box.latest()
    if latest is None:
        return {}
    board = latest.board
    queues = {queue.name for queue in board.queues} | {job.queue for job in board.jobs if job.queue}
    return {
        MaintenanceScope.NODE: frozenset(node.name for node in board.nodes),
        MaintenanceScope.RACK: frozenset(node.rack for node in board.nodes if node.rack),
        MaintenanceScope.QUEUE: frozenset(queues),
    }
