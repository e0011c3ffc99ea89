"""The same exploration with the real reader, planner and adapter over Volcano's stand-in on the fake API server.

One fault on a gang that restarts by one Command in `make test`; two faults or acts on every kind with TRIMTAB_LONG=1.
"""

from __future__ import annotations

import pytest
from tests.explore.explorer import Explorer
from tests.explore.test_life import IS_LONG, quiet
from tests.explore.volcano_world import VolcanoRig, VolcanoWorld
from tests.schedulers.test_volcano_crashes import EVICTED_RESTARTS

__all__ = ["quiet"]  # a fixture, found by name

ALWAYS = {"restart by a Command": {"policies": [EVICTED_RESTARTS]}}
SELDOM = {"by way of zero": {}, "in its only rack": {"racks": 1}}
KINDS = {**ALWAYS, **SELDOM} if IS_LONG else ALWAYS


@pytest.mark.parametrize("kind", KINDS)
def test_in_every_state_nothing_of_a_persons_is_undone_and_every_way_comes_to_a_good_rest(kind, capsys):
    rig = VolcanoRig(**KINDS[kind])
    stays = next(node for node in rig.hall.nodes_of().values() if node != rig.bad_node)
    bounds = {"faults": 2, "acts": 2, "total": 2} if IS_LONG else {"faults": 1, "acts": 0}
    found = Explorer(**bounds).explore(VolcanoWorld.of(rig, (rig.bad_node, stays)))
    with capsys.disabled():
        words = "2 faults or acts" if IS_LONG else "1 fault"
        print(f"\n  {kind} by Volcano: {found.states} states, {found.transitions} transitions, {words}", end="")
    assert found.is_whole
    assert found.states > 60
    assert rig.hall.most_retries <= 1, "never past the retry room"
