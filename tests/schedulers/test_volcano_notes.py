"""Notes of ours that somebody wipes or changes while a Volcano Job stands at zero: it gets its pods back, or a line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.schedulers.volcano_hall import HARD, Hall, a_task, abandoned, vcjob, whole_away

from trimtab.errors import SchedulerRefused
from trimtab.model.command import Command

PATH = "/apis/batch.volcano.sh/v1alpha1/namespaces/team-a/jobs/train"
TWO = [a_task("head", 1), a_task("worker", 3)]
ONE_WITHOUT_SEATS = [a_task("head", 1, gpus=0), a_task("worker", 4)]


def at_zero(tasks: list[dict[str, Any]] | None = None, *, only: str = "") -> tuple[Hall, Command]:
    """A hall whose job was just scaled to zero. `only`: pods of these names alone were planned with."""
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", networkTopology=HARD, tasks=tasks or ()))
    if only:
        seen = hall.nodes_of
        hall.nodes_of = lambda name="train": {pod: node for pod, node in seen(name).items() if only in pod}  # type: ignore[method-assign]
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    hall.adapter.submit(command)
    assert replicas(hall) == [0] * len(tasks or [1])
    return hall, command


def replicas(hall: Hall) -> list[int]:
    return [task["replicas"] for task in hall.job()["spec"]["tasks"]]


def note(hall: Hall, text: str | None) -> None:
    hall.kube.edit(PATH, {"metadata": {"annotations": {"trimtab/hold": text}}})


@pytest.mark.parametrize("text", [None, "not a list"], ids=["wiped", "garbled"])
@pytest.mark.parametrize("tasks", [None, TWO], ids=["one task", "two tasks"])
def test_a_job_whose_note_is_gone_gets_its_pods_back(tasks: list[dict[str, Any]] | None, text: str | None) -> None:
    hall, command = at_zero(tasks)
    note(hall, text)
    hall.advance(5)
    with pytest.raises(SchedulerRefused, match="Somebody took our note off team-a/train while it stood at zero"):
        hall.adapter.submit(command)
    hall.adapter.release(abandoned(command))
    spec = hall.job()["spec"]
    assert ([(one["replicas"], one["minAvailable"]) for one in spec["tasks"]], spec["minAvailable"]) == (
        [(1, 1), (3, 3)] if tasks else [(4, 4)],
        4,
    )
    hall.advance(10)
    assert len(hall.nodes_of()) == 4


def test_a_task_of_which_nothing_is_known_is_left_to_a_person_with_the_line_to_use() -> None:
    hall, command = at_zero(ONE_WITHOUT_SEATS, only="worker")
    note(hall, None)
    with pytest.raises(SchedulerRefused, match=r"kubectl -n team-a edit jobs\.batch\.volcano\.sh train"):
        hall.adapter.release(abandoned(command))
    assert replicas(hall) == [0, 0]


def test_a_job_that_a_person_scaled_to_zero_stays_theirs() -> None:
    hall, command = at_zero()
    note(hall, None)
    tasks = hall.job()["spec"]["tasks"]
    hall.kube.edit(PATH, {"spec": {"tasks": [{**one, "replicas": 1} for one in tasks]}}, by="kubectl")
    hall.kube.edit(PATH, {"spec": {"tasks": [{**one, "replicas": 0} for one in tasks]}}, by="kubectl")
    with pytest.raises(SchedulerRefused, match="wants no pods: somebody scaled it to zero"):
        hall.adapter.submit(command)
    hall.adapter.release(abandoned(command))
    assert replicas(hall) == [0]


@pytest.mark.parametrize(
    "before",
    [
        {"tasks": [["worker"]]},
        {"tasks": [["worker", -4, 4]]},
        {"tasks": "worker"},
        {"how": 7},
        {"tries": "many"},
        {"command": "../../nodes/n01"},
    ],
)
def test_a_note_that_is_not_ours_any_more_ends_the_move_and_the_job_gets_its_pods_back(before: dict[str, Any]) -> None:
    hall, command = at_zero()
    entries = json.loads(hall.job()["metadata"]["annotations"]["trimtab/hold"])
    entries[0]["before"] |= before
    note(hall, json.dumps(entries))
    with pytest.raises(SchedulerRefused, match="Our note on team-a/train was changed and cannot be read any more"):
        hall.adapter.submit(command)
    hall.adapter.release(abandoned(command))
    assert (replicas(hall), hall.ours()) == ([4], [])
