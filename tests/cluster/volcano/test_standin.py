"""The stand-in beside the run's own control plane: it sees one space's nodes, and outlives an API server."""

from __future__ import annotations

import secrets

import pytest
from tests.cluster.client import Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.volcano.standin import standin_beside
from tests.contract.volcano_bodies import a_job

JOBS = "batch.volcano.sh/v1alpha1/jobs"


def run_gang(space: Space, name: str) -> list[str]:
    space.client.create(JOBS, a_job(name, space.namespace, replicas=3))
    return space.wait_running(name, 3)


def status(space: Space, name: str) -> Json:
    return space.client.get(JOBS, name, space.namespace).get("status") or {}


def test_a_gang_is_placed_on_the_nodes_of_its_space_alone(plane: Plane, space: Space) -> None:
    other = Space(plane.client, prefix="other", has_kueue=False)
    try:
        other.add_racks(racks=1, nodes_per_rack=4)
        space.add_racks(racks=1, nodes_per_rack=4)
        with standin_beside(plane, pool=space.namespace):
            seats = run_gang(space, "g")
            assert len(set(seats)) == 3
            assert set(seats) < set(space.nodes)
            space.client.delete(JOBS, "g", space.namespace, propagation="Background")
    finally:
        other.remove()


@pytest.mark.long
def test_the_stand_in_goes_on_when_the_api_server_comes_back(plane: Plane, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=4)
    with standin_beside(plane, pool=space.namespace) as volcano:
        name = f"g-{secrets.token_hex(2)}"
        run_gang(space, name)
        plane.kill("kube-apiserver")
        plane.start("kube-apiserver")
        pod = wait_for(lambda: space.pods(name), "pods can be listed again")[0]
        space.client.evict(pod["metadata"]["name"], space.namespace, uid=pod["metadata"]["uid"])
        wait_for(
            lambda: all(one["metadata"]["uid"] != pod["metadata"]["uid"] for one in space.pods(name)), "it is gone"
        )
        space.wait_running(name, 3)
        wait_for(lambda: (status(space, name).get("state") or {}).get("phase") == "Running", "the job runs")
        assert not status(space, name).get("retryCount")
        volcano.kill("controller")
        space.client.delete(JOBS, name, space.namespace, propagation="Background")
        wait_for(lambda: not space.pods(name), "the gang is gone")
