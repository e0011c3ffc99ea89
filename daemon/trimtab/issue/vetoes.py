"""Who opened a node that we had cordoned to stay: we, a repair, or a person who does not agree.

A command that is over holds its node until that is given back, however long ago it settled. When the node is open:

- our own uncordon (a return to service) or a node that is gone: given back, nothing said against the rule;
- every finding that it rested on has ended: a repair; given back, and no veto;
- the findings are just about to end (nothing is seen any more, their time runs): wait, no verdict yet;
- anything else is a person's **veto**: the command is undone, its outcome counts against the rule, and the node is not
  cordoned again for the same cause within `veto_seconds`. For another cause it is proposed, and a person decides.

A node that somebody else has cordoned meanwhile is theirs: we hold it no more. A command that has begun and whose
cordon was seen is judged in the same way, and is undone whatever the verdict. Nothing is concluded from one look: a
node counts as open when two beats in a row have seen it so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from trimtab.clock import iso
from trimtab.errors import SchedulerVetoed
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


IN_QUESTION = "opened"
"""Refusal of a cordon on a node that was opened a moment ago: it passes."""
OPEN = (Verdict.RETURNED, Verdict.REPAIRED, Verdict.UNCLEAR, Verdict.VETOED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A verdict on one node, with its sentence."""

    node: str
    verdict: Verdict
    sentence: str = ""


class Openings:
    """Judges every node that a command has cordoned to stay."""

    def __init__(self, desk: Desk) -> None:
        """What was seen before is in the ledger."""
        self._desk = desk

    def see(self, beat: Beat) -> None:
        """One look at all of them."""
        for command in (*self._desk.ledger.holding(), *_under_way(self._desk.ledger.commands(live_only=True))):
            if command.undo_requested_by is not None or _since(command) >= beat.snapshot.taken_at:
                continue
            if not command.lasting_nodes:
                continue  # it keeps single GPUs out: a node that is open says nothing of them
            found = [_look(command, node, beat) for node in command.lasting_nodes]
            opened = [one.node for one in found if one.verdict in OPEN]
            first = command.questioned_at
            if bool(opened) is not (first is not None):
                self._question(command, opened, beat)
            elif first is None or first < beat.snapshot.taken_at:
                self._judge(command, found, beat)

    def _question(self, command: Command, opened: Sequence[str], beat: Beat) -> None:
        """Write a first look down, or that the second saw nothing of it."""
        why = f"{', '.join(opened)} is open; looked at once more" if opened else "it was closed all the time"
        asked = replace(command, questioned_at=beat.now if opened else None)
        self._desk.record(asked, was=command, why=why, beat=beat)

    def questions(self, beat: Beat) -> frozenset[str]:
        """Nodes that a command which is over holds and that are open, for no reason that is known yet."""
        return frozenset(
            node
            for command in self._desk.ledger.holding()
            for node in command.lasting_nodes
            if _look(command, node, beat).verdict in (Verdict.UNCLEAR, Verdict.VETOED)
        )

    @staticmethod
    def is_in_question(command: Command, beat: Beat) -> bool:
        """Whether a node of a begun command, whose cordon was seen, is open now: then it neither goes on nor ends."""
        if command.is_dry or command.undo_requested_by is not None:
            return False
        return any(_look(command, node, beat).verdict in OPEN for node in command.lasting_nodes)

    def veto(self, command: Command, said: SchedulerVetoed, beat: Beat) -> None:
        """A person has undone what a command did, as its scheduler says: undone, and a veto stands on that node."""
        named = [node for node in command.lasting_nodes if node == said.node]
        opened = Opened(node=", ".join(named), verdict=Verdict.VETOED, sentence=str(said))
        _veto(command, opened, named, self._desk, beat)

    def _judge(self, command: Command, found: Sequence[Opened], beat: Beat) -> None:
        vetoed_one = next((one for one in found if one.verdict is Verdict.VETOED), None)
        if vetoed_one is not None:
            _veto(command, vetoed_one, [vetoed_one.node], self._desk, beat)
        elif any(one.verdict in (Verdict.HELD, Verdict.UNCLEAR) for one in found):
            return
        elif command.state.is_begun:
            if any(one.verdict in OPEN for one in found):
                self._desk.end(command, CommandState.UNDONE, found[0].sentence, was=command, beat=beat)
        else:
            why = " ".join(one.sentence for one in found)
            self._desk.record(replace(command, given_back_at=beat.now), was=command, why=why, beat=beat)


def _under_way(commands: Iterable[Command]) -> Iterator[Command]:
    """Begun commands whose cordons were seen to stand: what is open of them now, somebody opened."""
    for command in commands:
        is_seen = command.state in (CommandState.CONFIRMED, CommandState.SUBMITTED)
        if is_seen and not command.is_dry and command.lasting_nodes:
            yield command


def _since(command: Command) -> datetime:
    return command.settled_at or command.changed_at


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
    return any(one.mark == command.mark and one.node == node for one in snapshot.held)


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


def _veto(command: Command, opened: Opened, nodes: Iterable[str], desk: Desk, beat: Beat) -> None:
    until = beat.now + timedelta(seconds=desk.settings.veto_seconds)
    for node in nodes:
        fact = Standing(
            kind=StandingKind.VETO,
            name=node,
            since=beat.now,
            until=until,
            who="somebody",
            why=f"Somebody uncordoned {node} after {command.name} had cordoned it; left alone until {iso(until)}.",
            command_id=command.id,
            causes=command.recommendation.causes or (command.recommendation.rule,),
        )
        desk.ledger.stand(fact, what=f"veto on {node}", at=beat.now)
        beat.vetoes = {**beat.vetoes, node: fact}
    desk.end(command, CommandState.UNDONE, opened.sentence, was=command, beat=beat)


def in_force(facts: Iterable[Standing], now: datetime) -> dict[str, Standing]:
    """Vetoes that are not over, by node."""
    return {one.name: one for one in facts if one.until is None or one.until > now}


def vetoed(
    recommendation: Recommendation, vetoes: Mapping[str, Standing], questions: Collection[str]
) -> Refusal | None:
    """The veto against cordoning a node to stay, where the cause is none but those that were vetoed.

    A node in question waits: whoever opened it a moment ago may have been a person.
    """
    causes = set(recommendation.causes or (recommendation.rule,))
    for node in sorted(_to_stay(recommendation) & set(questions)):
        return Refusal(
            rule=IN_QUESTION,
            sentence=f"Somebody opened {node} a moment ago; who, is looked at first.",
            subject=recommendation.subject,
            purpose=recommendation.purpose,
        )
    for write in recommendation.writes:
        veto = vetoes.get(write.node or "") if write.verb is Verb.CORDON and write.lasts else None
        if veto is not None and causes <= set(veto.causes):
            return Refusal(
                rule="veto", sentence=veto.why, subject=recommendation.subject, purpose=recommendation.purpose
            )
    return None


def is_touched_by_veto(recommendation: Recommendation, vetoes: Iterable[str]) -> bool:
    """Whether it would cordon a vetoed node for another cause: then a person decides, no policy."""
    return not _to_stay(recommendation).isdisjoint(vetoes)


def _to_stay(recommendation: Recommendation) -> set[str]:
    return {one.node for one in recommendation.writes if one.verb is Verb.CORDON and one.lasts and one.node}
