"""How much is too much: openings that a target has had lately, and who must be content with a summary. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from trimtab.model.oncall import Audience

Recipients = Mapping[str, tuple[Audience, str]]


class Room:
    """What each target may still be told one by one within the window."""

    def __init__(self, openings: Mapping[str, int], *, most: int) -> None:
        """`openings`: those that each target has had within the window."""
        self._used = Counter(openings)
        self._most = most

    def divide(self, recipients: Recipients, *, is_exempt: bool) -> tuple[Recipients, Recipients]:
        """Who is told this one by itself, and who in the summary. What is exempt is told and counts all the same."""
        told, summed = {}, {}
        for name, whom in recipients.items():
            if is_exempt or self._used[name] < self._most:
                self._used[name] += 1
                told[name] = whom
            else:
                summed[name] = whom
        return told, summed
