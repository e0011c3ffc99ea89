"""The life of a command in plain Kubernetes, explored to the fixpoint with the real adapter, reader and planner.

One fault or act in `make test`; two with TRIMTAB_LONG=1 (`make test-long`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import structlog
from tests.explore.explorer import Explorer
from tests.explore.plain_world import PlainWorld
from tests.schedulers.plain_rig import PlainRig

IS_LONG = bool(os.environ.get("TRIMTAB_LONG"))


def drain(kind: str, *, pods: int = 1) -> PlainRig:
    """A bad node under the first pod."""
    rig = PlainRig(nodes=pods + 2)
    rig.hall.add(kind, "web", pods=pods, gpus=8, on=["n1", "n2"][:pods])
    rig.bad("n1")
    return rig


def consolidate() -> PlainRig:
    """A small job on each of two nodes, and one that waits for a whole node."""
    rig = PlainRig(nodes=2)
    rig.hall.add("job", "a", pods=1, gpus=2, on=["n1"])
    rig.hall.add("job", "b", pods=1, gpus=2, on=["n2"])
    rig.hall.add("job", "wide", pods=1, gpus=8)
    rig.hall.step()
    return rig


SCENES: dict[str, tuple[Callable[[], PlainRig], tuple[str, ...]]] = {
    "job": (lambda: drain("job"), ("n1",)),
    "deployment": (lambda: drain("deployment"), ("n1",)),
    "statefulset": (lambda: drain("statefulset", pods=2), ("n1",)),
    "consolidate": (consolidate, ("n1",)),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of daemons say nothing."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("scene", SCENES)
def test_every_way_comes_to_a_good_rest(scene: str, capsys: pytest.CaptureFixture[str]) -> None:
    make, nodes = SCENES[scene]
    found = Explorer(faults=2, acts=2, total=2 if IS_LONG else 1).explore(PlainWorld.of(make(), nodes))
    with capsys.disabled():
        bounds = "2 faults or acts" if IS_LONG else "1 fault or act"
        print(f"\n  plain {scene}: {found.states} states, {found.transitions} transitions, {bounds}", end="")
    assert found.is_whole
    assert found.states > 20
