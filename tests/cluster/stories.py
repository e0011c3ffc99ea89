"""Stories a to d on the whole: told step by step by `make cluster-demo`, held to their bars by test_whole.py."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta

from tests.cluster import objects
from tests.cluster.client import wait_for
from tests.cluster.space import Space
from tests.cluster.volcano.standin import Standin
from tests.cluster.volcano.webhook_server import WebhookServer
from tests.cluster.whole import Whole
from tests.schedulers.volcano_hall import EVICTED_RESTARTS, HARD, vcjob

from trimtab.clock import SystemClock, iso
from trimtab.model.board import CommandRow

Say = Callable[[str], None]
ONE_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}
DECLARED = {"trimtab/replaceable-pods": "true"}
VCJOBS = "batch.volcano.sh/v1alpha1/jobs"
SMALL_JOBS_SECONDS = 1.5


def carried_out(whole: Whole, purpose: str, say: Say) -> CommandRow:
    """The recommendation, approved by a person, until it has settled; told on the way."""
    row = whole.command(purpose)
    advice = row.command.recommendation
    say(f"advice {row.command.name}: {advice.sentence}")
    say(f"  because {advice.reason}")
    say(f"  gain {advice.gain.gpu_hours:.1f} GPU-h, cost {advice.cost.gpu_hours:.2f} GPU-h; {advice.way}")
    for line in advice.steps:
        say(f"  $ {line}")
    whole.approve(row)
    say("approved")
    settled = whole.until(row.command.id, "settled", "missed", "abandoned", "refused")
    say(f"{settled.command.name} {settled.command.state}: {settled.command.reason}")
    return settled


def places(space: Space, name: str) -> dict[str, str]:
    """Pod uid -> node."""
    return {one["metadata"]["uid"]: one["spec"].get("nodeName", "") for one in space.pods(name)}


def story_a(whole: Whole, say: Say) -> None:
    """XID 79 under a gang that declares that it can lose a pod: one pod is replaced in its rack."""
    space = whole.space
    space.add_racks(racks=2, nodes_per_rack=5)
    space.run_gang("train", pods=4, gpus=8, topology=ONE_RACK, can_replace_pods=True, annotations=DECLARED)
    before = places(space, "train")
    bad = sorted(before.values())[0]
    whole.up()
    say(f"train runs on 4 nodes of one rack; GPU 3 of {bad} falls off the bus (XID 79)")
    whole.reporter.break_gpu(bad)
    settled = carried_out(whole, f"evacuate:{bad}", say)
    assert settled.command.state.value == "settled"
    after = places(space, "train")
    kept = {uid for uid, node in before.items() if node != bad}
    assert kept < set(after), "the other three pods were never deleted"
    assert bad not in after.values()
    assert len({space.rack_of(node) for node in after.values()}) == 1, "one rack"
    say(f"train runs again, 3 pods untouched, one on {next(iter(set(after.values()) - set(before.values())))}")


def story_b(whole: Whole, say: Say) -> None:
    """A gang that cannot lose one pod: its checkpoint is awaited, then it is stopped and started whole."""
    space = whole.space
    space.add_racks(racks=2, nodes_per_rack=5)
    # Its last checkpoint and how often it writes one: the next is due in 90 s.
    saved_at = SystemClock().now().replace(microsecond=0) - timedelta(seconds=210)
    said = {"trimtab/last-checkpoint-time": iso(saved_at), "trimtab/checkpoint-interval-seconds": "300"}
    space.run_gang("train", pods=4, gpus=8, topology=ONE_RACK, annotations=said)
    bad = sorted(places(space, "train").values())[0]
    whole.up()
    say(f"train runs on 4 nodes of one rack, slower and slower: {bad} throttles on heat")
    whole.reporter.overheat(bad)
    row = whole.command(f"relocate:{bad}", seconds=90)
    assert row.command.recommendation.not_before is not None, "it waits for the checkpoint"
    settled = carried_out(whole, f"relocate:{bad}", say)
    assert settled.command.state.value == "settled"
    assert settled.command.submitted_at is not None
    assert settled.command.submitted_at >= saved_at + timedelta(seconds=300), "stopped after its checkpoint was due"
    assert bad not in space.wait_running("train", 4)
    inactive = [one for one in space.client.list("workloads", space.namespace) if one["spec"].get("active") is False]
    assert inactive == [], "no job left inactive"
    say(f"train runs again off {bad}; nothing is left stopped")


def fill(space: Space, nodes: list[str], *, queue: str = "tas") -> None:
    """A job of one GPU and one of two on every node; five are left on each."""
    for index, node in enumerate(nodes):
        space.cordon(*(other for other in nodes if other != node))
        for name, gpus in ((f"v{index}a", 1), (f"v{index}b", 2)):
            space.run_gang(name, pods=1, gpus=gpus, queue=queue)
        space.uncordon(*nodes)


def story_c(whole: Whole, say: Say, *, has_stream: bool = False, queue: str = "tas") -> CommandRow:
    """Six nodes with 1- and 2-GPU jobs, one job that waits for 8 together: a node is emptied for it."""
    space = whole.space
    nodes = space.add_racks(racks=1, nodes_per_rack=6)
    whole.up()
    fill(space, nodes, queue=queue)
    space.gang("big", pods=1, gpus=8, queue=queue)
    say("30 GPUs are free on 6 nodes, 5 on each; big waits for 8 on one")
    with small_jobs(space, queue) if has_stream else contextlib.nullcontext():
        settled = carried_out(whole, f"make-room:{space.namespace}/job/big", say)
        space.wait_running("big", 1)
    say(f"big runs on {space.seats('big')[0]}")
    outcome = settled.outcome
    if outcome is not None:
        say(f"  seats as planned: {outcome.seats_hit} of {outcome.seats_planned}")
        say(f"  cost {outcome.gpu_hours_lost:.2f} GPU-h, forecast {outcome.gpu_hours_lost_forecast or 0:.2f}")
        say(f"  gain {outcome.gpu_hours_saved:.2f} GPU-h, forecast {outcome.gpu_hours_saved_forecast or 0:.2f}")
    return settled


@contextlib.contextmanager
def small_jobs(space: Space, queue: str) -> Iterator[None]:
    """Jobs of one GPU that keep arriving, and stay."""
    import threading

    ended = threading.Event()

    def arrive() -> None:
        number = 0
        while not ended.wait(SMALL_JOBS_SECONDS):
            space.gang(f"small{number}", pods=1, gpus=1, queue=queue)
            number += 1

    thread = threading.Thread(target=arrive, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def volcano(whole: Whole) -> Iterator[Standin]:
    """Volcano's stand-in on the whole's plane, with racks as HyperNodes; its kinds must be installed."""
    client = whole.plane.client
    standin = Standin(client)
    webhook = WebhookServer(client, standin.api, certificates=whole.plane.certificates)
    standin.start()
    try:
        yield standin
    finally:
        webhook.stop()
        standin.stop()


def hyper_nodes(space: Space) -> None:
    """One HyperNode of tier 1 a rack."""
    racks: dict[str, list[str]] = {}
    for node in space.nodes:
        racks.setdefault(space.rack_of(node), []).append(node)
    for rack, members in racks.items():
        body = {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": rack},
            "spec": {
                "tier": 1,
                "members": [{"type": "Node", "selector": {"exactMatch": {"name": one}}} for one in members],
            },
        }
        space.add("topology.volcano.sh/v1alpha1/hypernodes", body)


def story_d(whole: Whole, say: Say, *, restarts: bool) -> None:
    """A Volcano gang under a hard topology, with and without PodEvicted -> RestartJob."""
    space, client = whole.space, whole.plane.client
    space.add_racks(racks=2, nodes_per_rack=5)
    hyper_nodes(space)
    policies = (EVICTED_RESTARTS,) if restarts else ()
    with volcano(whole):
        body = vcjob("train", policies=policies, networkTopology=HARD)
        body["metadata"]["namespace"] = space.namespace
        if not restarts:
            body["metadata"]["annotations"] = DECLARED
        client.create(VCJOBS, body)
        wait_for(lambda: len(_running(space)) == 4, "the gang runs", deadline_seconds=90)
        before = _running(space)
        bad = sorted(before.values())[0]
        whole.up()
        how = "PodEvicted restarts it whole" if restarts else "no policy: one pod may go"
        say(f"train (Volcano, {how}) runs on 4 nodes of one rack; GPU 3 of {bad} falls off the bus")
        whole.reporter.break_gpu(bad)
        settled = carried_out(whole, f"evacuate:{bad}", say)
        assert settled.command.state.value == "settled"
        after = wait_for(lambda: _running(space) if len(_running(space)) == 4 else None, "the gang runs again")
        job = client.get(VCJOBS, "train", space.namespace)
        retries = int(job["status"].get("retryCount", 0))
        assert bad not in after.values()
        assert len({space.rack_of(node) for node in after.values()}) == 1, "its rack's HyperNode is kept"
        assert retries + 1 < job["spec"]["maxRetry"], "never past its retry room"
        where = ", ".join(sorted(after.values()))
        say(f"train runs again on {where}; retryCount {retries} of {job['spec']['maxRetry']}")
        client.delete(VCJOBS, "train", space.namespace)
        wait_for(lambda: not space.pods(), "its pods gone")


def _running(space: Space) -> dict[str, str]:
    return {
        one["metadata"]["name"]: one["spec"]["nodeName"]
        for one in space.pods()
        if one["status"].get("phase") == "Running" and not one["metadata"].get("deletionTimestamp")
    }
