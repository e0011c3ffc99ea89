"""The demo's three stories: when each begins, what trimtab made of it, and what it cost. Pure bookkeeping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from trimtab.model.advice import OpenFinding
from trimtab.model.board import Board, CommandRow
from trimtab.model.cluster import WorkloadState
from trimtab.model.command import CommandState
from trimtab.sim.cluster import JobTruth

HORIZON_HOURS = 1.0
"""Saved is counted against the same loss going on for this long (simulated): until somebody would have noticed."""
FULL_PACE_RATIO = 0.9
_SILENT = "node_silent"

Truth = Mapping[str, JobTruth]


class PageSubject(Protocol):
    """What a page says it is about."""

    @property
    def node(self) -> str | None:
        """Its name."""
        ...

    @property
    def workload(self) -> str | None:
        """Its id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What a story is about, known before it begins. Jobs by name, `workload` by id."""

    name: str
    begins_at_seconds: float
    """Simulated seconds after the demo is ready."""
    sentence: str
    job: str
    workload: str
    node: str | None
    begin: Callable[[], None]


@dataclass(slots=True, kw_only=True)
class Story:
    """One story as it unfolds; times in wall seconds since it began."""

    plot: Plot
    began_wall_seconds: float | None = None
    began_at: datetime | None = None
    found_s: float | None = None
    recommended_s: float | None = None
    paged_s: float | None = None
    """When on-call was told of it."""
    settled_s: float | None = None
    findings: dict[int, OpenFinding] = field(default_factory=dict)
    commands: dict[int, CommandState] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    """Workloads that its commands move besides its own."""
    lost_gpu_hours: float = 0.0
    loss_gpus: float = 0.0
    """GPUs' worth of work lost while nobody acts: the worst that was seen."""
    elapsed_hours: float = 0.0
    _at_start: dict[str, float] = field(default_factory=dict)

    @property
    def is_begun(self) -> bool:
        """Whether the fault is in."""
        return self.began_at is not None

    @property
    def saved_gpu_hours(self) -> float:
        """The loss of `HORIZON_HOURS` at the rate before the mending, less what was lost; 0 while not settled."""
        if self.settled_s is None:
            return 0.0
        return max(0.0, self.loss_gpus * HORIZON_HOURS - self.lost_gpu_hours)

    def start(self, *, wall_seconds: float, at: datetime, truth: Truth) -> None:
        """The fault is in: remember how far every job was."""
        self.began_wall_seconds, self.began_at = wall_seconds, at
        self._at_start = {job.id: job.done_gpu_seconds for job in truth.values()}

    def see_board(self, board: Board, *, wall_seconds: float) -> None:
        """What the daemon says about it."""
        for found in board.findings:
            if self._is_mine(found):
                self.findings[found.id] = found
                self.found_s = self._first(self.found_s, wall_seconds)
        for row in board.commands:
            if self._is_answer(row):
                self.commands[row.command.id] = row.command.state
                self.recommended_s = self._first(self.recommended_s, wall_seconds)
                self._note_moves(row)

    def see_page(self, subject: PageSubject, finding: str, *, wall_seconds: float) -> float | None:
        """What on-call was told: seconds since it began, where it is about this story; None where it is not."""
        plot = self.plot
        is_on_it = subject.workload == plot.workload or (plot.node is not None and subject.node == plot.node)
        if self.began_wall_seconds is None or wall_seconds < self.began_wall_seconds:
            return None
        if not is_on_it and finding not in {found.name for found in self.findings.values()}:
            return None
        return wall_seconds - self.began_wall_seconds

    def paged(self, since_began_seconds: float) -> None:
        """On-call was woken for it; the first time counts."""
        if self.paged_s is None:
            self.paged_s = since_began_seconds

    def see_truth(self, truth: Truth, *, wall_seconds: float, at: datetime) -> None:
        """How the jobs really are; counts the loss until the story is settled."""
        if self.began_at is None or self.settled_s is not None:
            return
        self.elapsed_hours = (at - self.began_at).total_seconds() / 3600
        self.lost_gpu_hours = self._lost(truth)
        own = truth.get(self.plot.job)
        if own is None:
            return
        if not self.has_begun_mending:
            self.loss_gpus = max(self.loss_gpus, own.gpus * (1 - own.pace_ratio))
        elif self._is_settled(truth, own):
            self.settled_s = self._first(self.settled_s, wall_seconds)

    @property
    def has_begun_mending(self) -> bool:
        """Whether a command of it was begun: from then on a standing job may be our doing."""
        return any(state.is_begun or state is CommandState.SETTLED for state in self.commands.values())

    @property
    def is_under_way(self) -> bool:
        """Whether a command of it has begun and is not over, as far as was seen."""
        return any(state.is_begun for state in self.commands.values())

    def _lost(self, truth: Truth) -> float:
        """GPUs × time since the story began, less the work done in it that stayed; over its job and those moved."""
        names = [job for job in truth.values() if job.id == self.plot.workload or job.id in self.moved]
        lost_gpu_seconds = 0.0
        for job in names:
            done = job.done_gpu_seconds - self._at_start.get(job.id, 0.0)
            lost_gpu_seconds += max(0.0, job.gpus * self.elapsed_hours * 3600 - done)
        return lost_gpu_seconds / 3600

    def _is_settled(self, truth: Truth, own: JobTruth) -> bool:
        moved = [job for job in truth.values() if job.id in self.moved]
        return _is_at_work(own) and all(_is_at_work(job) or job.state is WorkloadState.FINISHED for job in moved)

    def _is_mine(self, found: OpenFinding) -> bool:
        if self.began_at is None or found.opened_at < self.began_at:
            return False
        finding, plot = found.finding, self.plot
        if finding.rule == _SILENT:
            return False  # the daemon's own absence, not the story
        hits = finding.subject.workload == plot.workload or plot.workload in finding.workloads_hit
        return hits or (plot.node is not None and finding.subject.node == plot.node)

    def _is_answer(self, row: CommandRow) -> bool:
        advice = row.command.recommendation
        if self.began_at is None or advice.created_at < self.began_at:
            return False
        is_for_it = self.plot.workload in (advice.for_workload, advice.subject.workload)
        return is_for_it or any(number in self.findings for number in advice.findings)

    def _note_moves(self, row: CommandRow) -> None:
        if row.command.state.is_begun or row.command.state is CommandState.SETTLED:
            moves = row.command.recommendation.moves
            self.moved |= {move.workload for move in moves if move.workload} - {self.plot.workload}

    def _first(self, before: float | None, wall_seconds: float) -> float | None:
        if before is not None or self.began_wall_seconds is None:
            return before
        return wall_seconds - self.began_wall_seconds


def _is_at_work(job: JobTruth) -> bool:
    return job.state is WorkloadState.RUNNING and job.pace_ratio >= FULL_PACE_RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryNumbers:
    """One story in the summary; times are wall seconds since it began, None = did not happen."""

    name: str
    found_s: float | None
    paged_s: float | None
    recommended_s: float | None
    settled_s: float | None
    gpu_hours_lost: float
    gpu_hours_saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the demo came to."""

    stories: tuple[StoryNumbers, ...]
    reports_acknowledged: int
    reports_lost: int
    commands: Mapping[str, int]


def numbers_of(stories: Iterable[Story]) -> tuple[StoryNumbers, ...]:
    """The stories' numbers, rounded to what is known of them."""
    return tuple(
        StoryNumbers(
            name=story.plot.name,
            found_s=_rounded(story.found_s),
            paged_s=_rounded(story.paged_s),
            recommended_s=_rounded(story.recommended_s),
            settled_s=_rounded(story.settled_s),
            gpu_hours_lost=round(story.lost_gpu_hours, 2),
            gpu_hours_saved=round(story.saved_gpu_hours, 2),
        )
        for story in stories
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
