"""Puts together what belongs to one workload: its top owner, pods, Kueue Workload, PodGroup, templates. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trimtab.schedulers.kueue_objects import WORKLOADS
from trimtab.schedulers.kueue_read import newest
from trimtab.schedulers.objects import Loose, Metadata, Pod
from trimtab.schedulers.owners import DEPLOYMENTS, JOB_SETS, JOBS, STATEFUL_SETS, VOLCANO_JOBS, Owners, Top
from trimtab.schedulers.pods import PodFacts
from trimtab.schedulers.shapes import SHAPED

T = TypeVar("T")
Others = Mapping[str, Mapping[str, Loose]]
_TOPS = (DEPLOYMENTS, STATEFUL_SETS)
_IN_ORDER = (VOLCANO_JOBS, JOB_SETS, JOBS)


class Memo(Generic[T]):
    """Values made once for each version of an object."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: dict[Hashable, tuple[object, T]] = {}

    def get(self, key: Hashable, version: object, make: Callable[..., T], *of: object) -> T:
        """The value for this version, `make(*of)` where it is new."""
        found = self._known.get(key)
        if found is not None and found[0] == version:
            return found[1]
        value = make(*of)
        self._known[key] = (version, value)
        return value

    def keep(self, keys: Iterable[Hashable]) -> None:
        """Forget what is gone, once it is more than what is there."""
        live = set(keys)
        if len(self._known) > 2 * len(live) + 64:
            self._known = {key: value for key, value in self._known.items() if key in live}


@dataclass(slots=True)
class Draft:
    """One workload being put together."""

    top: Top
    facts: list[PodFacts] = field(default_factory=list)
    """Its pods that are not over."""
    kueues: list[Loose] = field(default_factory=list)
    shaped: list[tuple[str, Loose]] = field(default_factory=list)
    """Objects with templates: the top itself, or what stands below one that has none."""
    is_signed: bool = False
    """Whether a command of ours holds something on it."""
    kueue: Loose | None = None
    """The Kueue Workload that stands for it as a whole."""

    @property
    def id(self) -> str:
        """The workload's id."""
        return self.top.id

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Its pods in rank order."""
        return tuple(one.pod for one in self.facts)

    def settle(self) -> None:
        """Order what was gathered, and see whether one Kueue Workload stands for all."""
        if len(self.facts) > 1:
            self.facts.sort(key=_rank)
        if self.kueues and not self._is_pod_by_pod:
            self.kueue = self.kueues[0] if len(self.kueues) == 1 else newest(self.kueues)

    @property
    def _is_pod_by_pod(self) -> bool:
        """Whether Kueue admits each pod of a Deployment by itself: then no Workload speaks for all of them."""
        return self.top.plural in _TOPS and all(_is_of_pod(one.metadata) for one in self.kueues)

    @property
    def shapes(self) -> list[tuple[str, Loose]]:
        """The objects whose templates count: the highest of those that have any."""
        for plural in (self.top.plural, *_IN_ORDER):
            found = [one for one in self.shaped if one[0] == plural]
            if found:
                return found
        return self.shaped


def _rank(facts: PodFacts) -> tuple[tuple[str, ...], int, str]:
    return facts.rank


def _is_of_pod(metadata: Metadata) -> bool:
    return bool(metadata.owner_references) and all(one.kind == "Pod" for one in metadata.owner_references)


class Gathering:
    """Drafts of one moment, by workload id."""

    def __init__(self, facts: Mapping[str, PodFacts], others: Others, owners: Owners) -> None:
        """`facts` of all pods by `namespace/name`."""
        self._facts = facts
        self._others = others
        self._owners = owners
        self._drafts: dict[str, Draft] = {}

    def drafts(self, signed: Iterable[tuple[str, Loose]]) -> Mapping[str, Draft]:
        """What belongs to each workload. `signed`: kinds and objects that bear our annotation."""
        self._take_pods()
        self._take_kueue()
        self._take_shaped()
        for plural, item in signed:
            self._take_signed(plural, item)
        for draft in self._drafts.values():
            draft.settle()
        return self._drafts

    def _draft(self, top: Top) -> Draft:
        found = self._drafts.get(top.id)
        if found is None:
            found = self._drafts[top.id] = Draft(top)
        return found

    def _take_pods(self) -> None:
        for one in self._facts.values():
            if not one.pod.is_over:
                self._draft(self._owners.of_pod(one.pod.metadata)).facts.append(one)

    def _take_kueue(self) -> None:
        for item in self._others.get(WORKLOADS, {}).values():
            top = _top_of_kueue(item, self._facts, self._owners)
            if top is not None and not _is_elsewhere(item):
                self._draft(top).kueues.append(item)

    def _take_shaped(self) -> None:
        for plural in SHAPED:
            if plural != WORKLOADS:
                for item in self._others.get(plural, {}).values():
                    self._draft(self._owners.of_object(plural, item)).shaped.append((plural, item))

    def _take_signed(self, plural: str, item: Loose) -> None:
        if plural == WORKLOADS:
            top = _top_of_kueue(item, self._facts, self._owners)
        else:
            top = _top_of(plural, item, self._owners)
        if top is not None:
            self._draft(top).is_signed = True


def _top_of(plural: str, item: Loose, owners: Owners) -> Top | None:
    return owners.of_object(plural, item) if plural in (*SHAPED, *_TOPS) else None


def _top_of_kueue(item: Loose, facts: Mapping[str, PodFacts], owners: Owners) -> Top | None:
    """The workload that a Kueue Workload is for; None where nothing says whose it is."""
    metadata = item.metadata
    owner = metadata.owner or next(iter(metadata.owner_references), None)
    if owner is None:
        return None
    if owner.kind != "Pod":
        return owners.of(metadata.namespace, owner)
    pods = (facts.get(f"{metadata.namespace}/{one.name}") for one in metadata.owner_references)
    pod = next((one for one in pods if one is not None), None)
    if pod is not None:
        return owners.of_pod(pod.pod.metadata)
    is_group = len(metadata.owner_references) > 1 or metadata.owner is None
    return Top(namespace=metadata.namespace, kind="podgroup" if is_group else "pod", name=_group_name(item, owner.name))


def _group_name(item: Loose, pod: str) -> str:
    """A pod group's Workload bears the group's name; a single pod's is named after the pod and a hash."""
    return pod if item.metadata.owner is not None else item.metadata.name


def _is_elsewhere(item: Loose) -> bool:
    """Whether MultiKueue runs it in another cluster: its pods are not here."""
    return bool(item.status.get("clusterName"))
