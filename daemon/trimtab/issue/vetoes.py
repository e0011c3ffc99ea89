"""Who opened a node that we had cordoned to stay: we, a repair, or a person who does not agree.

A command that is over holds its node until that is given back, however long ago it settled. When the node is open:

- our own uncordon (a return to service) or a node that is gone: given back, nothing said against the rule;
- every finding that it rested on has ended: a repair; given back, and no veto;
- the findings are just about to end (nothing is seen any more, their time runs): wait, no verdict yet;
- anything else is a person's **veto**: the command is undone, its outcome counts against the rule, and the node is not
  cordoned again for the same cause within `veto_seconds`. For another cause it is proposed, and a person decides.

A node that somebody else has cordoned meanwhile is theirs: we hold it no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from trimtab.clock import iso
from trimtab.issue.beat import Beat
from trimtab.issue.desk import Desk
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, CommandState, Recommendation, Refusal, Verb, read_mark
from trimtab.model.standing import Standing, StandingKind


class Verdict(Enum):
    """What has become of a node that a command holds."""

    HELD = "held"
    GONE = "gone"
    TAKEN_OVER = "taken over"
    RETURNED = "returned"
    REPAIRED = "repaired"
    UNCLEAR = "unclear"
    VETOED = "vetoed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A verdict on one node, with its sentence."""

    node: str
    verdict: Verdict
    sentence: str = ""


def see_openings(desk: Desk, beat: Beat) -> None:
    """Judge every node that a command which is over still holds."""
    for command in desk.ledger.holding():
        over_at = command.settled_at or command.changed_at
        if command.undo_requested_by is not None or over_at >= beat.snapshot.taken_at:
            continue
        found = [_look(command, node, beat) for node in command.lasting_nodes]
        veto = next((one for one in found if one.verdict is Verdict.VETOED), None)
        if veto is not None:
            _veto(command, veto, desk, beat)
        elif all(one.verdict not in (Verdict.HELD, Verdict.UNCLEAR) for one in found):
            why = " ".join(one.sentence for one in found)
            desk.record(replace(command, given_back_at=beat.now), was=command, why=why, beat=beat)


def _look(command: Command, name: str, beat: Beat) -> Opened:
    node = beat.snapshot.node_by_name.get(name)
    if node is None:
        return Opened(node=name, verdict=Verdict.GONE, sentence=f"{name} is gone.")
    if node.is_cordoned:
        by = node.cordoned_by
        if by is None or read_mark(by) is not None or _holds(command, name, beat.snapshot):
            return Opened(node=name, verdict=Verdict.HELD)
        return Opened(node=name, verdict=Verdict.TAKEN_OVER, sentence=f"{name} is cordoned by {by} now.")
    returned = _returned_by(command, name, beat.recent)
    if returned is not None:
        return Opened(node=name, verdict=Verdict.RETURNED, sentence=f"{returned.name} returned {name} to service.")
    is_over = beat.are_over(command.recommendation.findings)
    if is_over:
        sentence = f"{name} was opened when what it was taken out for had ended: a repair, no veto."
        return Opened(node=name, verdict=Verdict.REPAIRED, sentence=sentence)
    if is_over is None and beat.findings is not None:
        return Opened(node=name, verdict=Verdict.UNCLEAR)
    return Opened(node=name, verdict=Verdict.VETOED, sentence=f"somebody uncordoned {name}: a veto")


def _holds(command: Command, node: str, snapshot: ClusterSnapshot) -> bool:
    """Whether the node still bears this command's mark among others."""
    return any(one.mark == command.mark and node in one.what for one in snapshot.held)


def _returned_by(command: Command, node: str, recent: Iterable[Command]) -> Command | None:
    """The command of ours that lifts, or has lifted, this one's cordon."""
    return next(
        (
            one
            for one in recent
            if (one.state.is_begun or one.state is CommandState.SETTLED)
            and any(
                write.verb is Verb.UNCORDON and write.node == node and write.lifts == command.mark
                for write in one.recommendation.writes
            )
        ),
        None,
    )


def _veto(command: Command, opened: Opened, desk: Desk, beat: Beat) -> None:
    until = beat.now + timedelta(seconds=desk.settings.veto_seconds)
    causes = command.recommendation.causes or (command.recommendation.rule,)
    fact = Standing(
        kind=StandingKind.VETO,
        name=opened.node,
        since=beat.now,
        until=until,
        who="somebody",
        why=f"Somebody uncordoned {opened.node} after {command.name} had cordoned it; left alone until {iso(until)}.",
        command_id=command.id,
        causes=causes,
    )
    desk.ledger.stand(fact, what=f"veto on {opened.node}", at=beat.now)
    beat.vetoes = {**beat.vetoes, opened.node: fact}
    desk.end(command, CommandState.UNDONE, opened.sentence, was=command, beat=beat)


def in_force(facts: Iterable[Standing], now: datetime) -> dict[str, Standing]:
    """Vetoes that are not over, by node."""
    return {one.name: one for one in facts if one.until is None or one.until > now}


def vetoed(recommendation: Recommendation, vetoes: Mapping[str, Standing]) -> Refusal | None:
    """The veto against cordoning a node to stay, where the cause is none but those that were vetoed."""
    causes = set(recommendation.causes or (recommendation.rule,))
    for write in recommendation.writes:
        veto = vetoes.get(write.node or "") if write.verb is Verb.CORDON and write.lasts else None
        if veto is not None and causes <= set(veto.causes):
            return Refusal(
                rule="veto", sentence=veto.why, subject=recommendation.subject, purpose=recommendation.purpose
            )
    return None


def is_touched_by_veto(recommendation: Recommendation, vetoes: Iterable[str]) -> bool:
    """Whether it would cordon a vetoed node for another cause: then a person decides, no policy."""
    nodes = {write.node for write in recommendation.writes if write.verb is Verb.CORDON and write.lasts}
    return not nodes.isdisjoint(vetoes)
