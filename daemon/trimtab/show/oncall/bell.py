"""Rings for what is wrong: compares what stands with what people were told, and says what is to be told now.

Level, not edge: each beat looks at everything that stands, so that a crash between two steps loses nothing. It keeps
nothing in memory; what it returns is written in the transaction of whatever made it, or made anew at the next beat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from trimtab.errors import DecisionRefused
from trimtab.model.advice import Finding, OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, CommandState
from trimtab.model.oncall import Incident, Pager, Verb
from trimtab.model.outbox import Posting
from trimtab.settings.oncall import OnCallSettings
from trimtab.show.oncall.letters import Letters
from trimtab.show.oncall.pager import Arbiter
from trimtab.show.oncall.quiet import Quiet
from trimtab.show.oncall.ringing import Ringing
from trimtab.show.oncall.routes import Router, concern_of
from trimtab.show.oncall.telling import Teller, shown
from trimtab.show.oncall.wording import News

TOLD_STATES = (
    CommandState.PROPOSED,
    CommandState.SUBMITTED,
    CommandState.SETTLED,
    CommandState.ABANDONED,
    CommandState.MISSED,
    CommandState.UNDONE,
)
"""Of a command's life, what people at a pager want to hear."""
_DONE_STATES = (CommandState.SUBMITTED, CommandState.SETTLED)
DRILL_KEPT_SECONDS = 120.0
"""So long after its end a drill can still be looked at; then nothing of it is left."""


class IncidentMemory(Protocol):
    """What is remembered of incidents; the history satisfies it."""

    @property
    def ledger(self) -> str:
        """Eight hex digits that tell this memory's incidents from those of any other."""
        ...

    def open_incidents(self) -> tuple[Incident, ...]:
        """All that stand, oldest first."""
        ...

    def incident(self, number: int) -> Incident | None:
        """One incident, open or closed."""
        ...

    def next_incident_number(self) -> int:
        """The first number that no incident has had."""
        ...

    def told_targets(self, numbers: Iterable[int]) -> Mapping[int, frozenset[str]]:
        """Incident number -> targets that were told of it."""
        ...

    def openings_since(self, since: datetime) -> Mapping[str, int]:
        """Target -> openings that were written for it from then on."""
        ...

    def finding(self, finding_id: int) -> OpenFinding | None:
        """One finding, open or closed."""
        ...

    def post(self, postings: Sequence[Posting]) -> int:
        """Write postings; how many were written."""
        ...

    def drills(self) -> tuple[Incident, ...]:
        """Drills that have not been forgotten."""
        ...

    def forget_drill(self, number: int) -> bool:
        """Remove a drill as if it had never been; False while one of its letters is on its way."""
        ...


class Judged(Protocol):
    """What a judgement came to, as the tracker says it."""

    @property
    def at(self) -> datetime:
        """The moment of it."""
        ...

    @property
    def after(self) -> Sequence[OpenFinding]:
        """All that stands after it."""
        ...

    @property
    def closed(self) -> Sequence[OpenFinding]:
        """What it closed."""
        ...


class Bell:
    """Says what on-call and owners are to be told. Safe to call from several threads: what was overtaken is dropped."""

    def __init__(
        self,
        *,
        cluster: str,
        settings: OnCallSettings,
        memory: IncidentMemory,
        router: Router,
        letters: Letters,
        arbiter: Arbiter,
        quiet: Quiet,
    ) -> None:
        """Nothing is read yet."""
        self.arbiter = arbiter
        self._settings = settings
        self._memory = memory
        self._teller = Teller(cluster=cluster, memory=memory, router=router, letters=letters, quiet=quiet)

    def use(self, settings: OnCallSettings, *, router: Router, letters: Letters) -> None:
        """Other routes, targets and budgets from the next news on; what is open stays with whom it was told to."""
        self._settings = settings
        self._teller = replace(self._teller, router=router, letters=letters)

    def hear(self, judged: Judged, snapshot: ClusterSnapshot | None) -> tuple[Posting, ...]:
        """What is to be told after a judgement: openings, news, endings. To be written together with it."""
        window = timedelta(seconds=self._settings.budget_window_seconds)
        ringing = Ringing(
            self._teller,
            at=judged.at,
            pager=self.arbiter.for_new(),
            openings=self._memory.openings_since(judged.at - window),
            openings_max=self._settings.budget_incidents_max,
        )
        for found in judged.after:
            ringing.look_at(found, concern_of(found.finding, snapshot))
        ringing.close_the_rest({found.id: found for found in judged.closed})
        ringing.end_drills()
        ringing.sum_up()
        return tuple(ringing.postings)

    def hear_commands(self, commands: Sequence[Command], at: datetime) -> tuple[Posting, ...]:
        """What is to be told of commands about open incidents; written by `post`."""
        news = [command for command in commands if command.state in TOLD_STATES]
        if not news:
            return ()
        found = (self._command_news(one, news, at) for one in self._memory.open_incidents())
        return tuple(posting for posting in found if posting is not None)

    def _command_news(self, incident: Incident, commands: Sequence[Command], at: datetime) -> Posting | None:
        about = [command for command in commands if incident.finding in command.recommendation.findings]
        fresh = [command for command in about if incident.commands.get(command.name) != command.state.value]
        if not fresh or incident.pager is not Pager.OUTBOX or incident.paged_at is None or incident.is_drill:
            return None
        if self._teller.quiet.why_quiet(incident, at) is not None:
            return None
        acted = [_acted(command) for command in fresh if command.state in _DONE_STATES]
        after = replace(
            incident,
            commands={**incident.commands, **{command.name: command.state.value for command in fresh}},
            acted=tuple(dict.fromkeys((*incident.acted, *acted))),
            changed_at=at,
        )
        finding = self._finding_of(incident)
        news = News(verb=Verb.UPDATE, incident=after, at=at, finding=finding, change="command", commands=fresh)
        return self._teller.posting(after, incident, news)

    def acknowledge(self, number: int, *, who: str, at: datetime, came_from: str = "") -> Incident:
        """Somebody has it: kept, audited, and told to everybody but where it came from. Raises DecisionRefused."""
        for _ in range(3):
            incident = self._memory.incident(number)
            if incident is None:
                raise DecisionRefused(f"There is no incident I{number}.")
            if not incident.is_open:
                raise DecisionRefused(f"{incident.name} is over since it was closed: {incident.close_reason}.")
            if incident.acknowledged_at is not None:
                return incident
            after = replace(incident, acknowledged_at=at, acknowledged_by=who, changed_at=at)
            news = News(verb=Verb.ACKNOWLEDGE, incident=after, at=at, who=who)
            posting = self._teller.posting(after, incident, news, skipping={came_from} if came_from else ())
            line = (who, f"{incident.name} acknowledged", incident.first_line)
            if self._memory.post([replace(posting, audited=(line,))]):
                return after
        raise DecisionRefused(f"I{number} is changing just now. Try again.")

    # --- drills

    def drill(self, finding: Finding, *, dry_run: Sequence[str], who: str, at: datetime, seconds: float) -> Incident:
        """Open a drill as a real incident would open, whatever is silenced; it ends by itself after so long."""
        number = self._memory.next_incident_number()
        incident = shown(
            Incident(
                id=f"{self._memory.ledger}-I{number}",
                number=number,
                cluster=finding.subject.cluster,
                rule=finding.rule,
                severity=finding.severity,
                worst=finding.severity,
                subject=finding.subject,
                title="",
                incident=f"drill:{number}",
                pager=self.arbiter.for_new(),
                action=finding.action,
                sentence=finding.sentence,
                impact=finding.impact,
                opened_at=at,
                changed_at=at,
                is_drill=True,
                ends_at=at + timedelta(seconds=seconds),
                dry_run=tuple(dry_run),
            )
        )
        posting = self._teller.opening(incident, None, finding, concern_of(finding, None), at=at)
        line = (who, f"drill {incident.name}", finding.sentence)
        if not self._memory.post([replace(posting, audited=(line,))]):
            raise DecisionRefused("Another incident opened at this very moment. Try again.")
        return posting.incident

    def end_drill(self, number: int, *, at: datetime) -> Incident:
        """End a drill now; one that is over stays as it is. Raises DecisionRefused."""
        incident = self._memory.incident(number)
        if incident is None or not incident.is_drill:
            raise DecisionRefused(f"There is no drill I{number}.")
        if incident.is_open:
            posting = self._teller.closing(incident, at=at, why="the drill is over")
            self._memory.post([posting])
            return posting.incident
        return incident

    def forget_drills(self, at: datetime) -> int:
        """Remove drills that were over long enough to be looked at; how many went."""
        old = at - timedelta(seconds=DRILL_KEPT_SECONDS)
        over = [one for one in self._memory.drills() if one.closed_at is not None and one.closed_at <= old]
        return sum(1 for one in over if self._memory.forget_drill(one.number))

    def _finding_of(self, incident: Incident) -> Finding | None:
        found = self._memory.finding(incident.finding) if incident.finding is not None else None
        return found.finding if found is not None else None


def _acted(command: Command) -> str:
    """Who did what, for the closing message."""
    return f"{command.name} ({command.approved_by or 'trimtab'}): {command.recommendation.sentence}"
