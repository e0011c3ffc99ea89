"""Gets the owners' word before a command begins: asks, waits, remembers, tells. Each step is written down first."""

from __future__ import annotations

from dataclasses import replace

import structlog

from trimtab.clock import iso
from trimtab.errors import TrimtabError
from trimtab.issue import owners
from trimtab.issue.beat import Beat
from trimtab.issue.desk import Desk
from trimtab.issue.owners import Asker, Notify
from trimtab.model.cluster import Workload
from trimtab.model.command import Command

log = structlog.get_logger()


class Voice:
    """The owners' part in the beginning of a command."""

    def __init__(self, desk: Desk, asker: Asker | None, notify: Notify | None) -> None:
        """Without an asker nobody is asked; without a notifier the audit alone says what owners were told."""
        self._desk = desk
        self._asker = asker
        self._notify = notify

    def agreed(self, command: Command, *, was: Command, beat: Beat) -> Command | None:
        """The command when nothing of the owners' stands in its way any more; None = it waits or has ended here."""
        unwanted = owners.why_unwanted(command, beat.snapshot)
        if unwanted is not None:
            self._end(command, unwanted, was=was, beat=beat)
            return None
        command = owners.remembered(command, beat.snapshot, beat.recent, self._desk.settings, beat.now)
        asking = owners.to_ask(command, beat.snapshot, self._asker)
        if asking and self._asker is not None:
            self._ask(command, asking, self._asker, was=was, beat=beat)
            return None
        no = owners.said_no(command, beat.snapshot)
        if no is not None:
            self._end(command, no, was=was, beat=beat)
            return None
        early = owners.why_too_early(command, beat.snapshot, beat.now)
        if early is not None:
            beat.refuse(command, "owner", f"{command.name} waits: {early}")
            return None
        return self._noticed(command, was=was, beat=beat)

    def tell(self, command: Command, beat: Beat) -> None:
        """Tell the owners of what a command that begins now is going to stop, where no notice was given before."""
        if self._desk.settings.notice_seconds <= 0:
            self._tell(command, beat)

    def _noticed(self, command: Command, *, was: Command, beat: Beat) -> Command | None:
        """With notice given and its time over; where no time is asked for, the notice goes out as it begins."""
        if not any(owners.victims(command, beat.snapshot)) or self._desk.settings.notice_seconds <= 0:
            return command
        over_at = owners.notice_over_at(command, self._desk.settings)
        if over_at is None:
            told = replace(command, noticed_at=beat.now)
            if self._desk.record(told, was=was, why="owners are told", beat=beat):
                self._tell(told, beat)
            over_at = owners.notice_over_at(told, self._desk.settings)
        elif over_at <= beat.now:
            return command
        until = f" until {iso(over_at)}" if over_at is not None else ""
        beat.refuse(command, "notice", f"{command.name} waits{until}: its owners have been told.")
        return None

    def _ask(self, command: Command, asking: tuple[Workload, ...], asker: Asker, *, was: Command, beat: Beat) -> None:
        """Write questions down, send them, take answers in. The next beat acts on what has been written."""
        for workload in asking:
            if workload.id not in command.answers:
                command = owners.asked(command, workload.id, beat.now, asker.seconds_max)
                continue
            question = owners.question_of(command, workload, beat.snapshot.cluster)
            reply = asker.reply(question.id)
            command = owners.answered(command, workload.id, reply, beat.now) or command
        if command.answers != was.answers and not self._desk.record(
            command, was=was, why=_news(command, was), beat=beat
        ):
            return
        for workload in asking:
            if owners.is_answered(command.answers.get(workload.id)):
                continue
            question = owners.question_of(command, workload, beat.snapshot.cluster)
            if beat.now < question.deadline:
                asker.ask(question)
            said = f"the owner of {workload.name} was asked and has until {iso(question.deadline)} to answer."
            beat.refuse(command, "owner", f"{command.name} waits: {said}")

    def _end(self, command: Command, sentence: str, *, was: Command, beat: Beat) -> None:
        ended = owners.ended_by_owner(command, sentence, beat.now)
        self._desk.record(ended, was=was, why=sentence, beat=beat, who="owner")

    def _tell(self, command: Command, beat: Beat) -> None:
        for workload, _ in owners.victims(command, beat.snapshot):
            sentence = owners.notice_text(command, workload, self._desk.settings)
            self._desk.audit(beat, f"told the owner of {workload.id}", sentence, command.id)
            if self._notify is None or command.is_dry:
                continue
            try:
                self._notify(command, workload.id, sentence)
            except TrimtabError as error:
                log.warning("an owner could not be told", command_id=command.id, workload=workload.id, said=str(error))


def _news(command: Command, was: Command) -> str:
    """What changed in the answers, for the audit."""
    said = []
    for workload, answer in command.answers.items():
        if was.answers.get(workload) == answer:
            continue
        words = f"{answer.answer}" if answer.answer is not None else "asked"
        said.append(f"owner of {workload}: {words}" + (f" ({answer.said})" if answer.said else ""))
    return "; ".join(said)
