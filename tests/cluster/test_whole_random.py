"""Random people and faults against the whole daemon in mode act on the real control plane.

TRIMTAB_LONG=1: 220 steps; TRIMTAB_SEED=N does a run again.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.cluster.audit import Audit, assert_allowed, kinds
from tests.cluster.people import SETTINGS, People
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed as _installed
from tests.cluster.whole import Whole

installed = _installed

STEPS = 220 if os.environ.get("TRIMTAB_LONG") else 25


@pytest.mark.long
def test_whatever_people_do_budgets_and_their_own_doings_stand(
    installed: Plane, space: Space, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("TRIMTAB_SEED") or secrets.randbelow(1_000_000))
    whole, audit = Whole(installed, space, tmp_path, settings=SETTINGS), Audit(installed)
    people, began = People(whole, seed), time.monotonic()
    try:
        with capsys.disabled():
            print(f"\n  seed {seed}: TRIMTAB_SEED={seed} does it again")
        people.begin()
        for _ in range(STEPS):
            people.step()
        people.end()
        states = Counter(str(one.command.state) for one in whole.daemon.board().commands)
        writes = audit.writes()
        assert_allowed(writes)
        whole.daemon.assert_had_no_trouble()
        with capsys.disabled():
            print(f"  {STEPS} steps in {time.monotonic() - began:.0f} s; commands {dict(states)}; {kinds(writes)}")
    finally:
        whole.close()
