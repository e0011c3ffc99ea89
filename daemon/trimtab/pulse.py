"""Whether the daemon lives: what feeds systemd's watchdog, and what the dead man's handle is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import structlog

from trimtab.loop import Beat
from trimtab.model.advice import FindingState
from trimtab.model.board import Board
from trimtab.service import Service

log = structlog.get_logger()

VITAL = ("remember", "judge", "rebalance")
"""Without these nothing is kept, judged or carried out. A target of on-call that hangs is its own alert, and no reason
to end the daemon, nor to let somebody be told that it is dead."""
STALL_SECONDS_MIN = 60.0
"""A beat that has not ended for so long (or ten intervals) is no progress."""
FAILING_SECONDS_MAX = 60.0
"""What fails for so long at once is no hiccup: nothing has been kept, or nothing judged, for a minute."""


def is_stalled(beat: Beat, *, stall_seconds: float = STALL_SECONDS_MIN) -> bool:
    """Whether a beat that should have ended long ago has not."""
    return (beat.quiet_seconds or 0.0) > max(stall_seconds, 10 * beat.interval_seconds)


def hung(beats: Iterable[Beat]) -> str:
    """Names of the vital beats that hang or have died; "" = none. Then a new process is better than this one."""
    return ", ".join(one.name for one in beats if one.name in VITAL and (is_stalled(one) or not one.is_alive))


class Watchdog:
    """Feeds systemd's watchdog while each of some beats gets through, and shows what all of them said last.

    A beat may take half of WatchdogSec= (or ten of its intervals); a unit's override of that one word sets both.
    """

    def __init__(
        self,
        service: Service,
        beats: Sequence[Beat],
        *,
        vital: Sequence[str] = VITAL,
        notice: Callable[[], str] = str,
    ) -> None:
        """`notice` comes first in the status text: what a person should know, or nothing.

        Outside systemd a hung beat is only said.
        """
        self._notice = notice
        given = service.watchdog_seconds
        self._stall_seconds = STALL_SECONDS_MIN if given is None else given / 2
        self._service, self._beats = service, tuple(beats)
        self._vital = tuple(vital)
        self._hung: tuple[str, ...] = ()

    def watch(self, beats: Sequence[Beat]) -> None:
        """These beats from now on: a reload has others than the start."""
        self._beats = tuple(beats)

    def feed(self) -> None:
        """Once a second: feed it, or say once which beat hangs and let systemd end us."""
        quiet = {
            one.name: round(one.quiet_seconds or 0.0)
            for one in self._beats
            if one.name in self._vital and is_stalled(one, stall_seconds=self._stall_seconds)
        }
        if quiet and tuple(quiet) != self._hung:
            log.error(
                "a beat hangs, so systemd's watchdog is no longer fed: it ends this process and starts a new one",
                quiet_seconds=quiet,
            )
        self._hung = tuple(quiet)
        if quiet:
            self._service.status("; ".join(self._hangs(one) for one in self._beats if one.name in quiet))
        else:
            said = (self._notice(), *(beat.last_sentence for beat in self._beats))
            self._service.alive("; ".join(one for one in said if one))

    def _hangs(self, beat: Beat) -> str:
        """For `systemctl status`: which beat, for how long, at what."""
        at = f" at {beat.at}" if beat.at else ""
        return f"{beat.name} hangs{at} for {beat.quiet_seconds or 0.0:.0f} s: the watchdog is no longer fed"


class Latest(Protocol):
    """The last board that was published."""

    @property
    def board(self) -> Board:
        """It, whole."""
        ...


def doing(trouble: str, latest: Latest | None) -> str:
    """What the daemon does, for `systemctl status`: what a person should know first, then the cluster in one line."""
    if latest is None:
        return trouble
    board = latest.board
    reporting = sum(node.last_report_at is not None and not node.is_silent for node in board.nodes)
    open_count = sum(one.state is FindingState.OPEN for one in board.findings)
    mode = f"{board.mode.value}, paused" if board.is_paused else board.mode.value
    gpus = f"{board.strip.gpus_reporting} GPUs, {board.strip.gpus_working} working"
    said = f"{reporting} of {len(board.nodes)} nodes report, {gpus}; {open_count} findings open; {mode}"
    return f"{trouble}; {said}" if trouble else said


def why_not_well(beats: Iterable[Beat], *, is_bell_failing: bool) -> str:
    """What keeps the daemon from doing what people rely on; "" = nothing."""
    return ", ".join(_unwell(tuple(beats), is_bell_failing=is_bell_failing))


def _unwell(beats: tuple[Beat, ...], *, is_bell_failing: bool) -> Iterator[str]:
    if names := hung(beats):
        yield names
    for beat in beats:
        # A scheduler that cannot be read fails the rebalance beat; findings and pages go on without it.
        if beat.name in ("remember", "judge") and (beat.failing_seconds or 0.0) > FAILING_SECONDS_MAX:
            yield f"{beat.name} (it fails: {beat.last_sentence})"
    if is_bell_failing:
        yield "what tells people of findings"
