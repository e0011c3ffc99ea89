"""Volcano as recorded: each scenario is played on a plane, and each object's story is held to the recording."""

from __future__ import annotations

import pytest
from tests.contract import volcano_scenes, volcano_scenes_races, volcano_scenes_rules, volcano_scenes_seats
from tests.contract.volcano_planes import MemoryPlane
from tests.contract.volcano_scenes import Scene
from tests.contract.volcano_stage import Stage
from tests.contract.volcano_story import Story, Teller, answers, recording

ALL = tuple(
    scene
    for module in (volcano_scenes, volcano_scenes_seats, volcano_scenes_races, volcano_scenes_rules)
    for scene in module.SCENES
)


def play(scene: Scene, stage: Stage) -> Story:
    """Runs the scenario and tells what happened."""
    scene.prepare(stage)
    stage.refusals.clear()
    stage.record()
    scene.act(stage)
    return stage.story(place=scene.place)


def compare(scene: Scene, told: Story, refusals: list[tuple[int, str]]) -> None:
    """Fails with the first difference of every subject."""
    wanted = Teller(place=scene.place).tell(recording(scene.name), has_whole_objects=False)
    differences = []
    for subject in scene.of or tuple(one for one in wanted.of if one not in scene.but):
        left, right = (_lasting(story, subject, scene) for story in (wanted, told))
        if left != (right[: len(left)] if scene.is_cut else right):
            differences.append(f"{subject}\n   recorded: {' > '.join(left)}\n   here:     {' > '.join(right)}")
    assert not differences, "\n".join([scene.name, *differences])
    for first, second in scene.orders:
        for story in (wanted, told):
            assert story.index(first) < story.index(second), f"{first!r} is not before {second!r}"
    assert refusals == answers(scene.name)


PASSING = ("no place: gang not ready", "Unschedulable")
"""Said or not said, depending on which moment a scheduling cycle hits: no matter, where something else follows."""
FLEETING = (("leaving", "gone"), ("Unknown", "gone"))
"""Steps that may or may not be seen before the end: a pod that runs nothing leaves at once, a cycle comes between."""


def _lasting(story: Story, subject: str, scene: Scene) -> list[str]:
    tokens = story.of.get(subject, [])
    last = len(tokens) - 1
    kept = [token for at, token in enumerate(tokens) if at == last or token not in (*PASSING, *scene.passing)]
    told = [token for at, token in enumerate(kept) if at == 0 or kept[at - 1] != token]
    return [token for at, token in enumerate(told) if (token, *told[at + 1 : at + 2]) not in FLEETING]


@pytest.mark.parametrize("scene", ALL, ids=[scene.name for scene in ALL])
def test_the_stand_in_in_memory_behaves_as_recorded(scene: Scene) -> None:
    stage = Stage(MemoryPlane(has_webhooks=scene.has_webhooks), "t")
    compare(scene, play(scene, stage), stage.refusals)
