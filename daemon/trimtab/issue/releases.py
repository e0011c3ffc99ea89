"""`release --all`: everything of this ledger is given back, whatever state its command is in, until nothing is left.

A person's request stands in the ledger, so a crash in the middle changes nothing: each beat undoes what has begun,
gives back what lasts and sweeps every mark, and the request is lifted when the cluster bears none of ours any more.
Nothing new begins meanwhile: the request pauses us, and a person resumes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from trimtab.issue.beat import Beat
from trimtab.issue.decisions import withdrawn
from trimtab.issue.desk import Desk
from trimtab.issue.look import is_ours, marks, unexplained
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, CommandState, read_mark
from trimtab.model.standing import Standing, StandingKind

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """How far a release has come. `left` is what the cluster still bears and why, in words."""

    asked_by: str
    asked_at: datetime
    given_back: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    is_done: bool = False

    @property
    def sentence(self) -> str:
        """One line for people."""
        if self.is_done:
            return "Everything of ours is given back; trimtab stays paused until somebody resumes it."
        return f"Giving back for {self.asked_by}: {len(self.left)} things left."


def release_all(desk: Desk, beat: Beat) -> Released | None:
    """One beat of a release that somebody asked for; None = nobody did. Strays are swept by their own duty."""
    request = next((one for one in desk.ledger.standing(StandingKind.RELEASE) if one.name == ALL), None)
    if request is None:
        return None
    was_refused = len(beat.refusals)
    for command in desk.ledger.commands(live_only=True):
        _give_up(command, request, desk, beat)
    for command in desk.ledger.holding():
        desk.undo(_asked(command, request), beat, was=command)
    for mark in request.marks:
        if mark in marks(beat.snapshot):
            _give_back_foreign(mark, request, desk, beat)
    _let_go(request, desk, beat)
    left = [*_borne(desk, beat.snapshot, request), *(one.sentence for one in beat.refusals[was_refused:])]
    is_done = not left and not _is_open(desk)
    if is_done:
        why = f"nothing of {desk.ledger.ledger} is left on the cluster"
        desk.ledger.lift(StandingKind.RELEASE, ALL, who="trimtab", what="released all", why=why, at=beat.now)
    return Released(
        asked_by=request.who, asked_at=request.since, given_back=tuple(beat.said), left=tuple(left), is_done=is_done
    )


def _give_up(command: Command, request: Standing, desk: Desk, beat: Beat) -> None:
    if command.state is CommandState.APPROVED:
        desk.record(withdrawn(command, request.why, beat.now), was=command, why=request.why, beat=beat)
    elif command.state.is_begun:
        desk.undo(_asked(command, request), beat, was=command)


def _asked(command: Command, request: Standing) -> Command:
    """With the release as whoever wants it undone, unless somebody else did before."""
    if command.undo_requested_by is not None:
        return command
    return replace(command, undo_requested_by=request.who, reason=request.why)


def _let_go(request: Standing, desk: Desk, beat: Beat) -> None:
    """Of commands that settled and keep no node out, what lasts is given back too: their sweep then takes it."""
    for mark in marks(beat.snapshot):
        read = read_mark(mark)
        command = desk.ledger.command(read[1]) if read is not None else None
        if command is None or command.mark != mark or command.state is not CommandState.SETTLED:
            continue
        if command.given_back_at is None and not command.is_holding:
            given = replace(command, given_back_at=beat.now)
            desk.record(given, was=command, why=request.why, beat=beat)


def _give_back_foreign(mark: str, request: Standing, desk: Desk, beat: Beat) -> None:
    why = f"{request.who} named {mark}, which is of another daemon; what it held is given back"
    desk.audit(beat, "released", why)
    if desk.do("release", desk.hands.stray(mark, beat.snapshot), beat):
        beat.said.append(why)


def _borne(desk: Desk, snapshot: ClusterSnapshot, request: Standing) -> list[str]:
    """What the snapshot shows of ours (and of the marks that were named): it was taken before this beat's writes."""
    found = []
    for mark, what in marks(snapshot).items():
        read = read_mark(mark)
        command = desk.ledger.command(read[1]) if read is not None else None
        if mark in request.marks or is_ours(mark, desk.ledger.ledger, command):
            found += [f"{mark}: {one}" for one in what]
    if found and desk.hands.is_dry_run:
        found.append(
            "This daemon runs dry: what no command under way gives back stays until issue.is_dry_run is false."
        )
    return [
        *found,
        *(f"{what}: nobody knows whose it is; look, then remove it by hand" for what in unexplained(snapshot)),
    ]


def _is_open(desk: Desk) -> bool:
    begun = [one for one in desk.ledger.commands(live_only=True) if one.state.is_begun]
    return bool(begun) or bool(desk.ledger.holding())
