"""The objects of a file that matter here, sorted by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.collect.documents import Document, objects_of
from trimtab.collect.kubectl import KubeNode, KubePod, name_of, read_node, read_pod
from trimtab.collect.kubectl_workloads import KubeQueue, KubeWorkload, read_queue, read_workload
from trimtab.inspect.cluster_state import sketch_of


@dataclass(slots=True)
class Objects:
    """The objects of a file that matter here, by kind; others are counted."""

    nodes: list[KubeNode] = field(default_factory=list)
    pods: list[KubePod] = field(default_factory=list)
    queues: list[KubeQueue] = field(default_factory=list)
    workloads: list[KubeWorkload] = field(default_factory=list)
    flavors: list[str] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing here has to do with GPUs or their scheduling."""
        return not (self.nodes or self.pods or self.queues or self.workloads or self.flavors)


def sort_objects(documents: Sequence[Document]) -> Objects:
    """Every object of all documents, those inside a List one by one."""
    found = Objects()
    sketch = next((sketch for one in documents if isinstance(one, Mapping) and (sketch := sketch_of(one))), None)
    if sketch is not None:
        found.nodes, found.pods = sketch
        return found
    for item in objects_of(list(documents)):
        _add(item, found)
    return found


def _add(item: Mapping[str, Document], found: Objects) -> None:
    kind, api = str(item.get("kind", "")), str(item.get("apiVersion", ""))
    workload = read_workload(item)
    if workload is not None:
        found.workloads.append(workload)
    elif kind == "Node":
        found.nodes.append(read_node(item))
    elif kind == "Pod":
        found.pods.append(read_pod(item))
    elif kind == "ClusterQueue" or (kind == "Queue" and "volcano" in api):
        found.queues.append(read_queue(item))
    elif kind == "ResourceFlavor":
        found.flavors.append(name_of(item))
    else:
        found.others[kind] = found.others.get(kind, 0) + 1
