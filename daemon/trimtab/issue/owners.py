"""The voice of a job's owner before its work is stopped: opt-out, "not before T", ask first, and notice. Pure.

Asked and told are owners of what a command stops; one that a fault has thrown back into the queue is only helped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from trimtab.clock import iso
from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.command import Command, CommandState, MoveKind
from trimtab.model.standing import Answer, OwnerAnswer
from trimtab.settings import IssueSettings

VOLUNTARY = (MoveKind.MIGRATE, MoveKind.CONSOLIDATE)
"""Moves of work that could go on where it is: only these can be asked to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What an owner is asked. `id` stays the same however often it has to be sent, so that a hook can tell.

    Another move of the same command (other nodes, other steps) is another question, with another `id`.
    """

    id: str
    command: str
    cluster: str
    workload: str
    sentence: str
    reason: str
    deadline: datetime
    url: str | None = None
    """The job's own hook; None = the one of the settings."""


class Asker(Protocol):
    """Asks owners over the network; never blocks a beat."""

    seconds_max: float
    """How long an owner has to answer."""

    def can_ask(self, url: str | None) -> bool:
        """Whether there is a hook for this job: its own where that is allowed, else the site's."""
        ...

    def ask(self, question: Question) -> None:
        """Begin to ask, unless it is being asked; returns at once."""
        ...

    def reply(self, question_id: str) -> OwnerAnswer | None:
        """What came back, once; None = nothing yet."""
        ...


Notify = Callable[[Command, str, str], None]
"""Tells a workload's owner a sentence (command, workload id, sentence), best effort."""


def victims(command: Command, snapshot: ClusterSnapshot) -> Iterator[tuple[Workload, MoveKind]]:
    """What the command stops, as it is now."""
    for move in command.recommendation.moves:
        workload = snapshot.workload_by_id.get(move.workload or "")
        if workload is not None and move.before:
            yield workload, move.kind


def why_unwanted(command: Command, snapshot: ClusterSnapshot) -> str | None:
    """An opt-out that stands now, as a sentence."""
    for workload, _ in victims(command, snapshot):
        if workload.wishes.is_opted_out:
            mark = f" ({workload.wishes.opt_out_reason})" if workload.wishes.opt_out_reason else ""
            return f"The owner of {workload.name} does not want it moved{mark}."
    return None


def why_too_early(command: Command, snapshot: ClusterSnapshot, now: datetime) -> str | None:
    """A "not before" that stands now: the job's own, or what its owner answered."""
    for workload, kind in victims(command, snapshot):
        answer = command.answers.get(workload.id)
        said = answer.not_before if answer is not None and answer.answer is Answer.NOT_BEFORE else None
        wish = workload.wishes.not_before if kind in VOLUNTARY else None
        until = max((one for one in (said, wish) if one is not None), default=None)
        if until is not None and until > now:
            return f"the owner of {workload.name} asked for no move before {iso(until)}."
    return None


def to_ask(command: Command, snapshot: ClusterSnapshot, asker: Asker | None) -> tuple[Workload, ...]:
    """Whose owners must be asked and have not answered. Without a hook a person's approval is their yes."""
    if asker is None:
        return ()
    return tuple(
        workload
        for workload, _ in victims(command, snapshot)
        if workload.wishes.is_ask_first
        and asker.can_ask(workload.wishes.ask_url)
        and not is_answered(command.answers.get(workload.id))
    )


def needs_a_person(command: Command, snapshot: ClusterSnapshot, asker: Asker | None) -> bool:
    """Whether an owner wants to be asked and no hook does it: then no policy may say yes."""
    return any(
        workload.wishes.is_ask_first and (asker is None or not asker.can_ask(workload.wishes.ask_url))
        for workload, _ in victims(command, snapshot)
    )


def is_answered(answer: OwnerAnswer | None) -> bool:
    """Whether the owner has said anything, or time has."""
    return answer is not None and answer.answer is not None


def asked(command: Command, workload: str, now: datetime, seconds_max: float) -> Command:
    """The command with its question written down, before it is sent."""
    question = OwnerAnswer(asked_at=now, deadline=now + timedelta(seconds=seconds_max))
    return replace(command, answers={**command.answers, workload: question})


def answered(command: Command, workload: str, reply: OwnerAnswer | None, now: datetime) -> Command | None:
    """The command with what came back; None = still open. Silence until the deadline is a no; a late answer too."""
    question = command.answers[workload]
    if reply is not None and reply.answer is not None and (reply.answered_at or now) <= question.deadline:
        kept = replace(reply, asked_at=question.asked_at, deadline=question.deadline)
    elif now >= question.deadline:
        last = f" (last: {reply.said})" if reply is not None and reply.said else ""
        said = f"no answer by {iso(question.deadline)}{last}"
        kept = replace(question, answer=Answer.NO, answered_at=now, said=said)
    else:
        return None
    return replace(command, answers={**command.answers, workload: kept})


def question_of(command: Command, workload: Workload, cluster: str) -> Question:
    """What its owner is asked."""
    advice = command.recommendation
    return Question(
        id=f"{command.mark}:{advice.fingerprint}:{workload.id}",
        command=command.name,
        cluster=cluster,
        workload=workload.id,
        sentence=advice.sentence,
        reason=advice.reason,
        deadline=command.answers[workload.id].deadline,
        url=workload.wishes.ask_url,
    )


def said_no(command: Command, snapshot: ClusterSnapshot) -> str | None:
    """The owner's no, as a sentence."""
    for workload, _ in victims(command, snapshot):
        answer = command.answers.get(workload.id)
        if answer is not None and answer.answer is Answer.NO:
            return f"The owner of {workload.name} said no" + (f": {answer.said}" if answer.said else ".")
    return None


def remembered(
    command: Command, snapshot: ClusterSnapshot, earlier: Sequence[Command], settings: IssueSettings, now: datetime
) -> Command:
    """The command with what an owner said lately about another move of the same work: nobody is asked twice a no."""
    known = dict(command.answers)
    for workload, _ in victims(command, snapshot):
        if workload.id in known or not workload.wishes.is_ask_first:
            continue
        for one in earlier:
            answer = one.answers.get(workload.id)
            if answer is not None and one.id != command.id and _still_stands(answer, settings, now):
                known[workload.id] = answer
    return replace(command, answers=known) if known != dict(command.answers) else command


def _still_stands(answer: OwnerAnswer, settings: IssueSettings, now: datetime) -> bool:
    if answer.answer is Answer.NOT_BEFORE:
        return answer.not_before is not None and answer.not_before > now
    quiet = timedelta(seconds=settings.quiet_seconds_after_no)
    return answer.answer is Answer.NO and (answer.answered_at or answer.asked_at) + quiet > now


def notice_over_at(command: Command, settings: IssueSettings) -> datetime | None:
    """Until when a command that has told its owners must wait; None = they have not been told."""
    if command.noticed_at is None:
        return None
    return command.noticed_at + timedelta(seconds=settings.notice_seconds)


def notice_text(command: Command, workload: Workload, settings: IssueSettings) -> str:
    """What an owner is told before a move."""
    move = next(one for one in command.recommendation.moves if one.workload == workload.id)
    nodes = ", ".join(dict.fromkeys(seat.node for seat in move.after if seat.node not in workload.nodes))
    when = f"in {settings.notice_seconds:.0f} s or later" if settings.notice_seconds else "now"
    where = f" to {nodes}" if nodes else ""
    what = (
        f"{len(move.replaced)} of its pods are replaced" if move.replaced else f"{workload.name} is stopped and moved"
    )
    return f"{command.name}: {what}{where} {when}: {command.recommendation.reason}"


def ended_by_owner(command: Command, sentence: str, now: datetime) -> Command:
    """Rejected, as a person's no is."""
    return replace(command, state=CommandState.REJECTED, changed_at=now, reason=sentence)
