"""A stand-in of Kueue on the fake API server, one controller's act a step, as recorded of Kueue 0.17.

It keeps nothing of its own: all state is in the objects, so a test may put an older state of the server back. Around it
play a Job controller, a kube-scheduler and a kubelet (`kueue_around`). `settle` runs all of them until nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fakes.kube import FakeKube
from tests.fakes.kueue_admission import Admission


class Kueue(Admission):
    """The controllers. `step` does the next thing that one of them would do, and says it; None = all is still."""

    def __init__(self, kube: FakeKube) -> None:
        super().__init__(kube)
        self._acts: tuple[Callable[[], str | None], ...] = (
            self._make_workload,
            self._tell_queues,
            self._ask_checks,
            self._drop_reservation,
            self._say_inadmissible,
            self._deactivate,
            self._judge_checks,
            self._give_up_quota,
            self._requeue,
            self._see_unhealthy,
            self._replace_node,
            self._admit,
            self._finish,
            self._reserve,
        )

    def step(self) -> str | None:
        """One act of one controller."""
        for act in (*self._acts, *self.around.acts):
            said = act()
            if said is not None:
                return said
        return None

    def settle(self, *, steps_max: int = 2000) -> list[str]:
        """All acts until nothing is left to do."""
        said: list[str] = []
        while (one := self.step()) is not None:
            said.append(one)
            assert len(said) < steps_max, f"the stand-in never comes to rest: {said[-12:]}"
        return said
