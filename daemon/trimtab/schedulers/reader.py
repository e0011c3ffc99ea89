"""The one reader of a Kubernetes cluster: out of the mirror's objects and the agents' words, one whole snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import zip_longest
from typing import Protocol

from trimtab.clock import Clock
from trimtab.errors import SchedulerError, SchedulerUnavailable
from trimtab.model.cluster import ClusterSnapshot, Queue, Reservation
from trimtab.model.devices import NodeDevices
from trimtab.schedulers import kueue_read, volcano_read
from trimtab.schedulers.devices_read import Dra
from trimtab.schedulers.drafts import Gathering, Memo
from trimtab.schedulers.held_read import (
    Reserves,
    held_of,
    reservations_of,
    shown,
    signed_node,
    signed_others,
    signed_pods,
)
from trimtab.schedulers.inventory import Inventory, Stock
from trimtab.schedulers.kubernetes import Api
from trimtab.schedulers.nodes_read import NodeFacts, node_facts
from trimtab.schedulers.objects import Loose, NodeObject, Pod
from trimtab.schedulers.owners import Owners
from trimtab.schedulers.places import KINDS as PLACE_KINDS
from trimtab.schedulers.places import Places
from trimtab.schedulers.pods import PodFacts, Resources, facts_of
from trimtab.schedulers.resources import pause_config_map
from trimtab.schedulers.scene import Scene
from trimtab.schedulers.shapes import Shape
from trimtab.schedulers.view import View
from trimtab.schedulers.wishes import Source
from trimtab.schedulers.workloads_read import Made, made_of
from trimtab.settings import KubernetesSettings

VERSION = "/version"
"""Small, and allowed to everybody: a frozen server does not answer it, while its open watches are silent."""
_NOTHING = object()
REPEATED_FOR = timedelta(minutes=1)
"""A snapshot of an unchanged cluster is given again for so long; what time alone changes may wait as long."""
FORGET_EVERY = 60
"""Snapshots between two sweeps of what was derived from objects that are gone."""


class Objects(Protocol):
    """All objects as last heard; `Mirrored` is one."""

    @property
    def nodes(self) -> Mapping[str, NodeObject]:
        """Nodes by name."""
        ...

    @property
    def pods(self) -> Mapping[str, Pod]:
        """Pods by `namespace/name`."""
        ...

    @property
    def others(self) -> Mapping[str, Mapping[str, Loose]]:
        """`plural.group` -> objects by key."""
        ...

    @property
    def served(self) -> Mapping[str, str]:
        """Kind -> version that is read."""
        ...

    @property
    def why_not_whole(self) -> str | None:
        """None = everything that decides about moves is here and fresh."""
        ...


class Mirrors(Protocol):
    """Where the objects come from."""

    def objects(self) -> Objects:
        """What is known now."""
        ...

    def doubt(self) -> None:
        """The server did not answer just now: what is lost since before now is whole only when it is heard again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    """The last snapshot and what it was made of."""

    snapshot: ClusterSnapshot
    objects: Objects
    devices: Mapping[str, NodeDevices]

    def is_of(self, objects: Objects, devices: Mapping[str, NodeDevices]) -> bool:
        """Whether it was made of the very same objects: a mirror gives an unchanged kind's mapping again."""
        before = self.objects
        if objects.nodes is not before.nodes or objects.pods is not before.pods:
            return False
        if objects.others.keys() != before.others.keys() or objects.served != before.served:
            return False
        return all(items is before.others[kind] for kind, items in objects.others.items()) and devices == self.devices


class KubernetesReader:
    """Makes the snapshot. Between two of them it keeps what it derived from objects that have not changed."""

    def __init__(
        self,
        mirror: Mirrors,
        *,
        api: Api,
        settings: KubernetesSettings,
        cluster: str,
        clock: Clock,
        devices: Callable[[], Mapping[str, NodeDevices]] = dict,
        reserves: Reserves | None = None,
    ) -> None:
        """`devices`: what the agents say now, by node. `reserves`: on which nodes a mark's command keeps room."""
        self._reserves = reserves
        self._mirror = mirror
        self._api = api
        self._settings = settings
        self._cluster = cluster
        self._clock = clock
        self._devices = devices
        self._resources = Resources(gpu=settings.gpu_resource)
        self._pods: Memo[PodFacts] = Memo()
        self._nodes: Memo[NodeFacts] = Memo()
        self._shapes: Memo[Shape | None] = Memo()
        self._sources: Memo[Source | None] = Memo()
        self._inventory = Inventory()
        self._places = Places({}, settings)
        self._places_of: tuple[Mapping[str, Loose] | None, ...] = ()
        self._view = View()
        self._made = 0
        self._last: _Last | None = None

    @property
    def view(self) -> View:
        """The objects behind the last snapshot."""
        return self._view

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is now, whole, or SchedulerUnavailable."""
        try:
            self._api.get(VERSION)
        except SchedulerError:
            self._mirror.doubt()
            raise
        objects = self._mirror.objects()
        if objects.why_not_whole is not None:
            # What is looked after beside the snapshot (the admission check) goes on with what there is.
            self._view = replace(self._view, others=objects.others, served=objects.served)
            raise SchedulerUnavailable(f"The cluster is not seen whole: {objects.why_not_whole}")
        devices = self._devices()
        last, now = self._last, self._clock.now()
        if last is not None and now - last.snapshot.taken_at < REPEATED_FOR and last.is_of(objects, devices):
            return replace(last.snapshot, taken_at=now)
        snapshot = self._snapshot_of(objects, devices)
        self._last = _Last(snapshot=snapshot, objects=objects, devices=devices)
        return snapshot

    def _snapshot_of(self, objects: Objects, devices: Mapping[str, NodeDevices]) -> ClusterSnapshot:
        pods = self._pod_facts(objects.pods)
        nodes = self._node_facts(objects)
        dra = Dra(objects.others, self._resources, self._settings.prefix)
        stock = self._inventory.stock(nodes, pods.values(), devices, dra)
        on_nodes = [signed_node(facts) for facts in nodes.values() if facts.holds]
        on_others = list(signed_others(objects.others, self._settings.prefix))
        signed = [
            *on_nodes,
            *(one for _, _, one in on_others),
            *signed_pods(objects.pods.values(), self._settings.prefix),
        ]
        reservations = reservations_of(signed, self._reserves)
        scene = self._scene(objects, stock, dra, reservations)
        drafts = Gathering(pods, objects.others, Owners(objects.others)).drafts(
            (plural, item) for plural, item, _ in on_others
        )
        made = [one for draft in drafts.values() if (one := made_of(draft, scene)) is not None]
        made.sort(key=lambda one: one.workload.id)
        suspended = {mark for one in made if (mark := one.workload.suspended_by) is not None}
        self._view = _view_of(objects, made)
        self._forget(objects)
        return ClusterSnapshot(
            cluster=self._cluster,
            taken_at=scene.at,
            nodes=self._inventory.nodes(stock, pods.values(), objects.others),
            workloads=tuple(one.workload for one in made),
            queues=self._queues(objects),
            reservations=reservations,
            held=held_of(shown(signed, suspended), nodes.values(), self._settings.prefix),
            pause_reason=_pause_reason(objects, self._settings),
            ended_pods=frozenset(key for key, one in pods.items() if one.pod.is_over and (one.need or one.claims)),
        )

    def _pod_facts(self, pods: Mapping[str, Pod]) -> Mapping[str, PodFacts]:
        resources, prefix = self._resources, self._settings.prefix
        return {
            key: self._pods.get(key, pod.metadata.resource_version, facts_of, pod, resources, prefix)
            for key, pod in pods.items()
        }

    def _node_facts(self, objects: Objects) -> Mapping[str, NodeFacts]:
        """Facts of all nodes; all anew where racks or pools may be others than before."""
        places_of = tuple(objects.others.get(kind) for kind in PLACE_KINDS)
        if any(now is not before for now, before in zip_longest(places_of, self._places_of, fillvalue=_NOTHING)):
            self._places, self._places_of = Places(objects.others, self._settings), places_of
            self._nodes = Memo()
        places, settings, resources = self._places, self._settings, self._resources
        return {
            name: self._nodes.get(name, node.metadata.resource_version, node_facts, node, places, settings, resources)
            for name, node in objects.nodes.items()
        }

    def _scene(self, objects: Objects, stock: Stock, dra: Dra, reservations: tuple[Reservation, ...]) -> Scene:
        reserved: dict[str, set[str]] = {}
        for one in reservations:
            reserved.setdefault(one.workload, set()).add(one.node)
        return Scene(
            settings=self._settings,
            resources=self._resources,
            at=self._clock.now(),
            others=objects.others,
            nodes=stock.facts,
            places=self._places,
            dra=dra,
            held=stock.held,
            reserved={workload: frozenset(names) for workload, names in reserved.items()},
            shapes=self._shapes,
            sources=self._sources,
        )

    def _queues(self, objects: Objects) -> tuple[Queue, ...]:
        gpu, prefix = self._settings.gpu_resource, self._settings.prefix
        return (
            *kueue_read.queues(objects.others, gpu=gpu, prefix=prefix),
            *volcano_read.queues(objects.others, gpu=gpu, prefix=prefix),
        )

    def _forget(self, objects: Objects) -> None:
        """Let go of what was derived from objects that are gone, now and then."""
        self._made += 1
        if self._made % FORGET_EVERY:
            return
        self._pods.keep(objects.pods)
        self._nodes.keep(objects.nodes)
        keys = [(kind, key) for kind, items in objects.others.items() for key in items]
        self._shapes.keep(keys)
        self._sources.keep(keys)


def _view_of(objects: Objects, made: list[Made]) -> View:
    drafts = {one.workload.id: one.draft for one in made}
    owners = {id_: draft.top.object for id_, draft in drafts.items()}
    kueues = {id_: draft.kueue for id_, draft in drafts.items()}
    groups = {one.workload.id: one.group for one in made}
    return View(
        nodes=objects.nodes,
        pods=objects.pods,
        others=objects.others,
        served=objects.served,
        pods_of={id_: draft.pods for id_, draft in drafts.items()},
        owner_of={id_: item for id_, item in owners.items() if item is not None},
        kueue_of={id_: item for id_, item in kueues.items() if item is not None},
        pod_group_of={id_: item for id_, item in groups.items() if item is not None},
    )


def _pause_reason(objects: Objects, settings: KubernetesSettings) -> str | None:
    name = pause_config_map(settings.prefix)
    found = objects.others.get("configmaps", {}).get(f"{settings.namespace}/{name}")
    if found is None or found.data.get("paused", "true").strip().lower() == "false":
        return None
    return found.data.get("reason", "").strip() or f"somebody made ConfigMap {settings.namespace}/{name}"
