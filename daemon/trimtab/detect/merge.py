"""Merges cases that are one incident: GPUs of one node that failed alike, one job's ranks, one fabric's links. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

from trimtab.detect.case import Case, CaseKind
from trimtab.detect.fleet import Fleet
from trimtab.detect.runs import EPISODE_GAP_SECONDS


def merge(cases: Iterable[Case], fleet: Fleet) -> list[Case]:
    """Cases with those of one incident made one, earliest root first."""
    merged = _merge_by(list(cases), lambda case: _node_key(case, fleet))
    merged = _merge_by(merged, lambda case: _job_key(case, fleet))
    return _fold_echoes(merged, fleet)


def _node_key(case: Case, fleet: Fleet) -> Hashable | None:
    """Device faults with one root on one live node: what they need is done to the node once."""
    node, gpu = case.places[0]
    is_of_device = case.kind is CaseKind.DEVICE or case.root is None
    if not is_of_device or not gpu or node not in fleet.window.nodes:
        return None
    return (node, case.label, case.action)


def _job_key(case: Case, fleet: Fleet) -> Hashable | None:
    """Programs' and links' errors with one root in one job."""
    is_link = case.root is not None and case.root.sign.row.is_link
    if case.kind is not CaseKind.APP and not is_link:
        return None
    holder = fleet.holder(*case.places[0])
    return (holder, case.kind, case.label, case.action) if holder else None


def _merge_by(cases: list[Case], key_of: Callable[[Case], Hashable | None]) -> list[Case]:
    groups: dict[Hashable, list[Case]] = defaultdict(list)
    for case in cases:
        key = key_of(case)
        groups[id(case) if key is None else key].append(case)
    return [_join(chain) for group in groups.values() for chain in _chains(group)]


def _chains(group: list[Case]) -> list[list[Case]]:
    """Parted where a minute lies between; device faults of a node stay together however long they last."""
    if len(group) == 1 or group[0].root is None:
        return [group]
    if group[0].kind is CaseKind.DEVICE and not (group[0].root and group[0].root.sign.row.is_link):
        return [group]
    chains: list[list[Case]] = []
    ends = None
    for case in sorted(group, key=lambda case: (case.began_at is None, case.began_at)):
        if ends is None or case.began_at is None or (case.began_at - ends).total_seconds() > EPISODE_GAP_SECONDS:
            chains.append([])
        chains[-1].append(case)
        ends = max(filter(None, (ends, case.last_at)), default=None)
    return chains


def _join(chain: list[Case]) -> Case:
    if len(chain) == 1:
        return chain[0]
    chain = sorted(chain, key=lambda case: (case.began_at is None, case.began_at, case.places))
    return Case(
        kind=chain[0].kind,
        places=list(dict.fromkeys(place for case in chain for place in case.places)),
        runs=[run for case in chain for run in case.runs],
        conditions=[condition for case in chain for condition in case.conditions],
        root=next((case.root for case in chain if case.root is not None), None),
        repeat=next((case.repeat for case in chain if case.repeat is not None), None),
        members=set().union(*(case.members for case in chain)),
        is_answering=all(case.is_answering for case in chain),
    )


def _fold_echoes(cases: list[Case], fleet: Fleet) -> list[Case]:
    """The clean-up (43, 45) of one job's other ranks belongs to what ended the job within that minute."""
    roots: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if not _is_echo(case) and case.kind is not CaseKind.PAST:
            for holder in {fleet.holder(*place) for place in case.places} - {""}:
                roots[holder].append(case)
    kept = []
    for case in cases:
        parent = _parent(case, roots.get(fleet.holder(*case.places[0]), [])) if _is_echo(case) else None
        if parent is None:
            kept.append(case)
        else:
            parent.members |= case.members
    return kept


def _is_echo(case: Case) -> bool:
    return case.kind is CaseKind.APP and case.root is not None and case.root.sign.row.is_echo


def _parent(case: Case, roots: list[Case]) -> Case | None:
    def is_near(root: Case) -> bool:
        if root.began_at is None or root.last_at is None or case.began_at is None or case.last_at is None:
            return False
        before = (root.began_at - case.last_at).total_seconds()
        after = (case.began_at - root.last_at).total_seconds()
        return max(before, after) <= EPISODE_GAP_SECONDS

    near = [root for root in roots if is_near(root)]
    return max(near, key=lambda root: root.action.rank, default=None)
