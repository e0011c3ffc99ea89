"""What owners wrote on their objects: opt-outs, "not before", ask first, who they are, checkpoints, times. Pure.

A mark that cannot be understood counts as a no, with a sentence: doubt means no move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trimtab.model.cluster import Checkpoint, OwnerWishes
from trimtab.schedulers.objects import Metadata

NO_WISHES = OwnerWishes()
DO_NOT_MOVE, NOT_BEFORE, ASK_FIRST, OWNER = "do-not-move", "not-before", "ask-first", "owner"
REPLACEABLE, RESTART, REPLACE = "replaceable-pods", "restart-seconds", "replace-seconds"
CHECKPOINT_AT, CHECKPOINT_EVERY = "last-checkpoint-time", "checkpoint-interval-seconds"
VOLCANO_CHECKPOINT_AT = "volcano.sh/last-checkpoint-time"
VOLCANO_PREEMPTABLE = "volcano.sh/preemptable"

NO_IF_NOT_FALSE = ("karpenter.sh/do-not-disrupt", "descheduler.alpha.kubernetes.io/prefer-no-eviction")
"""Others' opt-outs that say no whatever their value, but for `false`."""
NO_IF: Mapping[str, str] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    VOLCANO_PREEMPTABLE: "false",
    "kai.scheduler/preemptibility": "non-preemptible",
}
"""Others' opt-outs that say no by one value."""
NOT_PREEMPTIBLE = (VOLCANO_PREEMPTABLE, "kai.scheduler/preemptibility")
_FOREIGN = (*NO_IF_NOT_FALSE, *NO_IF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One object that may bear marks, and what people call it: `pod a-0`, `job train`."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    def get(self, key: str) -> str | None:
        """An annotation, else a label."""
        value = self.annotations.get(key)
        return self.labels.get(key) if value is None else value


def has_marks(labels: Mapping[str, str], annotations: Mapping[str, str], prefix: str) -> bool:
    """Whether there is anything here that this module reads; most objects bear nothing of it."""
    start = f"{prefix}/"
    for marks in (annotations, labels):
        for key in marks:
            if key.startswith(start) or key in _FOREIGN or key == VOLCANO_CHECKPOINT_AT:
                return True
    return False


def source_of(name: str, metadata: Metadata, prefix: str) -> Source | None:
    """An object as a source; None where it bears no mark."""
    labels, annotations = metadata.labels, metadata.annotations
    return Source(name=name, labels=labels, annotations=annotations) if has_marks(labels, annotations, prefix) else None


def wishes_of(sources: Sequence[Source], prefix: str) -> OwnerWishes:
    """What all of the sources together ask: any no is a no, the latest moment counts."""
    reasons: list[str] = []
    moments: list[datetime] = []
    asks: list[str] = []
    for source in sources:
        reasons += _foreign_noes(source)
        reasons += _own_no(source, prefix)
        _not_before(source, prefix, moments, reasons)
        _ask_first(source, prefix, asks, reasons)
    if not reasons and not moments and not asks:
        return NO_WISHES
    return OwnerWishes(
        is_opted_out=bool(reasons),
        opt_out_reason=reasons[0] if reasons else "",
        not_before=max(moments, default=None),
        is_ask_first=bool(asks),
        ask_url=next((url for url in asks if url), None),
    )


def _foreign_noes(source: Source) -> Iterable[str]:
    for key in NO_IF_NOT_FALSE:
        value = source.get(key)
        if value is not None and value.lower() != "false":
            yield f"{key} on {source.name}"
    for key, no in NO_IF.items():
        if source.get(key) == no:
            yield f"{key}={no} on {source.name}"


def _own_no(source: Source, prefix: str) -> Iterable[str]:
    value = source.get(f"{prefix}/{DO_NOT_MOVE}")
    if value is not None and value.strip().lower() != "false":
        yield f"{prefix}/{DO_NOT_MOVE} on {source.name}"


def _not_before(source: Source, prefix: str, moments: list[datetime], reasons: list[str]) -> None:
    key = f"{prefix}/{NOT_BEFORE}"
    text = source.get(key)
    if text is None:
        return
    moment = moment_of(text)
    if moment is None:
        reasons.append(f'{key} on {source.name} is no moment like 2030-01-31T12:00:00Z: "{text[:40]}"')
    else:
        moments.append(moment)


def _ask_first(source: Source, prefix: str, asks: list[str], reasons: list[str]) -> None:
    key = f"{prefix}/{ASK_FIRST}"
    text = source.get(key)
    if text is None or text.lower() == "false":
        return
    if text.lower() == "true":
        asks.append("")
    elif text.startswith(("https://", "http://")):
        asks.append(text)
    else:
        reasons.append(f'{key} on {source.name} is neither "true" nor an address: "{text[:40]}"')


def moment_of(text: str) -> datetime | None:
    """An RFC 3339 moment with its zone; None where it is none."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def is_preemptible(sources: Iterable[Source]) -> bool:
    """Whether nobody says that it must not give way to others."""
    return not any(source.get(key) == NO_IF[key] for source in sources for key in NOT_PREEMPTIBLE)


def text_of(sources: Iterable[Source], key: str) -> str | None:
    """The first value that any of the sources bears."""
    return next((value for source in sources if (value := source.get(key)) is not None), None)


def seconds_of(sources: Iterable[Source], key: str) -> float | None:
    """A time in seconds; None where there is none, or none that can be read."""
    text = text_of(sources, key)
    try:
        seconds = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None


def is_true(sources: Iterable[Source], key: str) -> bool:
    """Whether a mark says `true` in so many letters; anything else is no consent."""
    return text_of(sources, key) == "true"


def checkpoint_of(sources: Sequence[Source], prefix: str, *, reported_at: datetime | None = None) -> Checkpoint:
    """The newest checkpoint that anybody tells of, and how often one is made."""
    texts = [source.get(key) for source in sources for key in (f"{prefix}/{CHECKPOINT_AT}", VOLCANO_CHECKPOINT_AT)]
    moments = [moment for text in texts if text is not None and (moment := moment_of(text)) is not None]
    return Checkpoint(
        last_at=max([*moments, *([] if reported_at is None else [reported_at])], default=None),
        interval_seconds=seconds_of(sources, f"{prefix}/{CHECKPOINT_EVERY}") or None,
    )
