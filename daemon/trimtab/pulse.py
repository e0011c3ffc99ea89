"""Whether the daemon lives: what feeds systemd's watchdog, and what the dead man's handle is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trimtab.loop import Beat

VITAL = ("remember", "judge", "rebalance")
"""Without these nothing is kept, judged or carried out. A target of on-call that hangs is its own alert, and no reason
to end the daemon, nor to let somebody be told that it is dead."""
STALL_SECONDS_MIN = 60.0
"""A beat that has not ended for so long (or ten intervals) is no progress."""
FAILING_SECONDS_MAX = 60.0
"""What fails for so long at once is no hiccup: nothing has been kept, or nothing judged, for a minute."""


def is_stalled(beat: Beat) -> bool:
    """Whether a beat that should have ended long ago has not."""
    return (beat.quiet_seconds or 0.0) > max(STALL_SECONDS_MIN, 10 * beat.interval_seconds)


def hung(beats: Iterable[Beat]) -> str:
    """Names of the vital beats that hang or have died; "" = none. Then a new process is better than this one."""
    return ", ".join(one.name for one in beats if one.name in VITAL and (is_stalled(one) or not one.is_alive))


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
