"""What a daemon may not leave behind, looked at from outside: by its marks on the cluster's own objects."""

from __future__ import annotations

import json

from tests.cluster.client import ApiError, Client, Json
from tests.cluster.space import Space

HOLD = "trimtab/hold"
BEARERS = ("pods", "jobs", "deployments", "statefulsets", "jobsets", "workloads", "localqueues")


def left_of_ours(space: Space, *, but_lasting: bool = False) -> list[str]:
    """Everything in a space that bears a mark, a taint or a seat of ours; what is to last may be left out."""
    client, found = space.client, []
    for node in client.list("nodes"):
        if node["metadata"]["name"] in space.nodes:
            found += _of_node(node, but_lasting=but_lasting)
    for resource in BEARERS:
        found += [f"{resource}/{one['metadata']['name']}: {one['metadata']['annotations'][HOLD]}"
                  for one in _listed(client, resource, space.namespace)
                  if HOLD in one["metadata"].get("annotations", {})]  # fmt: skip
    for queue in client.list("clusterqueues"):
        if queue["metadata"]["name"].startswith(space.namespace):
            found += [f"{queue['metadata']['name']}: {key}" for key in queue["metadata"].get("annotations", {})
                      if key.startswith("trimtab/")]  # fmt: skip
    return found


def stopped(space: Space) -> list[str]:
    """Jobs that are suspended and Workloads that are inactive, whoever did it."""
    workloads = _listed(space.client, "workloads", space.namespace)
    found = [f"{one['metadata']['name']} is inactive" for one in workloads if one["spec"].get("active") is False]
    queued = {owner["name"] for one in workloads for owner in one["metadata"].get("ownerReferences", [])}
    for one in space.client.list("jobs", space.namespace):
        # A Job of Kueue's is suspended while it waits; that is no one's stop.
        if one["spec"].get("suspend") and one["metadata"]["name"] not in queued:
            found.append(f"{one['metadata']['name']} is suspended")
    return found


def cordoned_by_us(space: Space) -> list[str]:
    """Nodes of the space that bear a cordon of ours."""
    nodes = [one for one in space.client.list("nodes") if one["metadata"]["name"] in space.nodes]
    return [
        one["metadata"]["name"]
        for one in nodes
        if one["spec"].get("unschedulable") and any("cordon" in hold.get("what", ()) for hold in holds(one))
    ]


def holds(item: Json) -> list[Json]:
    """What our annotation on an object says."""
    found: list[Json] = json.loads(item["metadata"].get("annotations", {}).get(HOLD, "[]"))
    return found


def _of_node(node: Json, *, but_lasting: bool) -> list[str]:
    name, metadata = node["metadata"]["name"], node["metadata"]
    found = [
        f"{name}: {hold['mark']} {hold.get('what', [])}"
        for hold in holds(node)
        if not (but_lasting and hold.get("lasts"))
    ]
    found += [
        f"{name}: taint {one['key']}" for one in node["spec"].get("taints", []) if one["key"].startswith("trimtab")
    ]
    return found + [f"{name}: label {key}" for key in metadata.get("labels", {}) if key.startswith("trimtab/")]


def _listed(client: Client, resource: str, namespace: str) -> list[Json]:
    try:
        return client.list(resource, namespace)
    except ApiError as error:
        if error.status == 404:
            return []
        raise
