"""Makes the snapshot's workloads, each out of what belongs to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from trimtab.model.cluster import Checkpoint, Placement, Workload, WorkloadState
from trimtab.schedulers import kueue_read, traits, volcano_read
from trimtab.schedulers.budgets import BUDGETS
from trimtab.schedulers.drafts import Draft
from trimtab.schedulers.marks import SUSPEND, read_holds
from trimtab.schedulers.objects import Loose, Toleration
from trimtab.schedulers.owners import VOLCANO_JOBS, plural_of
from trimtab.schedulers.places import RACK, flavor_labels, pool_for, selector_of
from trimtab.schedulers.pods import Need, PodFacts, started_at
from trimtab.schedulers.scene import Scene
from trimtab.schedulers.shapes import KUEUE_WORKLOADS, NO_SHAPE, Shape, shape_of
from trimtab.schedulers.standing import Standing, of_owner
from trimtab.schedulers.volcano_read import Around
from trimtab.schedulers.wishes import (
    OWNER,
    RESTART,
    Source,
    checkpoint_of,
    is_preemptible,
    seconds_of,
    source_of,
    text_of,
    wishes_of,
)

REMEMBERED = timedelta(hours=1)
"""Workloads that have ended stay in the snapshot for so long."""
CHECKPOINT_METRIC = "last_checkpoint_timestamp_seconds"
"""A TrainJob's trainer may report its last checkpoint as a metric of this name, in Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A workload of the snapshot and what it was made of."""

    workload: Workload
    draft: Draft
    group: Loose | None


def made_of(draft: Draft, scene: Scene) -> Made | None:
    """The workload of a draft; None where it has nothing to do with GPUs, or ended long ago."""
    shape = _shape(draft, scene)
    needs = {one.pod.metadata.name: need for one in draft.facts if (need := need_of(one, scene))}
    if not needs and not shape.uses_gpus and not draft.is_signed:
        return None
    return _Making(draft, scene, shape, needs).made()


def _shape(draft: Draft, scene: Scene) -> Shape:
    found = [(KUEUE_WORKLOADS, draft.kueue)] if draft.kueue is not None else draft.shapes
    shapes = [_memoized(plural, item, scene) for plural, item in found]
    known = [shape for shape in shapes if shape is not None]
    if len(known) == 1:
        return known[0]
    return _together(known) if known else NO_SHAPE


def _memoized(plural: str, item: Loose, scene: Scene) -> Shape | None:
    key, version = (plural, item.metadata.key), item.metadata.resource_version
    return scene.shapes.get(key, version, shape_of, plural, item, scene.resources)


def _together(shapes: Sequence[Shape]) -> Shape:
    """Several objects below a top that has no template of its own."""
    return Shape(
        pods=sum(one.pods for one in shapes),
        gpus_per_pod=max(one.gpus_per_pod for one in shapes),
        uses_parts=any(one.uses_parts for one in shapes),
        templates=tuple(template for one in shapes for template in one.templates),
        all_pods=sum(one.all_pods for one in shapes),
    )


def need_of(facts: PodFacts, scene: Scene) -> Need:
    """GPUs that a pod takes, by its requests and by its claims."""
    if not facts.claims:
        return facts.need
    claimed = scene.dra.need(facts.claims)
    return Need(gpus=facts.need.gpus + claimed.gpus, parts=(*facts.need.parts, *claimed.parts))


class _Making:
    """One workload being made; each method gives one part of it."""

    def __init__(self, draft: Draft, scene: Scene, shape: Shape, needs: Mapping[str, Need]) -> None:
        self.draft = draft
        self.scene = scene
        self.shape = shape
        self.needs = needs
        self.pods = draft.pods
        self.top = draft.top
        self.gpu_pods = [one for one in draft.facts if one.pod.metadata.name in needs]
        self.job = self.top.object if self.top.plural == VOLCANO_JOBS else None
        groups = scene.kind(volcano_read.POD_GROUPS)
        self.group = volcano_read.group_of(self.top.namespace, self.job, self.pods, groups) if groups else None
        self.is_orphan = KUEUE_WORKLOADS in scene.others and traits.lacks_workload(draft)
        self.controller = traits.controller_of(draft, group=self.group, is_orphan=self.is_orphan)
        self.sources = self._sources()

    def made(self) -> Made | None:
        """The workload, with what it was made of."""
        standing = self._standing()
        is_over = standing.state in (WorkloadState.FINISHED, WorkloadState.FAILED)
        if is_over and not self.draft.is_signed and not self._is_recent(standing.since):
            return None
        return Made(workload=self._workload(standing), draft=self.draft, group=self.group)

    def _is_recent(self, since: datetime | None) -> bool:
        return since is not None and self.scene.at - since < REMEMBERED

    def _workload(self, standing: Standing) -> Workload:
        prefix = self.scene.settings.prefix
        placements = self._placements()
        is_waiting = standing.state in (WorkloadState.WAITING, WorkloadState.STARTING)
        stop = self._stop_seconds()
        restart = seconds_of(self.sources, f"{prefix}/{RESTART}")
        can_replace = traits.can_replace_pod(self.draft, self.sources, prefix)
        pool, is_plannable = self._pool([one.node for one in placements])
        fixed = traits.why_fixed(
            self.draft,
            self.shape,
            self.scene.kind(BUDGETS).values(),
            is_parted=self._is_parted(),
            is_orphan=self.is_orphan,
            gpus_of_node=self.scene.gpus_of_node,
        )
        if fixed is None and not is_plannable:
            fixed = "may run on some nodes of its pool only, by its node selector or affinity"
        return Workload(
            id=self.top.id,
            name=self.top.name,
            controller=self.controller,
            pods=self._pods_wanted(),
            gpus_per_pod=max([self.shape.gpus_per_pod, *(need.gpus for need in self.needs.values())]),
            state=standing.state,
            is_gang=traits.is_gang(self.draft),
            queue=self._queue(),
            tenant=self.top.namespace,
            owner=text_of(self.sources, f"{prefix}/{OWNER}"),
            priority=self._priority(),
            is_preemptible=is_preemptible(self.sources),
            can_replace_pod=can_replace,
            placements=placements,
            checkpoint=self._checkpoint(),
            wishes=wishes_of(self.sources, prefix),
            restart_seconds=restart,
            started_at=self._started_at() if standing.state is WorkloadState.RUNNING else None,
            waiting_since=standing.since if is_waiting else None,
            waiting_reason=standing.reason if is_waiting else None,
            suspended_by=self._suspended_by(standing.state),
            replace_seconds=traits.replace_seconds(self.draft, self.sources, prefix, stop=stop, restart=restart)
            if can_replace
            else None,
            stop_seconds=stop,
            together=RACK if self._must_be_together() else None,
            pool=pool,
            tolerates=self.scene.tolerates(self._tolerations(), self.top.id),
            why_fixed=fixed,
            elastic=traits.elastic_of(self.draft, self.shape),
        )

    # --- state

    def _standing(self) -> Standing:
        gpu = self.scene.resources.gpu
        wanted = self._wanted()
        if self.draft.kueue is not None:
            return kueue_read.standing_of(self.draft.kueue, self.pods, wanted=wanted, gpu=gpu)
        around = Around(group=self.group, queue=self._volcano_queue(), gpu=gpu)
        if self.job is not None:
            return volcano_read.standing_of_job(self.job, self.pods, around)
        standing = of_owner(self.top.plural, self.top.object, self.pods, wanted=wanted, gpu=gpu)
        if self.controller == "volcano" and standing.state is WorkloadState.WAITING:
            return volcano_read.standing_of_pods(self.pods, around, wanted=wanted, made=self.top.object)
        return standing

    def _wanted(self) -> int:
        """Pods that must work for the whole to run. Where each pod stands for itself, those that have a place."""
        if self.top.plural in traits.SCALED:
            return sum(bool(pod.spec.node_name) and not pod.is_terminating for pod in self.pods)
        left = (
            [shape.all_pods for shape in self._own_shapes() if shape.all_pods] if self.draft.kueue is not None else []
        )
        wanted = min([self.shape.all_pods, *left]) if self.shape.all_pods else 0
        return wanted or sum(not pod.is_terminating for pod in self.pods)

    def _own_shapes(self) -> list[Shape]:
        """What the job itself still wants: less than its Workload once some of its pods have done their work."""
        found = (_memoized(plural, item, self.scene) for plural, item in self.draft.shapes)
        return [shape for shape in found if shape is not None and len(self.draft.shapes) == 1]

    def _volcano_queue(self) -> Loose | None:
        name = volcano_read.queue_name(self.job, self.group)
        return self.scene.kind(volcano_read.QUEUES).get(name) if name is not None else None

    def _suspended_by(self, state: WorkloadState) -> str | None:
        if state not in (WorkloadState.SUSPENDED, WorkloadState.STOPPING):
            return None
        for item in (self.draft.kueue, self.top.object):
            holds = read_holds(item.metadata.annotations, self.scene.settings.prefix) if item is not None else ()
            mark = next((one.mark for one in holds if SUSPEND in one.what), None)
            if mark is not None:
                return mark
        return None

    # --- size and seats

    def _pods_wanted(self) -> int:
        if self.shape.pods:
            return self.shape.pods
        item = self.top.object
        replicas = item.spec.get("replicas") if item is not None and self.top.plural in traits.SCALED else None
        if isinstance(replicas, int) and replicas:
            return replicas
        return sum(not one.pod.is_terminating for one in self.gpu_pods) or len(self.gpu_pods)

    def _placements(self) -> tuple[Placement, ...]:
        held = self.scene.held
        return tuple(
            Placement(
                pod=one.pod.metadata.name,
                rank=rank,
                node=one.pod.spec.node_name,
                gpus=held.get(one.pod.metadata.key, ()),
            )
            for rank, one in enumerate(self.gpu_pods)
            if one.pod.spec.node_name in self.scene.nodes
        )

    def _started_at(self) -> datetime | None:
        """A gang began anew with its latest pod; pods that stand for themselves have all begun with their oldest."""
        is_gang = traits.is_gang(self.draft)
        pods = [one.pod for one in self.gpu_pods if not (is_gang and one.pod.is_terminating)]
        known = [moment for pod in pods if (moment := started_at(pod)) is not None]
        return (max if is_gang else min)(known, default=None)

    def _stop_seconds(self) -> float:
        specs = [one.pod.spec for one in self.gpu_pods] or [one.template.spec for one in self.shape.templates]
        return float(max((spec.termination_grace_period_seconds for spec in specs), default=0))

    def _is_parted(self) -> bool:
        nodes = (self.scene.nodes.get(one.pod.spec.node_name) for one in self.gpu_pods)
        return any(facts is not None and facts.offer.is_parted for facts in nodes)

    # --- where it may go

    def _flavors(self) -> list[Loose]:
        """The flavors that it runs on, or must, where there is only one."""
        item, flavors = self.draft.kueue, self.scene.places.flavors
        if item is None:
            return []
        names = kueue_read.flavors_of(item, self.scene.resources.gpu)
        if not names:
            names = kueue_read.flavors_of_queue(
                self.scene.kind(kueue_read.CLUSTER_QUEUES).get(self._queue() or ""), self.scene.resources.gpu
            )
        return [flavors[name] for name in names if name in flavors] if len(names) == 1 else []

    def _pool(self, now: Iterable[str]) -> tuple[str | None, bool]:
        labels: Mapping[str, str] = {}
        affinity: Mapping[str, object] = {}
        if self.shape.templates and (self.draft.kueue is not None or not self.gpu_pods):
            spec = self.shape.templates[0].template.spec
            labels, affinity = spec.node_selector, spec.affinity
        elif self.gpu_pods:
            labels, affinity = self.gpu_pods[0].pod.spec.node_selector, self.gpu_pods[0].pod.spec.affinity
        for flavor in self._flavors():
            labels = {**labels, **flavor_labels(flavor)}
        wanted, terms = selector_of(labels, affinity)
        fitting = self.scene.fitting(wanted, terms)
        return pool_for(fitting, self.scene.pools, (node for node in now if node in self.scene.pools))

    def _must_be_together(self) -> bool:
        places = self.scene.places
        if self.draft.kueue is not None:
            levels = kueue_read.required_levels(self.draft.kueue)
            return any(places.is_rack_level(level, self.scene.domains(level)) for level in levels)
        tier = volcano_read.hard_tier(self.job, self.group)
        if tier is None:
            return False
        return tier <= 1 or sum(one.spec.get("tier") == tier for one in places.hyper_nodes.values()) > 1

    def _tolerations(self) -> Sequence[Toleration]:
        alive = [one for one in self.gpu_pods if not one.pod.is_terminating]
        if alive:
            return alive[-1].pod.spec.tolerations
        own = self.shape.templates[0].template.spec.tolerations if self.shape.templates else []
        given = [msgspec.convert(flavor.spec.get("tolerations") or [], list[Toleration]) for flavor in self._flavors()]
        return [*own, *(one for each in given for one in each)]

    # --- who it is and what its owner says

    def _queue(self) -> str | None:
        item = self.draft.kueue
        if item is not None:
            found = kueue_read.queue_of(item, self.scene.kind(kueue_read.LOCAL_QUEUES))
            return found or kueue_read.local_queue_of(item)
        if self.controller == "volcano":
            return volcano_read.queue_name(self.job, self.group)
        return None

    def _priority(self) -> int:
        if self.draft.kueue is not None and isinstance(self.draft.kueue.spec.get("priority"), int):
            return int(self.draft.kueue.spec["priority"])
        return max((pod.spec.priority for pod in self.pods), default=0)

    def _checkpoint(self) -> Checkpoint:
        status = self.top.object.status.get("trainerStatus") if self.top.object is not None else None
        if not self.sources and not status:
            return _NO_CHECKPOINT
        return checkpoint_of(self.sources, self.scene.settings.prefix, reported_at=_reported(status))

    def _sources(self) -> Sequence[Source]:
        """Objects that bear marks, nearest first; most workloads have none."""
        found = [one.source for one in self.draft.facts if one.source is not None]
        scene, namespace = self.scene, self.top.namespace
        if self.draft.kueue is not None:
            found += self._marked("workload", KUEUE_WORKLOADS, self.draft.kueue)
        for item in reversed(self.top.objects):
            found += self._marked(item.kind.lower() or self.top.kind, plural_of(item) or self.top.plural, item)
        if not self.draft.facts:
            found += self._of_templates()
        space = scene.kind("namespaces").get(namespace)
        return [*found, *(self._marked("namespace", "namespaces", space) if space is not None else ())]

    def _marked(self, word: str, plural: str, item: Loose) -> list[Source]:
        metadata, prefix = item.metadata, self.scene.settings.prefix
        key, version = (plural, metadata.key), metadata.resource_version
        source = self.scene.sources.get(key, version, source_of, f"{word} {metadata.name}", metadata, prefix)
        return [] if source is None else [source]

    def _of_templates(self) -> list[Source]:
        prefix = self.scene.settings.prefix
        name = f"the pod template of {self.top.name}"
        found = (source_of(name, one.template.metadata, prefix) for one in self.shape.templates)
        return [one for one in found if one is not None]


_NO_CHECKPOINT = Checkpoint()


def _reported(status: object) -> datetime | None:
    """The last checkpoint among the metrics that a TrainJob's trainer reports."""
    metrics = status.get("metrics") if isinstance(status, dict) else None
    for one in metrics or ():
        if one.get("name") == CHECKPOINT_METRIC:
            return _unix(one.get("value"))
    return None


def _unix(value: object) -> datetime | None:
    try:
        return datetime.fromtimestamp(float(str(value)), UTC)
    except (ValueError, OverflowError, OSError):
        return None
