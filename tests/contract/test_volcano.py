"""Volcano as recorded: each scenario is run on a plane, and what happened to each object is compared with the recording."""

from __future__ import annotations

import pytest
from tests.contract import volcano_scenes
from tests.contract.volcano_planes import MemoryPlane
from tests.contract.volcano_scenes import Scene
from tests.contract.volcano_stage import Stage
from tests.contract.volcano_story import Story, Teller, answers, recording

ALL = (*volcano_scenes.SCENES,)


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
    for subject in scene.of or tuple(wanted.of):
        left, right = (_lasting(story, subject, scene) for story in (wanted, told))
        if left != right:
            differences.append(f"{subject}\n   recorded: {' > '.join(left)}\n   here:     {' > '.join(right)}")
    assert not differences, "\n".join([scene.name, *differences])
    for first, second in scene.orders:
        for story in (wanted, told):
            assert story.index(first) < story.index(second), f"{first!r} is not before {second!r}"
    assert refusals == answers(scene.name)


def _lasting(story: Story, subject: str, scene: Scene) -> list[str]:
    return [token for token in story.of.get(subject, []) if token not in scene.passing]


@pytest.mark.parametrize("scene", ALL, ids=[scene.name for scene in ALL])
def test_the_stand_in_in_memory_behaves_as_recorded(scene: Scene) -> None:
    stage = Stage(MemoryPlane(has_webhooks=scene.has_webhooks), "t")
    compare(scene, play(scene, stage), stage.refusals)
