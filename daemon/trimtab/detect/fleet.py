"""Lookups over one window: whether a reading is fresh, who holds a GPU, what it is called, whom its loss hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from trimtab.model.cluster import GpuKey, Workload
from trimtab.model.window import GpuNow, NodeNow, Window

FRESH_SECONDS = 60.0
"""A reading this old (or three intervals, where those are longer) no longer says how a GPU is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Whom a fault hits: ids, GPUs that suffer, GPUs' worth of work lost while it lasts, in words."""

    workloads: tuple[str, ...] = ()
    gpus: int = 0
    loss_gpus: float = 0.0
    impact: str = ""


class Fleet:
    """One window with its lookups, made once per judgement."""

    def __init__(self, window: Window) -> None:
        """Look up in `window`."""
        self.window = window
        self.cluster = window.cluster
        self.holders: Mapping[tuple[str, str], Workload] = window.snapshot.holders if window.snapshot else {}

    def is_node_fresh(self, node: str) -> bool:
        """Whether the node's last report is recent; a node that never reported is not."""
        known = self.window.nodes.get(node)
        return known is not None and self._is_recent(known)

    def _is_recent(self, node: NodeNow) -> bool:
        age_seconds = (self.window.at - node.received_at).total_seconds()
        return age_seconds <= max(FRESH_SECONDS, 3 * node.interval_seconds)

    @cached_property
    def stale_nodes(self) -> frozenset[str]:
        """Nodes that sent reports once and none lately."""
        return frozenset(name for name, node in self.window.nodes.items() if not self._is_recent(node))

    def is_fresh(self, now: GpuNow) -> bool:
        """Whether a reading still says how its GPU is."""
        if now.key.node in self.stale_nodes:
            return False
        node = self.window.nodes.get(now.key.node)
        interval_seconds = node.interval_seconds if node else 0.0
        age_seconds = (self.window.at - now.received_at).total_seconds()
        return age_seconds <= max(FRESH_SECONDS, 3 * interval_seconds)

    def now(self, node: str, gpu: str) -> GpuNow | None:
        """The last reading of a GPU, however old."""
        return self.window.gpus.get(GpuKey(cluster=self.cluster, node=node, uuid=gpu))

    def workload(self, node: str, gpu: str) -> Workload | None:
        """Who holds a GPU, as the scheduler says."""
        return self.holders.get((node, gpu))

    def holder(self, node: str, gpu: str) -> str:
        """Who holds a GPU: workload id, else as the reports say, else empty."""
        workload = self.workload(node, gpu)
        if workload is not None:
            return workload.id
        now = self.now(node, gpu)
        return (now.reading.holder or "") if now else ""

    def index(self, node: str, gpu: str) -> int | None:
        """A GPU's index, from its reading or the scheduler."""
        now = self.now(node, gpu)
        if now is not None and now.reading.info.index is not None:
            return now.reading.info.index
        known = self.window.snapshot.node_by_name.get(node) if self.window.snapshot else None
        return next((each.index for each in known.gpus if each.uuid == gpu), None) if known else None

    def place(self, node: str, gpus: Iterable[str]) -> str:
        """What people call it: `gpu-07 GPU 3`, `gpu-07 GPUs 0, 2`, `gpu-07`, or `GPU 3d:00.0` without a node."""
        names = sorted({self._gpu_name(node, gpu) for gpu in gpus if gpu}, key=_by_number)
        words = f"{'GPU' if len(names) == 1 else 'GPUs'} {', '.join(names)}" if names else ""
        return " ".join(part for part in (node, words) if part) or "A GPU"

    def _gpu_name(self, node: str, gpu: str) -> str:
        index = self.index(node, gpu)
        return str(index) if index is not None else gpu.removeprefix("0000:")

    def node_gpus(self, node: str) -> tuple[str, ...]:
        """The UUIDs of a node's GPUs: the scheduler's, else those that reported."""
        known = self.window.snapshot.node_by_name.get(node) if self.window.snapshot else None
        if known is not None:
            return tuple(gpu.uuid for gpu in known.gpus)
        return tuple(key.uuid for key in self.window.gpus if key.node == node)

    def hit(self, places: Iterable[tuple[str, str]], *, is_stopped: bool) -> Hit:
        """Whom it hits that these (node, GPU) pairs fail; an empty GPU stands for the whole node."""
        pairs = [pair for place in places for pair in self._expand(place)]
        held: dict[str, list[tuple[str, str]]] = {}
        for pair in pairs:
            workload = self.workload(*pair)
            if workload is not None and workload.is_running:
                held.setdefault(workload.id, []).append(pair)
        hits = [self._workload_hit(self.holders[own[0]], own, is_stopped=is_stopped) for own in held.values()]
        free = len(pairs) - sum(len(own) for own in held.values())
        loss = sum(hit.loss_gpus for hit in hits) + (free if is_stopped else 0)
        texts = [hit.impact for hit in hits[:3]] + ([f"and {len(hits) - 3} more"] if len(hits) > 3 else [])
        if not texts:
            texts = self._without_workload(pairs, is_stopped=is_stopped)
        return Hit(
            workloads=tuple(held),
            gpus=sum(hit.gpus for hit in hits) + free,
            loss_gpus=loss,
            impact="; ".join(texts),
        )

    def _expand(self, place: tuple[str, str]) -> list[tuple[str, str]]:
        node, gpu = place
        return [place] if gpu else [(node, each) for each in self.node_gpus(node)]

    def _workload_hit(self, workload: Workload, own: list[tuple[str, str]], *, is_stopped: bool) -> Hit:
        if not is_stopped:
            return Hit(gpus=workload.gpus, impact=f"{workload.name} runs on it: {count_text(workload.gpus, 'GPU')}")
        if workload.is_gang:
            impact = f"{workload.name} stands still: {count_text(workload.gpus, 'GPU')}"
            return Hit(gpus=workload.gpus, loss_gpus=workload.gpus, impact=impact)
        pods = [each for each in workload.placements if any((each.node, gpu) in own for gpu in each.gpus)]
        gpus = sum(len(each.gpus) for each in pods)
        impact = f"{workload.name} loses {count_text(len(pods), 'pod')} of {workload.pods}: {count_text(gpus, 'GPU')}"
        return Hit(gpus=gpus, loss_gpus=gpus, impact=impact)

    def _without_workload(self, pairs: list[tuple[str, str]], *, is_stopped: bool) -> list[str]:
        said = sorted({now.reading.holder for pair in pairs if (now := self.now(*pair)) and now.reading.holder})
        if said:
            return [f"{', '.join(said[:3])} runs on it"]
        return [f"{count_text(len(pairs), 'GPU')} out of service"] if is_stopped and pairs else []


def count_text(number: int, noun: str) -> str:
    """`1 GPU`, `32 GPUs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (1 << 30, name)
