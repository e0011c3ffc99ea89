"""Jobs and their scheduler: gangs, checkpoints, hangs, queues, quotas, and the scene that the demo starts from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.sim.worlds import a_cluster, a_spec, cordon, doubly_held, forward, running, the_demo

from trimtab.errors import SchedulerRefused, SettingsError
from trimtab.model.cluster import WorkloadState
from trimtab.sim.cluster import HANG_SECONDS_MAX
from trimtab.sim.faults import Fault, inject
from trimtab.sim.scenario import check_nodes
from trimtab.sim.writes import WriteDesk


def fall(cluster, node="gpu-00", gpu=3):
    inject(cluster, Fault(kind="gpu_falls_off", node=node, gpus=(gpu,)))


def test_a_gang_goes_at_the_pace_of_its_slowest_gpu_and_the_others_wait_for_it():
    cluster = a_cluster()
    gang = running(cluster, a_spec("gang", pods=2, gpus_per_pod=8, power_ratio=0.93), "gpu-00", "gpu-01")
    inject(cluster, Fault(kind="fan_failure", node="gpu-00"))
    forward(cluster, 600)
    shown = cluster.telemetry
    slow, waiting = gang.columns[0], gang.columns[8]
    assert 0.5 <= gang.pace_ratio <= 0.7
    assert shown.sm_clock_mhz[slow] < 0.75 * shown.sm_clock_mhz[waiting]
    assert shown.sm_active[waiting] < 0.75 * shown.sm_active[slow]
    assert shown.utilization_percent[waiting] >= 95
    assert shown.power_milliwatts[waiting] < 600_000


def test_a_gang_with_a_lost_gpu_stands_still_and_its_other_gpus_spin():
    cluster = a_cluster()
    gang = running(cluster, a_spec("gang", pods=2, gpus_per_pod=8), "gpu-00", "gpu-01")
    fall(cluster)
    forward(cluster, 120)
    shown = cluster.telemetry
    before = gang.done_seconds
    forward(cluster, 60)
    assert (gang.state, gang.pace_ratio, gang.done_seconds) == (WorkloadState.RUNNING, 0.0, before)
    for column in gang.columns[8:]:
        assert shown.utilization_percent[column] >= 95
        assert shown.power_milliwatts[column] < 160_000
        assert shown.tensor_active[column] == 0.0


def test_a_hang_is_ended_by_its_watchdog_and_costs_what_was_not_saved():
    cluster = a_cluster()
    gang = running(cluster, a_spec("gang", pods=2, gpus_per_pod=8), "gpu-00", "gpu-01", unsaved_ratio=0.5)
    saved = gang.saved_seconds
    fall(cluster)
    forward(cluster, HANG_SECONDS_MAX + 20)
    assert gang.state is WorkloadState.STARTING
    assert {seat.node for seat in gang.placements} <= {"gpu-01", "gpu-02", "gpu-03"}
    assert gang.done_seconds == saved
    assert gang.lost_gpu_seconds == pytest.approx(150 * 16)


def test_a_job_is_saved_every_interval_and_not_while_it_stands_still():
    cluster = a_cluster()
    job = running(cluster, a_spec(gpus_per_pod=8, checkpoint_seconds=100.0), "gpu-00")
    start = cluster.now
    forward(cluster, 250)
    assert (job.saved_at - start).total_seconds() == 200
    assert job.done_seconds - job.saved_seconds == pytest.approx(50, abs=2)
    fall(cluster)
    forward(cluster, 400)
    assert (job.saved_at - start).total_seconds() == 200


def test_the_scheduler_marks_a_lost_gpu_unusable_after_a_while():
    cluster = a_cluster()
    fall(cluster)
    forward(cluster, 4)
    assert cluster.snapshot().nodes[0].gpus[3].is_usable
    forward(cluster, 30)
    assert [gpu.index for gpu in cluster.snapshot().nodes[0].gpus if not gpu.is_usable] == [3]
    assert len(cluster.snapshot().free_gpus["gpu-00"]) == 7


def test_a_waiting_job_starts_when_there_is_room_and_loads_before_it_works():
    cluster = a_cluster(nodes=1)
    first = running(cluster, a_spec("first", gpus_per_pod=8, duration_seconds=50.0), "gpu-00")
    first.done_seconds = 0.0
    second = cluster.submit(a_spec("second", gpus_per_pod=8, restart_seconds=60.0))
    forward(cluster, 20)
    assert (second.state, second.waiting_reason) == (WorkloadState.WAITING, "capacity")
    forward(cluster, 40)
    assert (first.state, second.state) == (WorkloadState.FINISHED, WorkloadState.STARTING)
    forward(cluster, 70)
    assert second.state is WorkloadState.RUNNING


def test_a_gang_starts_whole_or_not_at_all():
    cluster = a_cluster(nodes=3)
    running(cluster, a_spec("one", gpus_per_pod=1), "gpu-00")
    gang = cluster.submit(a_spec("gang", pods=3, gpus_per_pod=8))
    forward(cluster, 20)
    assert (gang.state, gang.placements, gang.waiting_reason) == (WorkloadState.WAITING, (), "capacity")


def test_a_job_over_its_queues_quota_says_so_and_lets_others_pass():
    cluster = a_cluster(nodes=2)
    cluster.quotas["research"] = 4
    over = cluster.submit(a_spec("over", gpus_per_pod=8))
    other = cluster.submit(replace(a_spec("other", gpus_per_pod=4), queue="product"))
    forward(cluster, 4)
    assert (over.state, over.waiting_reason) == (WorkloadState.WAITING, "quota")
    assert other.state is WorkloadState.STARTING


def test_nothing_starts_by_itself_on_a_spare_or_a_cordoned_node():
    cluster = a_cluster(nodes=2, spares=1)
    WriteDesk(cluster).write("person:mei", cordon("gpu-00"))
    job = cluster.submit(a_spec())
    forward(cluster, 20)
    assert (job.state, job.waiting_reason) == (WorkloadState.WAITING, "capacity")


def test_jobs_that_end_are_followed_by_others_of_their_kind():
    cluster = a_cluster(nodes=1)
    job = running(cluster, a_spec("sweep-16", gpus_per_pod=1, duration_seconds=50.0), "gpu-00")
    job.done_seconds = 0.0
    forward(cluster, 130)
    assert list(cluster.jobs) == ["research/sweep-16", "research/sweep-17"]
    assert job.state is WorkloadState.FINISHED
    assert cluster.jobs["research/sweep-17"].holds_gpus


@pytest.mark.parametrize("nodes", [8, 9, 10, 12, 15, 16, 17, 20, 24, 40])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_scene_has_room_for_eight_gpus_and_never_together(nodes, seed):
    cluster, cast = the_demo(nodes=nodes, seed=seed)
    waiting = cluster.submit(cast.waiting)
    forward(cluster, 60)
    snapshot = cluster.snapshot()
    spares = {node.name for node in snapshot.nodes if node.is_spare}
    free = {node: len(gpus) for node, gpus in snapshot.free_gpus.items() if node not in spares}
    assert all(len(snapshot.free_gpus[node]) == 8 for node in spares)
    assert sum(free.values()) >= 12
    assert max(free.values()) == 4
    assert (waiting.state, waiting.waiting_reason) == (WorkloadState.WAITING, "placement")
    assert doubly_held(cluster) == []
    slow = snapshot.workload_by_id[f"research/{cast.slow_gang}"]
    assert cast.slow_gang_node in slow.nodes
    assert cast.big_gang_node in snapshot.workload_by_id[f"research/{cast.big_gang}"].nodes


def test_in_the_scene_the_service_beside_the_slow_rank_stays_cool():
    cluster, cast = the_demo()
    inject(cluster, Fault(kind="fan_failure", node=cast.slow_gang_node))
    forward(cluster, 600)
    node = cluster.nodes[cast.slow_gang_node]
    hot = [gpu.index for gpu in node.gpus if cluster.telemetry.clock_event_bits[gpu.column] & 0x40]
    assert tuple(hot) == cast.slow_gang_gpus


def test_too_few_nodes_and_unknown_faults_are_refused_with_a_sentence():
    with pytest.raises(SettingsError, match="at least 8 nodes"):
        check_nodes(7)
    for fault, sentence in (
        (Fault(kind="gpu_falls_off", node="gpu-99"), "no node 'gpu-99'"),
        (Fault(kind="gpu_falls_off", node="gpu-00", gpus=(8,)), "GPUs 0 to 7"),
        (Fault(kind="meteor", node="gpu-00"), "Unknown fault 'meteor'"),
    ):
        with pytest.raises(SchedulerRefused, match=sentence):
            inject(a_cluster(), fault)
