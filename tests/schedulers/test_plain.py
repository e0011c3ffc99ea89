"""Plain Kubernetes on the fake API: every crash is recovered, and nothing of ours or of anybody's is left wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.schedulers.hands import a_command, over
from tests.schedulers.plain_driver import Driver, Killed, a_drain, a_move
from tests.schedulers.plain_hall import NAMESPACE, PlainHall

from trimtab.errors import SchedulerError, SchedulerRefused
from trimtab.model.command import Command, CommandState, Move, MoveKind, Seat


@pytest.fixture
def hall() -> PlainHall:
    return PlainHall(["n1", "n2", "n3", "n4"])


def test_a_job_stops_whole_and_starts_on_its_seats(hall: PlainHall) -> None:
    hall.add("job", "train", pods=2, gpus=8, on=["n1", "n2"])
    driver = Driver(hall)
    command = a_drain(a_move(hall, "job", "train", {"n1": "n3", "n2": "n4"}), cordons=["n1"])
    driver.hold(command)
    assert driver.left()["nodes n3"] == [
        "taint trimtab/seat=3fa9c1-R11:NoSchedule",
        "label trimtab/seat=3fa9c1-R11",
        "seats",
        "bare trimtab/seat",
    ]
    for number in range(20):
        hall.add_small_pod(f"small-{number}")
    driver.run(command, lambda: hall.seats("train") == ["n3", "n4"])
    driver.release(over(command, CommandState.SETTLED))
    assert driver.left() == {"nodes n1": ["cordon"]}
    assert "trimtab/seat" not in hall.kube.see("/api/v1/nodes/n3")["metadata"]["labels"]  # type: ignore[index]


def test_a_second_move_takes_the_first_ones_way_out_of_the_template(hall: PlainHall) -> None:
    own = {"key": "dedicated", "operator": "Exists"}
    hall.add("job", "train", pods=1, gpus=8, on=["n1"])
    hall.kube.edit(
        f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/train", {"spec": {"template": {"spec": {"tolerations": [own]}}}}
    )
    driver = Driver(hall)
    first = a_drain(a_move(hall, "job", "train", {"n1": "n3"}), cordons=["n1"])
    driver.hold(first)
    driver.run(first, lambda: hall.seats("train") == ["n3"])
    driver.release(over(first, CommandState.SETTLED))
    second = replace(a_drain(a_move(hall, "job", "train", {"n3": "n4"}), cordons=["n3"]), id=12)
    driver.hold(second)
    driver.run(second, lambda: hall.seats("train") == ["n4"])
    pod = hall.owner("job", "train")["spec"]["template"]["spec"]
    assert [one.get("value") for one in pod["tolerations"]] == [None, "3fa9c1-R12"]
    assert len(pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]) == 1


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_a_sets_pods_go_one_at_a_time_and_never_twice(hall: PlainHall, kind: str) -> None:
    hall.add(kind, "web", pods=2, gpus=8, on=["n1", "n2"])
    driver = Driver(hall)
    command = a_drain(a_move(hall, kind, "web", {"n1": "n3", "n2": "n4"}), cordons=["n1", "n2"])
    driver.hold(command)
    running: list[int] = []

    def is_done() -> bool:
        running.append(len(hall.seats("web")))
        return hall.seats("web") == ["n3", "n4"]

    driver.run(command, is_done)
    for _ in range(3):
        driver.plain.submit(command)
    evictions = [text for text in hall.kube.writes if text.endswith("/eviction")]
    assert (len(evictions), min(running)) == (2, 1)
    driver.release(over(command, CommandState.SETTLED))
    assert driver.left() == {"nodes n1": ["cordon"], "nodes n2": ["cordon"]}


def test_a_pod_that_came_back_to_its_node_is_not_evicted_again(hall: PlainHall) -> None:
    """Nothing closes the node (no cordon in this plan) and no other has room: it is left where it is."""
    hall.add("statefulset", "web", pods=1, gpus=8, on=["n1"])
    driver = Driver(hall)
    command = a_drain(a_move(hall, "statefulset", "web", {"n1": "n3"}))
    driver.hold(command)
    hall.kube.edit("/api/v1/nodes/n3", {"spec": {"unschedulable": True}}, by="kubectl-cordon")
    for _ in range(6):
        driver.plain.submit(command)
        hall.step()
    assert len([text for text in hall.kube.writes if text.endswith("/eviction")]) == 1
    driver.release(over(command))
    assert driver.left() == {}


def test_an_eviction_waits_while_another_pod_of_the_set_is_down(hall: PlainHall) -> None:
    hall.add("deployment", "web", pods=2, gpus=8, on=["n1", "n2"])
    hall.kube.edit("/api/v1/nodes/n4", {"spec": {"unschedulable": True}}, by="kubectl-cordon")
    driver = Driver(hall)
    command = a_drain(a_move(hall, "deployment", "web", {"n1": "n3"}), cordons=["n1"])
    driver.hold(command)
    peer = hall.pods("web")[1]["metadata"]["name"]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{peer}"
    hall.kube.edit(path, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    driver.plain.submit(command)
    assert not any(text.endswith("/eviction") for text in hall.kube.writes)
    hall.kube.edit(path, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    driver.run(command, lambda: hall.seats("web") == ["n2", "n3"])


@pytest.mark.parametrize("kind", ["job", "deployment", "statefulset"])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("is_undone", [False, True], ids=["settled", "undone"])
def test_killed_at_any_write_all_comes_out_right(kind: str, side: str, *, is_undone: bool) -> None:
    """One kill before or after each write of the whole life, then on with a new process, to the end or undone."""
    kills = 0
    while True:
        hall = PlainHall(["n1", "n2", "n3", "n4"])
        hall.add(kind, "web", pods=2, gpus=8, on=["n1", "n2"])
        person = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
        hall.kube.edit("/api/v1/nodes/n4", {"spec": {"unschedulable": True, "taints": [person]}}, by="kubectl-cordon")
        count = -1

        def kill(point: str, at: int = kills) -> None:
            nonlocal count
            if point.startswith(side):
                count += 1
                if count == at:
                    raise Killed

        hall.kube.at_point = kill
        driver = Driver(hall)
        command = a_drain(a_move(hall, kind, "web", {"n1": "n3"}), cordons=["n1"])
        driver.hold(command)
        _play(driver, command, is_undone=is_undone)
        if count < kills:
            break
        kills += 1
    assert kills >= 8


def _play(driver: Driver, command: Command, *, is_undone: bool) -> None:
    hall = driver.hall
    if is_undone:
        for _ in range(2):
            driver.again(driver.plain.submit, command)
            hall.step()
        driver.release(over(command))
        for _ in range(3):
            hall.step()
        assert driver.left() == {}
        assert "unschedulable" not in hall.kube.see("/api/v1/nodes/n1")["spec"]  # type: ignore[index]
    else:
        driver.run(command, lambda: hall.seats("web") == ["n2", "n3"], beats=20)
        driver.release(over(command, CommandState.SETTLED))
        assert driver.left() == {"nodes n1": ["cordon"]}
    assert len(hall.seats("web")) == 2
    theirs = hall.kube.see("/api/v1/nodes/n4")
    assert theirs is not None
    assert (theirs["spec"]["unschedulable"], len(theirs["spec"]["taints"])) == (True, 1)


def test_one_workload_that_cannot_go_on_does_not_hold_up_the_other(hall: PlainHall) -> None:
    hall.add("job", "a", pods=1, gpus=8, on=["n1"])
    hall.add("job", "b", pods=1, gpus=8, on=["n2"])
    driver = Driver(hall)
    moves = (a_move(hall, "job", "a", {"n1": "n3"}), a_move(hall, "job", "b", {"n2": "n4"}))
    command = a_drain(*moves)
    driver.hold(command)
    hall.kube.edit(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/a", {"spec": {"suspend": True}}, by="kubectl-patch")
    with pytest.raises(SchedulerRefused, match="Somebody suspended job/a"):
        driver.plain.submit(command)
    assert hall.owner("job", "b")["spec"]["suspend"] is True
    driver.release(over(command))
    assert hall.owner("job", "a")["spec"]["suspend"] is True
    assert hall.owner("job", "b")["spec"]["suspend"] is False
    assert driver.left() == {}


def test_a_new_job_of_the_same_name_is_not_stopped(hall: PlainHall) -> None:
    hall.add("job", "train", pods=1, gpus=8, on=["n1"])
    driver = Driver(hall)
    command = a_drain(a_move(hall, "job", "train", {"n1": "n3"}))
    driver.hold(command)
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/train"
    hall.kube.remove(path)
    hall.kube.remove(f"/api/v1/namespaces/{NAMESPACE}/pods/{hall.pods('train')[0]['metadata']['name']}")
    hall.add("job", "train", pods=1, gpus=8, on=["n1"])
    with pytest.raises(SchedulerRefused, match="job/train is not the one that R11 was to move"):
        driver.plain.submit(command)
    assert "suspend" not in hall.owner("job", "train")["spec"]


def test_a_stray_mark_is_given_back_without_its_command_saying_where(hall: PlainHall) -> None:
    hall.add("job", "train", pods=1, gpus=8, on=["n1"])
    hall.add("deployment", "web", pods=1, gpus=8, on=["n2"])
    driver = Driver(hall)
    moves = (a_move(hall, "job", "train", {"n1": "n3"}), a_move(hall, "deployment", "web", {"n2": "n4"}))
    command = a_drain(*moves, cordons=["n1"])
    driver.hold(command)
    driver.plain.submit(a_drain(moves[0], cordons=["n1"]))
    driver.release(a_command(state=CommandState.ABANDONED))
    assert driver.left() == {}
    assert hall.owner("job", "train")["spec"]["suspend"] is False


def test_a_write_without_rights_is_an_error_that_names_it(hall: PlainHall) -> None:
    hall.add("job", "train", pods=1, gpus=8, on=["n1"])
    driver = Driver(hall)
    command = a_drain(a_move(hall, "job", "train", {"n1": "n3"}))
    hall.kube.refuses = lambda call: (403, "nodes is forbidden: cannot patch") if call.is_write else None
    with pytest.raises(SchedulerError, match="cannot patch"):
        driver.plain.hold(command)
    assert hall.kube.writes == []


def test_a_jobset_stops_and_starts_whole(hall: PlainHall) -> None:
    """Its own controller carries the suspension to its Jobs; we write and read the JobSet."""
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets/big"
    metadata = {"name": "big", "namespace": NAMESPACE}
    hall.kube.add({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "big-w-0", "uid": "u", "controller": True}
    labels = {"jobset.sigs.k8s.io/jobset-name": "big"}
    pod = {"name": "big-w-0-0", "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
    hall.kube.add({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": spec, "status": {"phase": "Running"}})
    driver = Driver(hall)
    command = a_drain(a_move(hall, "jobset", "big", {"n1": "n3"}), cordons=["n1"])
    driver.hold(command)
    for _ in range(2):
        driver.plain.submit(command)
    assert hall.kube.see(path)["spec"]["suspend"] is True  # type: ignore[index]
    hall.kube.remove(f"/api/v1/namespaces/{NAMESPACE}/pods/big-w-0-0")
    for _ in range(2):
        driver.plain.submit(command)
    assert hall.kube.see(path)["spec"]["suspend"] is False  # type: ignore[index]
    driver.release(over(command, CommandState.SETTLED))
    assert driver.left() == {"nodes n1": ["cordon"]}


def test_a_pod_of_its_own_that_waits_is_let_onto_the_room_made_for_it(hall: PlainHall) -> None:
    hall.add_small_pod("lone", gpus=8)
    seat = Seat(pod="lone", node="n2", gpus=8)
    move = Move(kind=MoveKind.CONSOLIDATE, workload=f"{NAMESPACE}/pod/lone", controller="kubernetes", after=(seat,))
    driver = Driver(hall)
    command = a_drain(move)
    driver.hold(command)
    hall.step()
    pod = hall.kube.see(f"/api/v1/namespaces/{NAMESPACE}/pods/lone")
    assert pod is not None
    assert pod["spec"]["nodeName"] == "n2"
    driver.release(over(command, CommandState.SETTLED))
    assert driver.left() == {}
