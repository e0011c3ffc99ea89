"""What tests of adapters write with: a command of given writes, a pen on any API, and its audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from tests.fakes.clock import START, FakeClock

from trimtab.clock import Clock
from trimtab.model.advice import Subject
from trimtab.model.command import (
    AuditLine,
    Command,
    CommandState,
    Cost,
    Gain,
    Move,
    Recommendation,
    RecommendationKind,
    Write,
)
from trimtab.schedulers.kubernetes import Api
from trimtab.schedulers.nodes import Nodes
from trimtab.schedulers.pen import Pen
from trimtab.settings import KubernetesSettings

LEDGER = "3fa9c1"


def a_command(
    number: int = 11,
    *,
    writes: Sequence[Write] = (),
    moves: Sequence[Move] = (),
    state: CommandState = CommandState.SUBMITTED,
    **changes: Any,
) -> Command:
    """A command of ours with the mark `trimtab:3fa9c1:R<number>`."""
    recommendation = Recommendation(
        kind=changes.pop("kind", RecommendationKind.DRAIN),
        rule="evacuate",
        purpose=f"test:{number}",
        subject=Subject(cluster="hall-a"),
        sentence="Take the node out of service",
        reason=changes.pop("reason", "XID 79"),
        findings=(),
        moves=tuple(moves),
        writes=tuple(writes),
        gain=Gain(gpu_hours=1.0, horizon_hours=1.0),
        cost=Cost(gpu_hours=0.1),
        created_at=START,
        expires_at=START + timedelta(hours=1),
    )
    return Command(
        id=number,
        recommendation=recommendation,
        state=state,
        changed_at=START,
        ledger=LEDGER,
        submitted_at=START,
        **changes,
    )


def over(command: Command, state: CommandState = CommandState.ABANDONED) -> Command:
    """The same command in another state."""
    return replace(command, state=state)


@dataclass
class Desk:
    """A pen on an API with its audit in memory."""

    api: Api
    clock: Clock = field(default_factory=FakeClock)
    settings: KubernetesSettings = field(default_factory=KubernetesSettings)
    lines: list[AuditLine] = field(default_factory=list)
    why_not: str | None = None

    def __post_init__(self) -> None:
        self.pen = Pen(
            api=self.api,
            clock=self.clock,
            audit=self.lines.append,
            why_not=lambda: self.why_not,
            prefix=self.settings.prefix,
        )
        self.nodes = Nodes(pen=self.pen, settings=self.settings)

    @property
    def said(self) -> list[str]:
        """What the audit says was written."""
        return [line.what for line in self.lines]
