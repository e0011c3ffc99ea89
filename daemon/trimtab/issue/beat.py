"""What one beat of the issuer sees, and what it has done and said so far."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.errors import SchedulerVetoed
from trimtab.issue.breaker import Breaker
from trimtab.issue.edge import Edge
from trimtab.model.advice import OpenFinding, Subject
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, Plan, Refusal
from trimtab.model.standing import Standing


@dataclass(slots=True, kw_only=True)
class Beat:
    """One beat. `findings` by id are those that stand; None = nobody said, so nothing is concluded from them."""

    plan: Plan
    snapshot: ClusterSnapshot
    now: datetime
    pause: str | None
    """Why nothing new begins, as the end of a sentence; None = not paused."""
    edge: Edge
    breaker: Breaker
    recent: tuple[Command, ...]
    """Live commands and those that were over within the day, as of the beat's start."""
    vetoes: Mapping[str, Standing] = field(default_factory=dict)
    """Node -> the veto that stands."""
    findings: Mapping[int, OpenFinding] | None = None
    refusals: list[Refusal] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    vetoed: list[tuple[Command, SchedulerVetoed]] = field(default_factory=list)
    """Begun commands that a person has undone on the cluster, as their schedulers said."""

    def is_vetoed(self, command: Command) -> bool:
        """Whether a scheduler said in this beat that a person has undone it."""
        return any(one.id == command.id for one, _ in self.vetoed)

    def refuse(self, command: Command, rule: str, sentence: str) -> None:
        """Say why a command does not move on."""
        recommendation = command.recommendation
        self.refusals.append(
            Refusal(rule=rule, sentence=sentence, subject=recommendation.subject, purpose=recommendation.purpose)
        )

    def refuse_node(self, rule: str, sentence: str, *, node: str | None = None) -> None:
        """Say a no that belongs to no command."""
        subject = Subject(cluster=self.snapshot.cluster, node=node)
        self.refusals.append(Refusal(rule=rule, sentence=sentence, subject=subject))

    def are_over(self, findings: Collection[int]) -> bool | None:
        """Whether all of these findings have ended; None = it cannot be said, or one is about to end."""
        if self.findings is None:
            return None if findings else False
        still = [self.findings[one] for one in findings if one in self.findings]
        if not still:
            return bool(findings)
        return None if all(one.clear_since is not None for one in still) else False
