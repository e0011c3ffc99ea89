"""What a GPU's own state says without any event: lost, unreadable, a reset asked for, memory that wants one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from trimtab.detect.fleet import Fleet
from trimtab.detect.xid_table import Tier, XidTable
from trimtab.model.advice import Action
from trimtab.model.reading import GpuReading, GpuState
from trimtab.model.window import GpuNow

RETIRED_PAGES_RMA = 60.0
"""Retired pages, both causes together, from which a card is to be replaced (Azure's line; 63 is DCGM's hard one)."""
RETIRED_PAGES_WATCH = 15.0
"""DCGM's soft line."""
RECOVERY_KEY = "recovery_action"
_RMA_ADVICE = "Cordon, drain, run the field diagnostic; replace the card if it fails."
_RESET_ADVICE = "Let its jobs end, then reset the GPU."


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that a GPU's present state says. `stops_work` = nothing can run on it until that ends."""

    name: str
    says: str
    action: Action
    tier: Tier
    advice: str
    text: str
    value: float | None = None
    threshold: float | None = None
    is_sufficient: bool = True
    """Enough alone: the driver's own state, not a line that somebody may have written."""
    stops_work: bool = False
    is_presence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flag:
    key: str
    says: str
    action: Action
    tier: Tier
    advice: str


# Worst first; each is a state that only a reset or a new card ends.
_FLAGS: tuple[_Flag, ...] = (
    _Flag(
        key="row_remap_failed",
        says="could not replace a bad memory row",
        action=Action.HARDWARE_RMA,
        tier=Tier.CORDON,
        advice=_RMA_ADVICE,
    ),
    _Flag(
        key="memory_unrepairable",
        says="has memory that cannot be repaired",
        action=Action.HARDWARE_RMA,
        tier=Tier.CORDON,
        advice=_RMA_ADVICE,
    ),
    _Flag(
        key="sram_ecc_threshold_exceeded",
        says="had more on-chip memory errors than allowed",
        action=Action.HARDWARE_RMA,
        tier=Tier.CORDON,
        advice=_RMA_ADVICE,
    ),
    _Flag(
        key="row_remap_pending",
        says="waits for a reset that replaces a memory row",
        action=Action.RESET_AFTER_DRAIN,
        tier=Tier.TICKET,
        advice=_RESET_ADVICE,
    ),
    _Flag(
        key="retired_pages_pending",
        says="waits for a reset that retires memory pages",
        action=Action.RESET_AFTER_DRAIN,
        tier=Tier.TICKET,
        advice=_RESET_ADVICE,
    ),
)


def conditions_of(fleet: Fleet, table: XidTable) -> Mapping[tuple[str, str], list[Condition]]:
    """(node, GPU) -> what its last reading says; only GPUs with something to say and a fresh reading."""
    unreadable = _unreadable_by_node(fleet)
    found: dict[tuple[str, str], list[Condition]] = {}
    for key, now in fleet.window.gpus.items():
        reading = now.reading
        if reading.state is GpuState.OK and not _is_flagged(reading.values):
            continue
        if not fleet.is_fresh(now):
            continue
        conditions = [*_state(now, unreadable), *_from_values(reading.values, table, _is_driver_source(fleet, now))]
        if conditions:
            found[key.node, key.uuid] = conditions
    return found


def _is_flagged(values: Mapping[str, float]) -> bool:
    get: Callable[[str], float | None] = values.get
    return bool(
        get(RECOVERY_KEY)
        or get("row_remap_pending")
        or get("row_remap_failed")
        or get("retired_pages_pending")
        or get("sram_ecc_threshold_exceeded")
        or get("memory_unrepairable")
        or get("retired_pages/uncorrectable")
        or get("retired_pages/correctable")
    )


def _is_driver_source(fleet: Fleet, now: GpuNow) -> bool:
    node = fleet.window.nodes.get(now.key.node)
    return node is None or "exporter" not in node.source


def _unreadable_by_node(fleet: Fleet) -> Mapping[str, tuple[int, int]]:
    """Node -> (GPUs that do not answer, GPUs that it reported), for nodes where at least one does not."""
    bad: dict[str, int] = {}
    for key, now in fleet.window.gpus.items():
        if now.reading.state is not GpuState.OK:
            bad[key.node] = bad.get(key.node, 0) + 1
    if not bad:
        return {}
    total: dict[str, int] = {}
    for key in fleet.window.gpus:
        if key.node in bad:
            total[key.node] = total.get(key.node, 0) + 1
    return {node: (count, total[node]) for node, count in bad.items()}


def _state(now: GpuNow, unreadable: Mapping[str, tuple[int, int]]) -> Iterator[Condition]:
    reading = now.reading
    if reading.state is GpuState.OK:
        return
    bad, total = unreadable[now.key.node]
    if bad == total > 1:
        # A driver upgrade, or a container that lost its devices, looks like this: never all GPUs at once by themselves.
        yield Condition(
            name="all_unreadable",
            says="cannot be read, like every GPU of its node",
            action=Action.CONFIG_PROBLEM,
            tier=Tier.TICKET,
            advice="Look at the driver and at what the agent may open before the hardware.",
            text=f"{bad} of {total} GPUs of the node do not answer",
            is_sufficient=False,
            is_presence=True,
        )
        return
    yield _lost(reading, bad, total) if reading.state is GpuState.LOST else _unreadable(bad, total)


def _lost(reading: GpuReading, bad: int, total: int) -> Condition:
    return Condition(
        name="lost",
        says="is lost to the driver",
        action=Action.CORDON_REBOOT,
        tier=Tier.PAGE,
        advice="Cordon the node, bring its jobs back elsewhere, reboot it.",
        text=f"the driver lost {reading.uuid}; {total - bad} of {total} GPUs of the node answer",
        is_sufficient=total > bad,
        stops_work=True,
        is_presence=True,
    )


def _unreadable(bad: int, total: int) -> Condition:
    return Condition(
        name="unreadable",
        says="does not answer the driver",
        action=Action.CORDON_RESET,
        tier=Tier.CORDON,
        advice="Cordon, drain, reset the GPU; reboot if the reset fails.",
        text=f"no base read succeeds; {total - bad} of {total} GPUs of the node answer",
        is_sufficient=False,
        stops_work=True,
        is_presence=True,
    )


def _from_values(values: Mapping[str, float], table: XidTable, is_sufficient: bool) -> Iterator[Condition]:  # noqa: FBT001 - one caller
    recovery = values.get(RECOVERY_KEY)
    if recovery:
        yield _recovery(int(recovery), table, is_sufficient=is_sufficient)
    for flag in _FLAGS:
        value = values.get(flag.key)
        if value:
            yield Condition(
                name=flag.key,
                says=flag.says,
                action=flag.action,
                tier=flag.tier,
                advice=flag.advice,
                text=f"{flag.key} = {value:g}",
                value=value,
                threshold=1.0,
                is_sufficient=is_sufficient,
            )
    yield from _retired_pages(values, is_sufficient=is_sufficient)


def _recovery(value: int, table: XidTable, *, is_sufficient: bool) -> Condition:
    known = table.recovery.get(value)
    return Condition(
        name=RECOVERY_KEY,
        says=known.says if known else f"asks for recovery action {value}, which this version does not know",
        action=known.action if known else Action.UNKNOWN,
        tier=known.tier if known else Tier.TICKET,
        advice="",
        text=f"the driver's recovery action is {value}",
        value=float(value),
        threshold=1.0,
        is_sufficient=is_sufficient,
        stops_work=known is not None and known.action.takes_node_out,
    )


def _retired_pages(values: Mapping[str, float], *, is_sufficient: bool) -> Iterator[Condition]:
    pages = values.get("retired_pages/correctable", 0.0) + values.get("retired_pages/uncorrectable", 0.0)
    if pages < RETIRED_PAGES_WATCH:
        return
    is_over = pages >= RETIRED_PAGES_RMA
    yield Condition(
        name="retired_pages",
        says="has retired as many memory pages as a card may" if is_over else "retires memory pages",
        action=Action.HARDWARE_RMA if is_over else Action.WATCH,
        tier=Tier.CORDON if is_over else Tier.TICKET,
        advice=_RMA_ADVICE if is_over else "Keep it as a trend.",
        text=f"{pages:g} pages retired",
        value=pages,
        threshold=RETIRED_PAGES_RMA if is_over else RETIRED_PAGES_WATCH,
        is_sufficient=is_sufficient,
    )
