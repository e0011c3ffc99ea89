"""What we write on the objects that we touch: one annotation `<prefix>/hold`, a JSON list with an entry a command.

Adapters write it in the same patch as the change itself; the reader makes the snapshot's cordons, stops, reservations
and held things out of it, and after a crash it is all that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from trimtab.errors import SchedulerRefused
from trimtab.model.command import Seat

CORDON = "cordon"
"""In `what` of a node: its cordon is ours."""
SUSPEND = "suspend"
"""In `what` of a Workload, Job, Deployment …: that it does not run is ours. `before` says what to put back."""
UNREADABLE = "unreadable"
"""The mark of an annotation of ours that cannot be read."""

Moment = Annotated[datetime, Meta(tz=True)]
"""One without a zone cannot be compared with now: an annotation that has one is not ours."""


class Hold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one command did to one object.

    `what` holds words: `cordon`, `suspend`, or anything else that must be given back, as it is to be shown
    (`taint trimtab/seat`, `stopPolicy`, `podSetUpdates`, `label trimtab/seat`, `toleration trimtab/seat`).
    """

    mark: str
    what: tuple[str, ...] = ()
    why: str = ""
    at: Moment | None = None
    until: Moment | None = None
    lasts: bool = False
    """What of it lasts once the command has settled (a cordon of a bad node)."""
    workload: str | None = None
    """Id of the workload that the seats are kept for."""
    seats: tuple[Seat, ...] = ()
    """Room that is kept: read back as reservations. Written on whatever object the adapter holds the room by."""
    before: dict[str, Any] = {}
    """What was there before and is to be put back (`{"replicas": 4}`)."""


def annotation(prefix: str) -> str:
    """`trimtab/hold`."""
    return f"{prefix}/hold"


def read_holds(annotations: Mapping[str, str], prefix: str) -> tuple[Hold, ...]:
    """The entries on an object; one that is not ours to understand comes back under the mark UNREADABLE."""
    text = annotations.get(annotation(prefix))
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[Hold, ...])
    except msgspec.MsgspecError:
        return (Hold(mark=UNREADABLE, what=(f"annotation {annotation(prefix)}",)),)


def hold_of(annotations: Mapping[str, str], prefix: str, mark: str) -> Hold | None:
    """The entry of one command."""
    return next((one for one in read_holds(annotations, prefix) if one.mark == mark), None)


def hold_text(holds: Iterable[Hold]) -> str | None:
    """The annotation's value; None (which removes it in a merge patch) where nothing is left."""
    kept = sorted(holds, key=lambda one: one.mark)
    return msgspec.json.encode(kept).decode() if kept else None


def with_hold(holds: Iterable[Hold], hold: Hold) -> tuple[Hold, ...]:
    """The entries with this one put in the place of the same command's.

    Raises SchedulerRefused where the annotation cannot be read: it would be written over.
    """
    kept = [one for one in holds if one.mark != hold.mark]
    unreadable = next((one for one in kept if one.mark == UNREADABLE), None)
    if unreadable is not None:
        raise SchedulerRefused(
            f"The {unreadable.what[0]} cannot be read and is not written over. Look at it, then remove it."
        )
    return (*kept, hold)


def without_hold(holds: Iterable[Hold], mark: str) -> tuple[Hold, ...]:
    """The entries without a command's."""
    return tuple(one for one in holds if one.mark != mark)
