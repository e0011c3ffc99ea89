"""What a crash may not leave behind, and what is not ours to touch: marks on the cluster against the ledger."""

from __future__ import annotations

from trimtab.issue.beat import Beat
from trimtab.issue.desk import Desk
from trimtab.issue.look import is_ours, marks, owes, unexplained
from trimtab.model.command import Command, read_mark

FOREIGN = "foreign_mark"
"""Refusal that says what the cluster bears that is not this daemon's to touch."""


class Strays:
    """Gives back marks of ours whose command is over, never began or is unknown; says once whose the others are."""

    def __init__(self, desk: Desk) -> None:
        """Nothing said yet."""
        self._desk = desk
        self._owed: frozenset[str] = frozenset()
        self._foreign: frozenset[str] = frozenset()
        self._unexplained: frozenset[str] = frozenset()

    def sweep(self, beat: Beat) -> None:
        """Look at every mark that the cluster bears."""
        owed: dict[str, Command | None] = {}
        foreign: dict[str, tuple[str, ...]] = {}
        for mark, what in marks(beat.snapshot).items():
            command = self._command(mark)
            if not is_ours(mark, self._desk.ledger.ledger, command):
                foreign[mark] = what
            elif owes(mark, command, beat.snapshot):
                owed[mark] = command
        self._say_foreign(foreign, beat)
        self._say_unexplained(beat)
        if self._desk.hands.is_dry_run:
            return  # nothing would be given back, so nothing must say so
        was_owed, self._owed = self._owed, frozenset(owed)
        for mark, command in owed.items():
            self._give_back(mark, command, beat, is_new=mark not in was_owed)

    def _command(self, mark: str) -> Command | None:
        """The ledger's command of this mark; one of the same number in another ledger is not it."""
        read = read_mark(mark)
        command = self._desk.ledger.command(read[1]) if read is not None else None
        return command if command is not None and command.mark == mark else None

    def _give_back(self, mark: str, command: Command | None, beat: Beat, *, is_new: bool) -> None:
        stray = command or self._desk.hands.stray(mark, beat.snapshot)
        why = f"{mark} is {command.state if command else 'unknown to this ledger'}; what it held is given back"
        if is_new:  # said once, however often the scheduler has to be asked
            self._desk.audit(beat, "released", why, command.id if command else None)
        beat.said.append(why)
        self._desk.do("release", stray, beat)

    def _say_foreign(self, foreign: dict[str, tuple[str, ...]], beat: Beat) -> None:
        """Marks of another daemon are shown while they are there, and audited when they come."""
        was, self._foreign = self._foreign, frozenset(foreign)
        for mark, what in foreign.items():
            shown = ", ".join(what[:3]) + (f" and {len(what) - 3} more" if len(what) > 3 else "")
            sentence = f"{mark} is of another daemon and is left alone: {shown}."
            beat.refuse_node(FOREIGN, sentence)
            if mark not in was:
                self._desk.audit(beat, "foreign mark", sentence)
                beat.said.append(sentence)

    def _say_unexplained(self, beat: Beat) -> None:
        """What no command can be read from is shown while it is there, and audited when it comes."""
        found = unexplained(beat.snapshot)
        was, self._unexplained = self._unexplained, frozenset(found)
        for what in found:
            sentence = f"Nobody knows whose this is, so it is left alone: {what}. Look at it and remove it by hand."
            beat.refuse_node(FOREIGN, sentence)
            if what not in was:
                self._desk.audit(beat, "foreign mark", sentence)
