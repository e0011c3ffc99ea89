"""Makes cases of one GPU's runs and conditions: one root, the rest folded into it, context applied. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from trimtab.detect.condition import Condition
from trimtab.detect.nvlink import NVLINK4, NVLINK5
from trimtab.detect.runs import Device, Run, bursts_by_code, episodes_of
from trimtab.detect.xid import RECOVERY, Sign
from trimtab.detect.xid_table import Repeat, Tier
from trimtab.model.advice import Action

APP_GAP_SECONDS = 5.0
"""Program errors of one GPU this close are one; further apart they are two, though within one minute."""
PROGRAM_CODES = frozenset({13, 31})
GSP_CODES = frozenset({119, 120})
_LINK_CODES = frozenset({NVLINK4, *NVLINK5})
_ANY_REPEAT = Repeat(bursts=5, seconds=86400.0, same="code", advice="The same code came back on this GPU: look at it.")


class CaseKind(StrEnum):
    """What a case is about; decides how it is told apart, merged and closed."""

    DEVICE = "device"
    """The GPU or node must be reset, rebooted or replaced."""
    APP = "app"
    """The program's own error."""
    WATCH = "watch"
    """A trend, an unknown code."""
    PAST = "past"
    """Old news: informs, never pages."""


@dataclass(slots=True, kw_only=True)
class Case:
    """One incident before it is worded. `places` are (node, GPU); an empty GPU is the node."""

    kind: CaseKind
    places: list[tuple[str, str]]
    runs: list[Run] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    root: Run | None = None
    repeat: Repeat | None = None
    members: set[str] = field(default_factory=set)
    is_answering: bool = False
    """A reading well after the last line finds the GPU well."""

    @property
    def label(self) -> str:
        """What the root is called, to tell equal cases: its code, kind or condition."""
        if self.root is not None:
            return self.root.sign.label or self.root.first.kind
        return self.conditions[0].name

    @property
    def deciding(self) -> list[Run]:
        """Runs whose action counts: believed ones, or all where nothing believed speaks."""
        believed = [run for run in self.runs if run.is_believed]
        return believed if believed or self.conditions else self.runs

    @property
    def action(self) -> Action:
        """The worst action of what decides."""
        found = [run.sign.action for run in self.deciding] + [condition.action for condition in self.conditions]
        return max(found, key=lambda action: action.rank, default=Action.NONE)

    @property
    def tier(self) -> Tier:
        """The highest tier of what decides."""
        found = [run.sign.tier for run in self.deciding if run.sign.action is not Action.NONE]
        found += [condition.tier for condition in self.conditions]
        return max(found, key=lambda tier: tier.rank, default=Tier.STORE)

    @property
    def began_at(self) -> datetime | None:
        """When the first line came; None where only a state speaks."""
        return min((run.first_at for run in self.runs), default=None)

    @property
    def last_at(self) -> datetime | None:
        """When the last line came."""
        return max((run.last_at for run in self.runs), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known of a GPU beside its events."""

    conditions: Sequence[Condition]
    values: Mapping[str, float] | None
    """Its last fresh reading; None = not seen."""
    read_at: datetime | None
    is_present: bool | None
    """Whether that reading finds it well; None = not seen."""
    at: datetime
    raise_after: datetime
    """Events before this only count for repeats."""


def cases_of(device: Device, context: Context) -> list[Case]:
    """All incidents of one GPU: at most one of its hardware, and one per root code of programs and trends."""
    recent = [run for run in device.runs if run.last_at >= context.raise_after and _is_unanswered(run, device)]
    live = [run for run in recent if not run.is_history_only]
    hardware: list[Run] = []
    small: dict[str, Case] = {}
    for episode in episodes_of(live):
        settled = _settle(episode, device, context)
        if any(run.sign.takes_part_of_node for run in settled):
            hardware += settled
        else:
            _add_small_cases(small, settled, device, context)
    cases = list(small.values())
    if hardware or context.conditions:
        cases.insert(0, _device_case(device, hardware, context))
    if not cases and recent:
        cases += _past(device, recent)
    return cases


def _is_unanswered(run: Run, device: Device) -> bool:
    return device.returned_at is None or run.last_at > device.returned_at


def _device_case(device: Device, runs: list[Run], context: Context) -> Case:
    conditions = sorted(context.conditions, key=lambda condition: -condition.action.rank)
    kind = CaseKind.DEVICE
    if not runs and all(condition.action.rank < Action.RESET_AFTER_DRAIN.rank for condition in conditions):
        kind = CaseKind.WATCH
    case = Case(kind=kind, places=[(device.node, device.gpu)], runs=runs, conditions=conditions)
    roots = [run for run in case.deciding if run.sign.takes_part_of_node]
    case.root = max(roots, key=_root_order, default=None)
    case.members = {f"{kind}:{device.node}/{device.gpu}"}
    if case.root is not None and context.is_present and context.read_at is not None:
        quiet_seconds = (context.read_at - max(run.last_at for run in runs)).total_seconds()
        case.is_answering = quiet_seconds >= 30.0
    return case


def _root_order(run: Run) -> tuple[bool, int, float]:
    return (run.sign.code != RECOVERY, run.sign.row.rank, -run.first_at.timestamp())


# ---- context: what stands beside an event changes what it means ----


def _settle(episode: list[Run], device: Device, context: Context) -> list[Run]:
    for rule in _RULES:
        episode = rule(episode, device, context)
    return episode


def _codes(runs: Sequence[Run]) -> set[int | None]:
    return {run.sign.code for run in runs}


def _with_action(
    runs: list[Run], codes: frozenset[int], action: Action, tier: Tier, why: str, *, says: str | None = None
) -> list[Run]:
    def changed(sign: Sign) -> Sign:
        if sign.code not in codes:
            return sign
        against = (*sign.against, why) if why else sign.against
        return replace(sign, action=action, tier=tier, against=against, says=says or sign.says)

    return [replace(run, sign=changed(run.sign)) for run in runs]


def _program_first(runs: list[Run], device: Device, context: Context) -> list[Run]:  # noqa: ARG001 - one shape
    """109 within a minute after 13 or 31 is the program's doing, unless the driver itself asks for a reset."""
    switch = next((run for run in runs if run.sign.code == 109), None)
    asks = any(run.sign.recovery for run in runs) or (context.values or {}).get("recovery_action")
    if switch is None or asks:
        return runs
    if not any(run.sign.code in PROGRAM_CODES and run.first_at <= switch.first_at for run in runs):
        return runs
    return _with_action(runs, frozenset({109}), Action.NONE, Tier.STORE, "")


def _contained(runs: list[Run], device: Device, context: Context) -> list[Run]:  # noqa: ARG001 - one shape
    """48 whose error was contained and whose row is marked waits for the job's end."""
    codes = _codes(runs)
    if not {48, 63, 94} <= codes or codes & {64, 95, 140}:
        return runs
    return _with_action(
        runs,
        frozenset({48}),
        Action.RESET_AFTER_DRAIN,
        Tier.TICKET,
        "The error was contained (XID 94) and its row is marked (XID 63): the GPU goes on until it is reset.",
    )


def _remap_known(runs: list[Run], device: Device, context: Context) -> list[Run]:  # noqa: ARG001 - one shape
    """63 whose row is in use already wants no reset."""
    if context.values is None or context.values.get("row_remap_pending") != 0.0:
        return runs
    return _with_action(
        runs,
        frozenset({63}),
        Action.WATCH,
        Tier.TICKET,
        "The driver says that no row waits (row_remap_pending = 0).",
        says="replaced a memory row",
    )


def _gsp(runs: list[Run], device: Device, context: Context) -> list[Run]:  # noqa: ARG001 - one shape
    """119 and 120: a page while the GPU hangs or the driver asks for more; no hurry while it answers."""
    if not _codes(runs) & GSP_CODES or context.values is None:
        return runs
    recovery = context.values.get("recovery_action")
    if recovery or context.is_present is False:
        return _with_action(runs, GSP_CODES, Action.CORDON_RESET, Tier.PAGE, "")
    if recovery == 0.0 and not any(run.sign.recovery for run in runs):
        why = "The GPU answers and the driver asks for nothing (recovery action 0)."
        return _with_action(runs, GSP_CODES, Action.RESET_AFTER_DRAIN, Tier.CORDON, why)
    return runs


def _link_again(runs: list[Run], device: Device, context: Context) -> list[Run]:
    """A link fault that came twice within a day weighs more."""
    since = context.at.timestamp() - _ANY_REPEAT.seconds

    def settled(run: Run) -> Run:
        sign = run.sign
        if sign.code not in _LINK_CODES or sign.again.rank <= sign.action.rank:
            return run
        same = [
            each
            for each in device.runs
            if each.sign.code == sign.code and each.sign.key == sign.key and each.last_at.timestamp() >= since
        ]
        return replace(run, sign=replace(sign, action=sign.again, tier=Tier.CORDON)) if len(same) > 1 else run

    return [settled(run) for run in runs]


def _echoes(runs: list[Run], device: Device, context: Context) -> list[Run]:  # noqa: ARG001 - one shape
    """What only repeats another code of the same minute has no say of its own."""
    codes = _codes(runs)
    echoes = {137} if codes & _LINK_CODES else set()
    if any(not run.sign.row.is_echo and run.sign.action is not Action.NONE for run in runs):
        echoes |= {run.sign.code for run in runs if run.sign.row.is_echo and not run.sign.recovery}  # type: ignore[misc]
    return _with_action(runs, frozenset(echoes), Action.NONE, Tier.STORE, "") if echoes else runs


def _driver_decides(runs: list[Run], device: Device, context: Context) -> list[Run]:  # noqa: ARG001 - one shape
    """The recovery action that the driver asks for in XID 154 beats the table for the codes of the same minute."""
    asked = [run for run in runs if run.sign.recovery and run.sign.action.rank >= Action.RESET_AFTER_DRAIN.rank]
    if not asked:
        return runs
    last = max(asked, key=lambda run: (run.is_believed, run.last_at))
    says = last.sign

    def settled(run: Run) -> Run:
        sign = run.sign
        if not sign.takes_part_of_node or sign.action in (says.action, Action.NONE):
            return run
        if run.is_believed and not last.is_believed:
            return run  # words that a program could have written take nothing back
        why = f"{sign.label} alone would be {sign.action}; the driver {says.says} (recovery action {says.recovery})."
        return replace(run, sign=replace(sign, action=says.action, against=(*sign.against, why)))

    return [settled(run) for run in runs]


_Rule = Callable[[list[Run], Device, Context], list[Run]]
# In order: each sees what the ones before it settled.
_RULES: tuple[_Rule, ...] = (_program_first, _contained, _remap_known, _gsp, _link_again, _echoes, _driver_decides)


# ---- programs, trends, old news ----


def _add_small_cases(cases: dict[str, Case], runs: list[Run], device: Device, context: Context) -> None:
    """Programs' errors and trends of one episode; the same root code of several episodes is one case."""
    burst_root, burst_ends = None, None
    for run in runs:
        sign = run.sign
        repeat = _repeat_of(run, device, context)
        if sign.action is Action.NONE and repeat is None:
            if burst_root is not None:
                cases[burst_root].runs.append(run)
            continue
        kind = CaseKind.APP if sign.action is Action.ALERT_OWNER else CaseKind.WATCH
        is_same = burst_ends is not None and (run.first_at - burst_ends).total_seconds() <= APP_GAP_SECONDS
        key = burst_root if is_same and kind is CaseKind.APP and burst_root else f"{kind} {sign.label or sign.says}"
        case = cases.setdefault(key, _small_case(kind, run, device))
        case.runs.append(run)
        case.repeat = case.repeat or repeat
        if kind is CaseKind.APP:
            burst_root, burst_ends = key, run.last_at


def _small_case(kind: CaseKind, root: Run, device: Device) -> Case:
    member = f"{kind}:{device.node}/{device.gpu}/{root.sign.label or root.first.kind}"
    return Case(kind=kind, places=[(device.node, device.gpu)], root=root, members={member})


def _repeat_of(run: Run, device: Device, context: Context) -> Repeat | None:
    """The repeat rule that this run's code has met, by its own rule or by the general one."""
    own = run.sign.row.repeat
    rules = [rule for rule in (own, _ANY_REPEAT if run.sign.action is not Action.NONE else None) if rule is not None]
    for rule in rules:
        since = context.at.timestamp() - rule.seconds
        same = [each for each in device.runs if each.sign.code == run.sign.code and each.last_at.timestamp() >= since]
        if _times(rule, run, same) >= rule.bursts:
            return rule
    return None


def _times(rule: Repeat, run: Run, same: list[Run]) -> int:
    if rule.same == "place":
        same = [each for each in same if each.sign.key and each.sign.key == run.sign.key]
    bursts = bursts_by_code(same).get(run.sign.code, [])
    if rule.same == "other_job":
        return len({each.first.pid for each in bursts if each.first.pid is not None})
    return len(bursts)


def _past(device: Device, runs: list[Run]) -> list[Case]:
    told = [run for run in runs if run.is_history_only and run.sign.action is not Action.NONE]
    if not told:
        return []
    root = max(told, key=_root_order)
    case = _small_case(CaseKind.PAST, root, device)
    case.runs = told
    return [case]
