"""What the demo says on the terminal: one line a change, in the product's voice, with the time since it was ready."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from trimtab.demo.stories import HORIZON_HOURS, Story, Summary
from trimtab.model.board import Board, CommandRow
from trimtab.model.command import CommandState

Say = Callable[[str], None]


class Narrator:
    """Tells each change of findings, commands and stories once."""

    def __init__(self, say: Say, *, speed: float, is_auto_approved: bool) -> None:
        """`say` prints one line."""
        self._say = say
        self._speed = speed
        self._is_auto_approved = is_auto_approved
        self._findings: dict[int, bool] = {}
        self._commands: dict[int, CommandState] = {}
        self._settled: set[str] = set()

    def line(self, wall_seconds: float, word: str, text: str) -> None:
        """One line with its time."""
        self._say(f"{wall_seconds:6.1f} s  {word:<8} {text}")

    def opening(
        self, *, link: str, nodes: int, gpus: int, remarks: tuple[str, ...], around: tuple[str, ...], log: str
    ) -> None:
        """What is here and how to look at it; `around` says where the programs beside it are, and what is missing."""
        self._say(f"The page, opened by a link that works once:  {link}")
        for line in around:
            self._say(line)
        self._say("From another terminal:  trimtab status   trimtab findings   trimtab plan   trimtab explain R1")
        if self._is_auto_approved:
            self._say("Recommendations are approved as soon as they are proposed (--auto-approve).")
        else:
            self._say("Nothing is moved before you approve:  trimtab approve R1  (or the button on the page).")
        self._say(
            f"{nodes} simulated nodes, {gpus} GPUs, real agents, the real daemon; {self._speed:g} × the wall's speed."
        )
        for remark in remarks:
            self._say(remark)
        self._say(f"The daemon's log: {log}")
        self._say("")

    def story_begins(self, story: Story, wall_seconds: float) -> None:
        """What we break."""
        self.line(wall_seconds, "story", f"{story.plot.name}: {story.plot.sentence}.")

    def story_settled(self, story: Story, wall_seconds: float) -> None:
        """How it ended, once."""
        if story.settled_s is None or story.plot.name in self._settled:
            return
        self._settled.add(story.plot.name)
        self.line(
            wall_seconds,
            "settled",
            f"{story.plot.name}: {story.plot.job} works at full pace, {story.settled_s:.1f} s after it began. "
            f"Lost {story.lost_gpu_hours:.1f} GPU-h, saved {story.saved_gpu_hours:.1f}.",
        )

    def board(self, board: Board, wall_seconds: float) -> None:
        """What the daemon found and does, where it changed."""
        for found in board.findings:
            is_closed = found.closed_at is not None
            if self._findings.get(found.id) == is_closed:
                continue
            if is_closed and found.id in self._findings:
                self.line(wall_seconds, "over", f"{found.name}  {found.close_reason or 'it no longer holds'}")
            elif not is_closed:
                impact = f"  {found.finding.impact}" if found.finding.impact else ""
                self.line(wall_seconds, "wrong", f"{found.name}  {found.finding.sentence}{impact}")
            self._findings[found.id] = is_closed
        for row in board.commands:
            self._command(row, board.at, wall_seconds)

    def _command(self, row: CommandRow, at: datetime, wall_seconds: float) -> None:
        command = row.command
        before = self._commands.get(command.id)
        if before is command.state:
            return
        self._commands[command.id] = command.state
        if before is None:
            advice = command.recommendation
            self.line(
                wall_seconds,
                "do",
                f"{row.name}  {advice.sentence}  gain {advice.gain.gpu_hours:.1f} GPU-h in "
                f"{advice.gain.horizon_hours:g} h   cost {advice.cost.gpu_hours:.1f} GPU-h",
            )
            if command.state is CommandState.PROPOSED:
                return
        said, reason = command.state.value, command.reason
        waits_until = command.recommendation.not_before
        if command.state is CommandState.APPROVED and waits_until is not None and waits_until > at:
            seconds = (waits_until - at).total_seconds() / self._speed
            said = f"waits for the next checkpoint, {seconds:.0f} s of the wall from now"
        elif reason:
            said = reason if reason.startswith(said) else f"{said}: {reason}"
        self.line(wall_seconds, "", f"{row.name}  {said}")


def summary_lines(summary: Summary) -> list[str]:
    """The summary for a terminal."""
    lines = ["", f"{'story':<12} {'found':>8} {'paged':>8} {'advised':>8} {'settled':>8} {'lost':>12} {'saved':>12}"]
    for story in summary.stories:
        moments = (story.found_s, story.paged_s, story.recommended_s, story.settled_s)
        times = " ".join(f"{_seconds(value):>8}" for value in moments)
        lost, saved = f"{story.gpu_hours_lost:.1f} GPU-h", f"{story.gpu_hours_saved:.1f} GPU-h"
        lines.append(f"{story.name:<12} {times} {lost:>12} {saved:>12}")
    lines += [
        "Times are wall seconds since the story began. GPU-hours are simulated: lost = GPUs × time until settled,",
        f"less the work that stayed; saved = the same loss going on for {HORIZON_HOURS:g} h, less what was lost.",
        f"Reports: {summary.reports_acknowledged} acknowledged, {summary.reports_lost} of them lost.",
        "Commands: " + (", ".join(f"{count} {state}" for state, count in summary.commands.items()) or "none"),
    ]
    return lines


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
