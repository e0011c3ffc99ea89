"""Stops a rule that makes most of the cordons: many nodes, one cause, is for a person to look at.

A rule here is a detector's (`device_fault`), not the planner's: `evacuate` makes nearly all cordons by nature.
Uncordons are never stopped by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from trimtab.model.command import Command, RecommendationKind
from trimtab.model.spending import cordons_of
from trimtab.model.standing import Standing, StandingKind
from trimtab.settings import IssueSettings


class Breaker:
    """The cordons of the window by cause, and which causes are stopped."""

    def __init__(
        self,
        commands: Sequence[Command],
        *,
        open_ones: Iterable[Standing],
        resets: Iterable[Standing],
        settings: IssueSettings,
        now: datetime,
    ) -> None:
        """`commands`: of the window at least. `resets`: since when a cause that a person let go on counts anew."""
        self._settings = settings
        self._now = now
        self._why = {one.name: one.why for one in open_ones}
        self._since = {one.name: one.since for one in resets}
        self._cordons: list[tuple[datetime, int, tuple[str, ...]]] = []
        for command in commands:
            if command.attempts > 0 and not command.is_dry:
                self._count(command, begun_at(command))

    def begin(self, command: Command) -> tuple[Standing, ...]:
        """Count a command that begins; the breakers that it trips, to be kept. A dry one closes nothing."""
        if command.is_dry:
            return ()
        self._count(command, self._now)
        tripped = [self._trip(cause) for cause in causes_of(command) if self._is_too_many(cause)]
        self._why |= {one.name: one.why for one in tripped}
        return tuple(tripped)

    def why_not(self, command: Command) -> str | None:
        """The sentence of the breaker that stops this command, or None."""
        if command.recommendation.kind is RecommendationKind.UNCORDON:
            return None
        stopped = next((cause for cause in causes_of(command) if cause in self._why), None)
        return f"{command.name} waits: {self._why[stopped]}" if stopped else None

    def _count(self, command: Command, at: datetime) -> None:
        cordons = len(cordons_of(command.recommendation.writes))
        if cordons and at > self._now - timedelta(seconds=self._settings.breaker_window_seconds):
            self._cordons.append((at, cordons, causes_of(command)))

    def _counts(self, cause: str) -> tuple[int, int]:
        """Cordons of a cause and of all, within the window and since a person let that cause go on."""
        since = self._since.get(cause)
        lately = [(cordons, causes) for at, cordons, causes in self._cordons if since is None or at > since]
        return sum(count for count, causes in lately if cause in causes), sum(count for count, _ in lately)

    def _is_too_many(self, cause: str) -> bool:
        count, total = self._counts(cause)
        is_most = count > self._settings.breaker_ratio * total
        return cause not in self._why and count >= self._settings.breaker_cordons and is_most

    def _trip(self, cause: str) -> Standing:
        minutes = self._settings.breaker_window_seconds / 60
        count, total = self._counts(cause)
        return Standing(
            kind=StandingKind.BREAKER,
            name=cause,
            since=self._now,
            who="trimtab",
            why=(
                f"{cause} made {count} of the last {total} cordons within {minutes:.0f} min. "
                f"Look whether they are right, then: trimtab resume --rule {cause}"
            ),
        )


def causes_of(command: Command) -> tuple[str, ...]:
    """The detectors' rules behind a command; its own rule where no finding is."""
    return command.recommendation.causes or (command.recommendation.rule,)


def begun_at(command: Command) -> datetime:
    """When it began, as near as is known: a command that is over has kept only when it was submitted."""
    return command.submitted_at or command.changed_at
