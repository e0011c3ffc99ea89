"""What stands beside the plan: pauses, the lease, breakers, vetoes, a release under way. Pure; the root fills it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trimtab.model.alerts import ForeignAlert, Quiet
from trimtab.model.board import ReleaseRow
from trimtab.model.command import AuditLine, read_mark
from trimtab.model.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the board shows of them."""

    pauses: tuple[str, ...] = ()
    why_not_written: str | None = None
    breakers: tuple[Standing, ...] = ()
    vetoes: tuple[Standing, ...] = ()
    release: ReleaseRow | None = None
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """A sentence for each exporter that is not read now."""
    quiet: tuple[Quiet, ...] = ()
    alerts: tuple[ForeignAlert, ...] = ()


def pause_sentences(
    *, paused: AuditLine | None, is_paused: bool, cluster_reason: str | None, releases: Sequence[Standing]
) -> tuple[str, ...]:
    """Each pause that stands, with who set it and why. `paused`: the audit line of a person's pause, where it is known.

    `cluster_reason`: why the cluster itself says to pause; None = it does not.
    """
    said = [f"Everything is being given back for {one.who}." for one in releases]
    if is_paused and not releases:
        who = f" by {paused.who}" if paused is not None else ""
        why = f": {paused.why}" if paused is not None and paused.why else ""
        said.append(f"Paused{who}{why}.".replace("..", "."))
    if cluster_reason is not None:
        said.append(f"Paused in the cluster itself: {cluster_reason or 'no reason given'}.".replace("..", "."))
    return tuple(said)


def release_row(
    before: ReleaseRow | None,
    *,
    asked_by: str,
    asked_at: datetime,
    at: datetime,
    given_back: Sequence[str],
    left: Sequence[str],
    is_done: bool,
) -> ReleaseRow:
    """One more look at a release: what was given back adds up; what a look no longer finds was given back too."""
    earlier = before if before is not None and before.asked_at == asked_at else None
    gone = [one for one in earlier.left if _is_borne(one) and one not in left] if earlier is not None else []
    told = (*(earlier.given_back if earlier is not None else ()), *given_back, *gone)
    return ReleaseRow(
        asked_by=asked_by,
        asked_at=asked_at,
        at=at,
        given_back=tuple(dict.fromkeys(told)),
        left=tuple(left),
        is_done=is_done,
    )


def _is_borne(text: str) -> bool:
    """Whether it is something on the cluster (`trimtab:3fa9c1:R11: cordon of gpu-07`), not a reason."""
    return read_mark(text.partition(": ")[0]) is not None
