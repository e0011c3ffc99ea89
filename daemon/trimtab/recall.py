"""What the daemon knows of its own commands from the ledger: what they spend, keep out of service, and were worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trimtab.issue.outcome import duration_ratio, gain_ratio, record_text
from trimtab.model.board import RuleRecord
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Command, CommandState, Outcome, Recommendation, read_mark
from trimtab.plan.budget import budget_of
from trimtab.plan.planner import RULE_NAMES
from trimtab.plan.restore import TakenOut
from trimtab.settings import PlanSettings
from trimtab.store.history import History

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What came of commands, by command id, and the record of each rule that made one."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    records: dict[str, RuleRecord] = field(default_factory=dict)


def budget_left(history: History, settings: PlanSettings, snapshot: ClusterSnapshot, now: datetime) -> Budget:
    """What may still be spent, after what the last day's commands took."""
    recent = history.commands(live_only=False, since=now - DAY)
    return budget_of(snapshot, recent, settings, now, ledger=history.ledger)


def standing(history: History) -> Sequence[Recommendation]:
    """Recommendations that wait for a yes, or for their turn."""
    live = history.commands(live_only=True)
    return [one.recommendation for one in live if one.state in (CommandState.PROPOSED, CommandState.APPROVED)]


def taken_out(history: History, snapshot: ClusterSnapshot) -> list[TakenOut]:
    """Nodes and GPUs that commands of ours keep out of service, with the findings that those rested on."""
    found = []
    for command in history.holding():
        rested_on = [history.finding(one) for one in command.recommendation.findings]
        # One that nobody remembers is one whose gate nobody knows: then all of them prove nothing.
        findings = [one for one in rested_on if one is not None] if None not in rested_on else []
        for node in command.lasting_nodes:
            seen = snapshot.node_by_name.get(node)
            if seen is not None and seen.cordoned_by == command.mark:
                found.append(TakenOut(node=node, mark=command.mark, command=command.name, findings=findings))
        for node, gpu in command.lasting_gpus:
            seen = snapshot.node_by_name.get(node)
            if seen is not None and any(one.uuid == gpu and one.tainted_by == command.mark for one in seen.gpus):
                out = TakenOut(node=node, gpu=gpu, mark=command.mark, command=command.name, findings=findings)
                found.append(out)
    return found


def past(history: History, commands: Iterable[Command]) -> Past:
    """What came of what these commands' rules did, and of the rules that always are."""
    rules = {*RULE_NAMES, *(command.recommendation.rule for command in commands)}
    found = {rule: history.outcomes(rule) for rule in rules}
    return Past(
        outcomes={one.command_id: one for outcomes in found.values() for one in outcomes},
        records={rule: _record(rule, outcomes) for rule, outcomes in found.items()},
    )


def _record(rule: str, outcomes: Sequence[Outcome]) -> RuleRecord:
    return RuleRecord(
        rule=rule,
        right=sum(1 for one in outcomes if one.is_good),
        measured=len(outcomes),
        text=record_text(outcomes),
        duration_ratio=duration_ratio(outcomes),
        gain_ratio=gain_ratio(outcomes),
    )


def reserved_nodes(history: History, mark: str) -> frozenset[str]:
    """Nodes on which a command of ours that has begun, known by the mark of its writes, keeps room."""
    read = read_mark(mark)
    command = history.command(read[1]) if read is not None else None
    if command is None or command.mark != mark or not command.state.is_begun:
        return frozenset()
    return frozenset(seat.node for write in command.recommendation.writes for seat in write.seats)
