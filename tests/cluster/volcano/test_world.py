"""The stand-in in memory as a tool: stepped by hand, its parts stopped, its state saved and gone back to."""

from __future__ import annotations

from tests.cluster.volcano.api import JOB, POD, POD_GROUP
from tests.cluster.volcano.controller import Controller
from tests.cluster.volcano.in_memory import InMemoryApi
from tests.cluster.volcano.objects import phase_of
from tests.cluster.volcano.scheduler import Scheduler
from tests.cluster.volcano.world import World, node
from tests.contract.volcano_bodies import a_job
from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube


def phases(world: World) -> list[str]:
    return [phase_of(pod) for pod in world.kube.all("pods")]


def a_running_gang() -> World:
    world = World()
    world.add_nodes()
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    world.store().create(JOB, a_job("j", "t", policies=policies))
    world.advance(5)
    assert phases(world) == ["Running"] * 4
    return world


def test_the_parts_do_nothing_until_they_are_stepped() -> None:
    clock = FakeClock()
    kube = FakeKube(clock=clock)
    for name in ("n1", "n2", "n3", "n4"):
        kube.add(node(name, rack="r1", gpus=8))
    api = InMemoryApi(kube)
    controller, scheduler = Controller(api, clock), Scheduler(api, clock)
    api.call("POST", JOB.path("t"), a_job("j", "t"))
    assert not kube.all("podgroups.scheduling.volcano.sh")
    while controller.step():
        pass
    assert [phase_of(group) for group in kube.all("podgroups.scheduling.volcano.sh")] == [""]
    scheduler.step()
    assert [phase_of(group) for group in kube.all("podgroups.scheduling.volcano.sh")] == ["Inqueue"]
    assert not kube.all("pods")
    while controller.step():
        pass
    assert len(kube.all("pods")) == 4


def test_a_state_can_be_gone_back_to_and_goes_on_in_the_same_way() -> None:
    world = a_running_gang()
    saved = world.save()
    ends = []
    for _ in range(2):
        world.restore(saved)
        world.api.call("POST", POD.path("t", "j-worker-1", "eviction"), {"metadata": {"name": "j-worker-1"}})
        world.advance(8)
        status = world.store().get(JOB, "t", "j")["status"]  # type: ignore[index]
        assert (status["state"]["phase"], status["retryCount"]) == ("Running", 1)
        ends.append(world.kube.state_key())
    assert ends[0] == ends[1]


def test_a_stopped_controller_leaves_an_evicted_pod_unreplaced_until_it_is_started() -> None:
    world = a_running_gang()
    world.stop("controller")
    world.api.call("POST", POD.path("t", "j-worker-1", "eviction"), {"metadata": {"name": "j-worker-1"}})
    world.advance(10)
    assert phases(world) == ["Running"] * 3
    world.start("controller")
    world.advance(5)
    assert phases(world) == ["Running"] * 4


def test_what_is_deleted_takes_along_what_it_owns() -> None:
    world = a_running_gang()
    world.api.call("DELETE", JOB.path("t", "j"))
    world.advance(5)
    assert not world.kube.all("pods")
    assert not world.store().api.call("GET", POD_GROUP.path("t")).body["items"]
