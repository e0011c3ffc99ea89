"""Owners, neighbours and people against the whole daemon in mode act: what it leaves alone, and how it says so.

One hall for all: on each node another reason to stand back, and on one node none, so that the daemon is seen to act.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from tests.cluster import owed
from tests.cluster.audit import Audit, assert_allowed
from tests.cluster.client import Json, wait_for
from tests.cluster.hook import Hook
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed as _installed
from tests.cluster.whole import Whole, act
from tests.system.processes import eventually

from trimtab.clock import SystemClock, iso

installed = _installed

OPT_OUTS = {
    "own": ("job", "trimtab/do-not-move", "true"),
    "karpenter": ("pod", "karpenter.sh/do-not-disrupt", "true"),
    "autoscaler": ("pod", "cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    "descheduler": ("pod", "descheduler.alpha.kubernetes.io/prefer-no-eviction", "true"),
}
NEIGHBOURS = {
    "sentinel": "NVSentinel (remediating) is at work on",
    "disrupted": "Karpenter (taint karpenter.sh/disrupted) is at work on",
    "upgrade": "the GPU Operator's driver upgrade (drain-required) is at work on",
}
ASKED: dict[str, Json] = {"asked-yes": {"answer": "yes"}, "asked-no": {"answer": "no", "said": "release week"}}
SILENT = "asked-silent"
FREE_NODES = 6


@dataclass
class Scene:
    """The hall and where its jobs were before anything broke."""

    whole: Whole
    hook: Hook
    audit: Audit
    nodes: dict[str, str]
    """Job -> its node."""
    uids: dict[str, str]

    def has_stayed(self, job: str) -> bool:
        """Whether its pod is the same as before."""
        return [one["metadata"]["uid"] for one in self.whole.space.pods(job)] == [self.uids[job]]

    def node(self, job: str) -> Json:
        return self.whole.space.client.get("nodes", self.nodes[job])

    def wait_moved(self, job: str) -> str:
        """Until it runs elsewhere; where."""

        def moved() -> str | None:
            seats = self.whole.space.seats(job)
            return seats[0] if seats and seats[0] != self.nodes[job] else None

        return eventually(moved, seconds=90.0, said=self.whole.told)


def _jobs(space: Space) -> list[str]:
    """All the jobs of the hall, each alone on a node but for the pair."""
    later = iso(SystemClock().now().replace(microsecond=0) + timedelta(hours=1))
    nodes = space.add_racks(racks=1, nodes_per_rack=len(OPT_OUTS) + len(NEIGHBOURS) + 6 + FREE_NODES)
    _pair(space, nodes, later)
    names = ["ordinary", "persons", *NEIGHBOURS, *ASKED, SILENT]
    for name, (where, key, value) in OPT_OUTS.items():
        marks = {"annotations" if where == "job" else "pod_annotations": {key: value}}
        space.gang(name, queue=None, pods=1, gpus=8, **marks)
    for name in names:
        marks = {"annotations": {"trimtab/ask-first": "true"}} if name.startswith("asked") else {}
        space.gang(name, queue=None, pods=1, gpus=8, **marks)
    return ["pair-hit", "pair-later", *OPT_OUTS, *names]


def _pair(space: Space, nodes: list[str], later: str) -> None:
    """Two jobs on one node: the first has GPU 3, the second could go on and asks for no move within the hour."""
    space.cordon(*nodes[1:])
    space.gang("pair-hit", queue=None, pods=1, gpus=4)
    space.wait_running("pair-hit", 1)
    space.gang("pair-later", queue=None, pods=1, gpus=4, annotations={"trimtab/not-before": later})
    space.wait_running("pair-later", 1)
    space.uncordon(*nodes[1:])


@pytest.fixture(scope="module")
def scene(installed: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    space = Space(installed.client, prefix="own")
    hook = Hook(ASKED)
    kubernetes = f'ask_url = "{hook.url}"\nask_seconds_max = 5'
    audit = Audit(installed)
    whole = Whole(installed, space, tmp_path_factory.mktemp("owners"), settings=act(), kubernetes=kubernetes)
    try:
        jobs = _jobs(space)
        nodes = {name: space.wait_running(name, 1)[0] for name in jobs}
        uids = {name: space.pods(name)[0]["metadata"]["uid"] for name in jobs}
        client = space.client
        client.patch("nodes", nodes["sentinel"], _labels("dgxc.nvidia.com/nvsentinel-state", "remediating"))
        client.patch("nodes", nodes["upgrade"], _labels("nvidia.com/gpu-driver-upgrade-state", "drain-required"))
        taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
        client.patch("nodes", nodes["disrupted"], {"spec": {"taints": [taint]}})
        space.cordon(nodes["persons"])
        whole.up()
        for name in jobs:
            if name not in ("pair-later",):
                whole.reporter.break_gpu(nodes[name])
        yield Scene(whole=whole, hook=hook, audit=audit, nodes=nodes, uids=uids)
    finally:
        whole.close()
        hook.stop()
        space.remove()


def _labels(key: str, value: str) -> Json:
    return {"metadata": {"labels": {key: value}}}


def test_where_nothing_stands_against_it_the_job_is_moved(scene: Scene) -> None:
    assert scene.wait_moved("ordinary")
    assert scene.nodes["ordinary"] in owed.cordoned_by_us(scene.whole.space)


@pytest.mark.parametrize("job", OPT_OUTS)
def test_an_opt_out_is_kept_and_named(scene: Scene, job: str) -> None:
    where, key, _ = OPT_OUTS[job]
    said = scene.whole.refused(f"the owner of {job} does not want it moved", key)
    assert where in said
    # The bad node takes nothing new all the same, and what runs on it runs on.
    wait_for(lambda: scene.node(job)["spec"].get("unschedulable"), f"the node of {job} is cordoned")
    scene.wait_moved("ordinary")
    assert scene.has_stayed(job)


def test_not_before_is_kept_while_the_work_goes_on(scene: Scene) -> None:
    assert "asked for no move before" in scene.whole.refused("the owner of pair-later")
    scene.wait_moved("pair-hit")
    assert scene.has_stayed("pair-later")


@pytest.mark.parametrize("job", NEIGHBOURS)
def test_where_another_is_at_work_we_stand_back(scene: Scene, job: str) -> None:
    scene.whole.refused(NEIGHBOURS[job], scene.nodes[job])
    scene.wait_moved("ordinary")
    assert scene.has_stayed(job)
    assert "unschedulable" not in scene.node(job)["spec"]
    assert owed.holds(scene.node(job)) == []


def test_an_owners_yes_is_a_yes(scene: Scene) -> None:
    scene.wait_moved("asked-yes")
    assert any(one["workload"].endswith("/asked-yes") for one in scene.hook.asked)


@pytest.mark.parametrize(("job", "said"), [("asked-no", "release week"), (SILENT, "no answer by")])
def test_an_owners_no_and_an_owners_silence_are_a_no(scene: Scene, job: str, said: str) -> None:
    def ended() -> str | None:
        rows = scene.whole.daemon.board().commands
        found = [one.command for one in rows if one.command.recommendation.purpose == f"evacuate:{scene.nodes[job]}"]
        return next((one.reason for one in found if one.state == "rejected"), None)

    reason = eventually(ended, seconds=60.0, said=scene.whole.told)
    assert f"The owner of {job} said no" in reason
    assert said in reason
    assert scene.has_stayed(job)
    assert owed.holds(scene.node(job)) == []
    assert any(one["workload"].endswith(f"/{job}") for one in scene.hook.asked)


def test_a_persons_cordon_stays_theirs(scene: Scene) -> None:
    scene.wait_moved("persons")
    node = scene.node("persons")
    assert node["spec"]["unschedulable"]
    assert not any("cordon" in hold.get("what", ()) for hold in owed.holds(node))


def test_given_back_all_that_is_a_persons_and_a_neighbours_is_as_it_was(scene: Scene) -> None:
    """Last: it gives everything back by the verb, and the daemon stays paused."""
    scene.wait_moved("ordinary")
    code, out, err = scene.whole.verb("release", "--all", "--reason", "the end of the day", "--wait")
    assert (code, err) == (0, ""), out
    assert owed.left_of_ours(scene.whole.space) == []
    assert owed.stopped(scene.whole.space) == []
    assert scene.node("persons")["spec"]["unschedulable"], "a person's cordon is not ours to lift"
    assert any(taint["key"] == "karpenter.sh/disrupted" for taint in scene.node("disrupted")["spec"]["taints"])
    assert scene.whole.daemon.board().is_paused, "until a person resumes"
    assert_allowed(scene.audit.writes())
