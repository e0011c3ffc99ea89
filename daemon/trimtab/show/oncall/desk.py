"""On-call as the API sees it: who has an incident, what is in the outbox, who pages, and what pagers tell us."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from trimtab.errors import DecisionRefused, StoreError, TrimtabError
from trimtab.model.command import AuditLine
from trimtab.model.oncall import InboundAct, Incident, Target, Verb
from trimtab.model.outbox import WAITING, LetterState, OutboxCounts, OutboxRow
from trimtab.show.api_types import Check
from trimtab.show.api_types_oncall import OnCall, TargetRow
from trimtab.show.oncall.bell import Bell
from trimtab.show.oncall.checks import oncall_checks
from trimtab.show.oncall.delivery import DeliveryCounts
from trimtab.show.oncall.pager import Arbiter
from trimtab.show.oncall.secret import Secret


class DeskMemory(Protocol):
    """What is read and noted here; the history satisfies it."""

    def incidents(
        self, *, is_open: bool | None = None, since: datetime | None = None, limit: int = 1000
    ) -> tuple[Incident, ...]:
        """Incidents, newest first."""
        ...

    def incident(self, number: int) -> Incident | None:
        """One incident."""
        ...

    def open_incidents(self) -> tuple[Incident, ...]:
        """All that stand."""
        ...

    def letters(
        self, *, states: Sequence[LetterState] | None = None, incident: int | None = None, limit: int = 1000
    ) -> tuple[OutboxRow, ...]:
        """Messages, newest first."""
        ...

    def outbox_counts(self) -> OutboxCounts:
        """The outbox in numbers."""
        ...

    def resend(self, letter_id: int, *, who: str, at: datetime) -> bool:
        """Try a dead message again."""
        ...

    def is_act_new(self, act: str, *, at: datetime) -> bool:
        """Note what somebody did at a pager; False where it was noted before."""
        ...

    def forget_act(self, act: str) -> None:
        """It could not be done: the same act is new again."""
        ...

    def audit(self, lines: Sequence[AuditLine]) -> None:
        """Append audit lines."""
        ...


DrillMaker = Callable[[str, str, str | None, str, float], Incident]
"""(kind, node, gpu, who, seconds) -> the drill that was opened. Raises DecisionRefused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the handlers work on."""

    bell: Bell
    arbiter: Arbiter
    memory: DeskMemory
    targets: Mapping[str, Target]
    nexts: Mapping[str, str]
    counts: DeliveryCounts
    drill: DrillMaker
    unix_seconds_now: Callable[[], float]
    """Of a real clock: call-backs carry real moments."""
    callback_secrets: Mapping[str, tuple[Secret, ...]] = field(default_factory=dict)
    """Kind of target -> what its call-backs are signed with."""

    def secrets(self, kind: str) -> tuple[str, ...]:
        """The signing secrets of a kind, as they are now; none where no call-backs are set up."""
        return tuple(line for secret in self.callback_secrets.get(kind, ()) for line in secret.lines)

    def number_of(self, *, finding: int) -> int:
        """The open incident of a finding. Raises DecisionRefused."""
        for one in self.memory.open_incidents():
            if one.finding == finding:
                return one.number
        raise DecisionRefused(f"F{finding} has no open incident: nobody was told of it, or it is over.")

    def overview(self) -> OnCall:
        """Who pages, and how each target does."""
        counts = self.memory.outbox_counts().letters
        rows = tuple(
            TargetRow(
                name=name,
                kind=target.kind,
                locale=target.locale,
                is_pager=target.is_pager,
                waiting=sum(counts.get((name, state), 0) for state in WAITING),
                dead=counts.get((name, LetterState.DEAD), 0),
                delivered_at=self.counts.delivered_at.get(name),
                trouble=self.counts.trouble.get(name, ""),
                next=self.nexts.get(name, ""),
            )
            for name, target in self.targets.items()
        )
        return OnCall(pager=self.arbiter.for_new(), setting=self.arbiter.setting, targets=rows)

    def checks(self) -> tuple[Check, ...]:
        """What doctor says of on-call; a database that is away is one of its faults, and no reason to say nothing."""
        try:
            return tuple(oncall_checks(self.overview()))
        except StoreError as error:
            return (Check(name="on-call", is_ok=False, sentence=f"What waits to be told is not known: {error}",
                          fix="Mend the database; letters are kept in it, and go out when it is back."),)  # fmt: skip

    def take(self, act: InboundAct, *, kind: str, at: datetime) -> str:
        """Do what somebody did at a pager; the sentence of what came of it. The same act twice is one."""
        incident = self._incident_of(act.key)
        if incident is None:
            return f"{act.key} is no open incident of ours."
        if not self.memory.is_act_new(f"{kind}/{act.id}", at=at):
            return "This act was taken before."
        who = f"{act.who} ({kind})"
        of_kind = [name for name, target in self.targets.items() if target.kind == kind]
        # Of two pagers of one kind the other must hear of it; told once more, the one that it came from takes no harm.
        came_from = of_kind[0] if len(of_kind) == 1 else ""
        try:
            said = self.bell.acknowledge(incident.number, who=who, at=at, came_from=came_from)
        except TrimtabError:
            self.memory.forget_act(
                f"{kind}/{act.id}"
            )  # whoever sent it tries again, and must not hear that it was taken
            raise
        if act.kind is not Verb.RESOLVE:
            return f"{said.name} acknowledged."
        why = f"{kind} calls it resolved while it still stands; it is over when its finding is"
        self.memory.audit([AuditLine(at=at, who=who, what=f"{said.name} resolved at {kind}", why=why,
                                     finding_id=said.finding)])  # fmt: skip
        return f"{said.name}: {why}."

    def _incident_of(self, key: str) -> Incident | None:
        return next((one for one in self.memory.open_incidents() if one.key == key), None)
