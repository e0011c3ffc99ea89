"""Volcano as recorded: each scenario is played on a plane, and each object's story is held to the recording.

The planes: the stand-in in memory (all scenarios, in seconds); the stand-in beside a real API server (those of `BRIEF`;
with TRIMTAB_LONG=1 all, six minutes); and real Volcano there, when TRIMTAB_VOLCANO_BIN names a folder with it (all).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest
from tests.cluster import build
from tests.cluster.volcano import real
from tests.cluster.volcano.standin import CRDS, Standin
from tests.contract import volcano_scenes, volcano_scenes_races, volcano_scenes_rules, volcano_scenes_seats
from tests.contract.volcano_planes import MemoryPlane, ServerPlane, a_server_plane
from tests.contract.volcano_scenes import Scene
from tests.contract.volcano_stage import Stage
from tests.contract.volcano_story import Story, Teller, answers, recording

ALL = tuple(
    scene
    for module in (volcano_scenes, volcano_scenes_seats, volcano_scenes_races, volcano_scenes_rules)
    for scene in module.SCENES
)
BRIEF = {
    "a-evict-no-policy",  # one pod replaced
    "b-evict-restartjob",  # a policy restarts the gang
    "c-abort-resume",  # Commands
    "d3-maxretry1",  # the limit
    "e3-scale-to-zero-webhook",  # the webhook's refusal; a shrink counts as evictions
    "e5-scale-to-zero-nopolicy-webhook",  # zero and back
    "f3-batchjob-long",  # a Job of Kubernetes' own
    "g2-topology-noroom",  # hard topology
    "h9-gang-reserved-by-taint-patch-toleration",  # a seat held
    "i17-phantom-two-taints",  # and against a stream of small pods
    "n2-controller-down",  # a Command that waits
}
CYCLE_SECONDS = 0.3
REAL_CYCLE_SECONDS = 0.5
ON_SERVER = [scene for scene in ALL if scene.name in BRIEF or os.environ.get("TRIMTAB_LONG")]


def play(scene: Scene, stage: Stage) -> Story:
    """Runs the scenario and tells what happened."""
    scene.prepare(stage)
    stage.refusals.clear()
    stage.record()
    try:
        scene.act(stage)
        return stage.story(place=scene.place)
    finally:
        stage.close()


def compare(scene: Scene, told: Story, refusals: list[tuple[int, str]]) -> None:
    """Fails with the first difference of every subject."""
    wanted = Teller(place=scene.place).tell(recording(scene.name), has_whole_objects=False)
    differences = []
    for subject in scene.of or tuple(one for one in wanted.of if one not in scene.but):
        left, right = (_lasting(story, subject, scene) for story in (wanted, told))
        if left != (right[: len(left)] if scene.is_cut else right):
            differences.append(f"{subject}\n   recorded: {' > '.join(left)}\n   here:     {' > '.join(right)}")
    if not scene.of:
        unknown = [one for one in told.of if told.of[one] and one not in wanted.of and one not in scene.but]
        differences += [f"{subject}\n   not recorded, but here: {' > '.join(told.of[subject])}" for subject in unknown]
    assert not differences, "\n".join([scene.name, *differences])
    for first, second in scene.orders:
        for story in (wanted, told):
            assert story.index(first) < story.index(second), f"{first!r} is not before {second!r}"
    assert refusals == answers(scene.name)


UNCORDONED = "*: 1 node(s) had untolerated taint(s), [0-9]* Insufficient nvidia.com/gpu."
"""Said when a cycle comes after an uncordon and before the node controller took its taint away."""
PASSING = ("no place: gang not ready", "Unschedulable", UNCORDONED)
"""Said or not said, depending on which moment a scheduling cycle hits: no matter, where something else follows."""
FLEETING = {("leaving", "gone"), ("Unknown", "gone"), ("Pending", "gone"), ("Completed", "gone")}
"""Steps that may or may not be seen before the end: a pod that runs nothing leaves at once, a cycle comes between."""


def _lasting(story: Story, subject: str, scene: Scene) -> list[str]:
    tokens = story.of.get(subject, [])
    last = len(tokens) - 1
    kept = [token for at, token in enumerate(tokens) if at == last or not _is_passing(token, scene)]
    kept = _without_stillborn(kept)
    told = [token for at, token in enumerate(kept) if at == 0 or kept[at - 1] != token]
    return [token for at, token in enumerate(told) if (token, *told[at + 1 : at + 2]) not in FLEETING]


def _is_passing(token: str, scene: Scene) -> bool:
    return any(fnmatchcase(token, words) for words in (*PASSING, *scene.passing))


STILLBORN = ("of a new version", "marked out of sync", "leaving")


def _without_stillborn(tokens: list[str]) -> list[str]:
    """Leaves out what was made and gone within milliseconds, as when a controller has not yet heard of its own deed."""
    kept: list[str] = []
    start = -1
    for token in tokens:
        start = len(kept) if token == "made" else start
        kept.append(token)
        if token == "gone" and start >= 0:
            if all(one in STILLBORN for one in kept[start + 1 : -1]):
                del kept[start:]
            start = -1
    return kept


def with_ids(scenes: list[Scene]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scene", scenes, ids=[scene.name for scene in scenes])


@with_ids([scene for scene in ALL if not scene.needs_server])
def test_the_stand_in_in_memory_behaves_as_recorded(scene: Scene) -> None:
    stage = Stage(MemoryPlane(has_webhooks=scene.has_webhooks), "t")
    compare(scene, play(scene, stage), stage.refusals)


@pytest.fixture(scope="module")
def stand_in() -> Iterator[ServerPlane]:
    """The stand-in beside a real API server, for this module."""
    if (reason := why_no_server()) is not None:
        refuse = pytest.fail if build.mode() == "require" else pytest.skip
        refuse(reason)
    parts = ["controller", "scheduler", "kubelets"]
    with a_server_plane(
        lambda plane: Standin(plane.client, cycle_seconds=CYCLE_SECONDS, parts=parts),
        cycle_seconds=CYCLE_SECONDS,
        crds=[CRDS],
    ) as server:
        yield server


@pytest.fixture(scope="module")
def volcano() -> Iterator[ServerPlane]:
    """Real Volcano beside a real API server, for this module."""
    if (reason := real.why_not() or why_no_server()) is not None:
        pytest.skip(reason)
    with a_server_plane(
        lambda plane: real.RealVolcano(plane, cycle_seconds=REAL_CYCLE_SECONDS),
        cycle_seconds=REAL_CYCLE_SECONDS,
        crds=real.crds(),
    ) as server:
        yield server


def why_no_server() -> str | None:
    """Why there is no control plane to run on; None when there is."""
    return build.why_not() or (None if build.find() else f"the real control plane is not built: {build.BUILD}")


def play_on(server: ServerPlane, scene: Scene) -> None:
    stage = Stage(server, server.prepare(scene.name, has_webhooks=scene.has_webhooks))
    try:
        compare(scene, play(scene, stage), stage.refusals)
    finally:
        server.clear(stage.namespace)


@with_ids(ON_SERVER)
def test_the_stand_in_on_a_real_api_server_behaves_as_recorded(scene: Scene, stand_in: ServerPlane) -> None:
    play_on(stand_in, scene)


@pytest.mark.volcano
@with_ids(list(ALL))
def test_volcano_behaves_as_recorded(scene: Scene, volcano: ServerPlane) -> None:
    play_on(volcano, scene)


def test_a_story_that_differs_is_named() -> None:
    scene = next(scene for scene in ALL if scene.name == "b-evict-restartjob")
    other = Teller().tell(recording("a-evict-no-policy"), has_whole_objects=False)
    with pytest.raises(AssertionError, match="recorded: Restarting retry 1 > Pending retry 1 > Running retry 1"):
        compare(scene, other, [])


def test_a_refusal_that_was_not_recorded_is_named() -> None:
    scene = next(scene for scene in ALL if scene.name == "b-evict-restartjob")
    same = Teller().tell(recording(scene.name), has_whole_objects=False)
    compare(scene, same, [])
    with pytest.raises(AssertionError):
        compare(scene, same, [(409, "Conflict")])
