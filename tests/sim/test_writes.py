"""What trimtab may write: once per mark, with a sentence when refused, and all of it can be given back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.worlds import a_cluster, a_spec, cordon, doubly_held, forward, reserve, resume, running, seats, suspend

from trimtab.errors import SchedulerRefused
from trimtab.model.cluster import Reservation, WorkloadState
from trimtab.model.command import Verb, Write
from trimtab.sim.faults import Fault, inject
from trimtab.sim.writes import WriteDesk

MARK = "trimtab:R11"


def test_a_job_is_moved_to_the_seats_that_were_given_and_goes_on_from_its_checkpoint():
    cluster = a_cluster(spares=1)
    job = running(cluster, a_spec(), "gpu-00", unsaved_ratio=0.5)
    saved, desk = job.saved_seconds, WriteDesk(cluster)
    for write in (cordon("gpu-00", lasts=True), reserve(job, "gpu-03"), suspend(job), resume(job, "gpu-03")):
        desk.write(MARK, write)
    assert (job.state, job.suspended_by) == (WorkloadState.STOPPING, MARK)
    forward(cluster, 14)
    assert (job.state, job.placements[0].node) == (WorkloadState.STARTING, "gpu-03")
    assert (job.suspended_by, job.done_seconds, job.restarts) == (None, saved, 1)
    assert cluster.reservations == []
    forward(cluster, 70)
    assert job.state is WorkloadState.RUNNING
    desk.release(MARK, keep_lasting=True)
    assert desk.marks_held() == {MARK: ["cordon of gpu-00 (lasting)"]}
    desk.release(MARK, keep_lasting=False)
    assert desk.marks_held() == {}
    assert not cluster.nodes["gpu-00"].is_cordoned


def test_the_same_write_under_the_same_mark_is_done_once():
    cluster = a_cluster()
    job = running(cluster, a_spec(), "gpu-00")
    desk = WriteDesk(cluster)
    for _ in range(3):
        desk.write(MARK, reserve(job, "gpu-01"))
        desk.write(MARK, suspend(job))
        desk.write(MARK, resume(job, "gpu-01"))
    assert cluster.reservations == [Reservation(node="gpu-01", gpus=4, workload=job.id, command=MARK)]
    assert dict(desk.writes_total) == {"reserve": 1, "suspend": 1, "resume": 1}
    forward(cluster, 100)
    desk.write(MARK, suspend(job))
    assert job.state is WorkloadState.RUNNING


def test_what_was_given_back_can_be_written_again():
    cluster, mark = a_cluster(), MARK
    desk = WriteDesk(cluster)
    desk.write(mark, cordon("gpu-00"))
    desk.release(mark, keep_lasting=False)
    desk.write(mark, cordon("gpu-00"))
    assert cluster.nodes["gpu-00"].cordoned_by == mark


def test_given_back_in_the_middle_a_stopped_job_runs_again():
    cluster = a_cluster()
    job = running(cluster, a_spec(), "gpu-00")
    desk = WriteDesk(cluster)
    desk.write(MARK, reserve(job, "gpu-01"))
    desk.write(MARK, suspend(job))
    forward(cluster, 30)
    assert (job.state, job.suspended_by) == (WorkloadState.SUSPENDED, MARK)
    desk.release(MARK, keep_lasting=False)
    desk.release(MARK, keep_lasting=False)
    forward(cluster, 80)
    assert (job.state, job.suspended_by) == (WorkloadState.RUNNING, None)
    assert desk.marks_held() == {}


def test_given_back_while_it_still_stops_a_job_runs_again():
    cluster = a_cluster()
    job = running(cluster, a_spec(), "gpu-00")
    desk = WriteDesk(cluster)
    desk.write(MARK, suspend(job))
    desk.write(MARK, resume(job, "gpu-01"))
    desk.release(MARK, keep_lasting=False)
    forward(cluster, 100)
    assert job.state is WorkloadState.RUNNING


def test_a_job_whose_given_seats_were_taken_back_does_not_wait_for_them():
    cluster = a_cluster(nodes=3)
    job = running(cluster, a_spec(gpus_per_pod=8), "gpu-00")
    desk = WriteDesk(cluster)
    desk.write(MARK, suspend(job))
    desk.write(MARK, resume(job, "gpu-01"))
    cluster.nodes["gpu-01"].is_cordoned = True
    forward(cluster, 40)
    assert job.state is WorkloadState.WAITING
    desk.release(MARK, keep_lasting=False)
    forward(cluster, 80)
    assert job.state is WorkloadState.RUNNING


def test_somebody_elses_cordon_stays_theirs():
    cluster = a_cluster()
    desk = WriteDesk(cluster)
    desk.write("person:mei", cordon("gpu-00"))
    desk.write(MARK, cordon("gpu-00", lasts=True))
    desk.release(MARK, keep_lasting=False)
    assert cluster.nodes["gpu-00"].cordoned_by == "person:mei"
    desk.write(MARK, Write(verb=Verb.UNCORDON, node="gpu-00"))
    assert not cluster.nodes["gpu-00"].is_cordoned


def test_reserved_room_is_not_given_to_others():
    cluster = a_cluster(nodes=1)
    job = running(cluster, a_spec("a", gpus_per_pod=4), "gpu-00")
    late = cluster.submit(a_spec("late", gpus_per_pod=4))
    desk = WriteDesk(cluster)
    desk.write(MARK, reserve(late, "gpu-00"))
    thief = cluster.submit(a_spec("thief", gpus_per_pod=1, priority=100))
    forward(cluster, 4)
    assert late.state is WorkloadState.STARTING
    assert thief.state is WorkloadState.WAITING
    assert job.holds_gpus


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda job, other: cordon("gpu-99"), "no node 'gpu-99'"),
        (lambda job, other: Write(verb=Verb.SUSPEND, workload="research/zzz"), "no workload 'research/zzz'"),
        (lambda job, other: resume(job, "gpu-01"), "is running; there is nothing to start"),
        (lambda job, other: reserve(other, "gpu-03"), "gpu-03 is cordoned; 8 were asked for research/other"),
        (lambda job, other: reserve(other, "gpu-02", "gpu-02"), "has room for 8 GPUs beside what is kept; 16"),
        (lambda job, other: resume(other, "gpu-00"), "gpu-00 has 4 GPUs free; 8 were asked for research/other"),
        (lambda job, other: resume(other, "gpu-01", "gpu-02"), "has 1 pods; 2 seats were given"),
    ],
)
def test_a_write_that_cannot_be_is_refused_with_the_number_that_decided(write, sentence):
    cluster = a_cluster()
    job = running(cluster, a_spec(), "gpu-00")
    cluster.nodes["gpu-03"].is_cordoned = True
    other = cluster.submit(a_spec("other", gpus_per_pod=8))
    before = cluster.snapshot()
    with pytest.raises(SchedulerRefused, match=sentence):
        WriteDesk(cluster).write(MARK, write(job, other))
    assert cluster.snapshot() == before


def test_a_seat_that_someone_took_meanwhile_is_refused():
    cluster = a_cluster(nodes=2)
    job = running(cluster, a_spec(), "gpu-00")
    running(cluster, a_spec("thief", gpus_per_pod=8), "gpu-01")
    desk = WriteDesk(cluster)
    desk.write(MARK, suspend(job))
    with pytest.raises(SchedulerRefused, match="gpu-01 has 0 GPUs free"):
        desk.write(MARK, resume(job, "gpu-01"))


def test_a_gang_moves_off_a_lost_gpu_onto_a_spare_and_keeps_its_other_nodes():
    cluster = a_cluster(nodes=4, spares=1)
    gang = running(cluster, a_spec("gang", pods=3, gpus_per_pod=8), "gpu-00", "gpu-01", "gpu-02")
    inject(cluster, Fault(kind="gpu_falls_off", node="gpu-01", gpus=(3,)))
    forward(cluster, 60)
    desk = WriteDesk(cluster)
    spare = Write(verb=Verb.RESERVE, workload=gang.id, seats=seats(gang.spec, "gpu-03"))
    for write in (cordon("gpu-01", lasts=True), spare, suspend(gang), resume(gang, "gpu-00", "gpu-03", "gpu-02")):
        desk.write(MARK, write)
    forward(cluster, 90)
    assert [seat.node for seat in gang.placements] == ["gpu-00", "gpu-03", "gpu-02"]
    assert gang.pace_ratio == pytest.approx(1.0, abs=0.01)


NODES = [f"gpu-0{number}" for number in range(4)]
steps = st.lists(
    st.tuples(
        st.sampled_from(["cordon", "uncordon", "reserve", "suspend", "resume", "release", "time", "fall"]),
        st.sampled_from(NODES),
        st.integers(0, 3),
        st.sampled_from(["trimtab:R1", "trimtab:R2"]),
    ),
    max_size=40,
)


def write_of(kind, node, job):
    if kind in ("cordon", "uncordon"):
        return Write(verb=Verb(kind), node=node)
    if kind == "suspend":
        return suspend(job)
    return (reserve if kind == "reserve" else resume)(job, *[node] * job.spec.pods)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_whatever_is_written_no_gpu_is_held_twice_and_all_can_be_given_back(steps):
    cluster = a_cluster()
    jobs = [running(cluster, a_spec(f"j{n}", gpus_per_pod=size), NODES[n]) for n, size in enumerate((4, 2, 8, 1))]
    desk = WriteDesk(cluster)
    for kind, node, number, mark in steps:
        if kind == "time":
            forward(cluster, 20)
        elif kind == "release":
            desk.release(mark, keep_lasting=False)
        elif kind == "fall":
            inject(cluster, Fault(kind="gpu_falls_off", node=node, gpus=(number,)))
        else:
            try:
                desk.write(mark, write_of(kind, node, jobs[number]))
            except SchedulerRefused:
                continue
        assert doubly_held(cluster) == []
    for mark in ("trimtab:R1", "trimtab:R2"):
        desk.release(mark, keep_lasting=False)
    forward(cluster, 20)
    assert desk.marks_held() == {}
    assert not any(job.state is WorkloadState.SUSPENDED for job in jobs)
    assert doubly_held(cluster) == []
