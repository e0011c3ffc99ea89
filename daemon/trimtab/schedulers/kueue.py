"""Carries commands out on what Kueue runs: whole gangs by deactivate and reactivate, single pods by its hot swap.

Exact seats where our AdmissionCheck stands on the queue. `kueue_check` answers that check; this asks it.
"""

from __future__ import annotations

from collections.abc import Callable

from trimtab.clock import Clock
from trimtab.model.advice import Subject
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, Move, Recommendation, Refusal, Way
from trimtab.schedulers.kueue_moves import NAME, Carry, Parts
from trimtab.schedulers.kueue_release import Release
from trimtab.schedulers.kueue_rules import Case, first_no
from trimtab.schedulers.kueue_scope import Scope
from trimtab.schedulers.kueue_way import way_of
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.view import View
from trimtab.settings import KubernetesSettings


class KueueScheduler:
    """The scheduler of workloads that a Kueue Workload stands for."""

    name = NAME

    def __init__(self, pen: Pen, view: Callable[[], View], settings: KubernetesSettings, clock: Clock) -> None:
        """`view`: what the last snapshot was made of."""
        self._pen = pen
        self._view = view
        self._settings = settings
        self._clock = clock
        self._scope: Scope | None = None
        self._swapped: dict[str, float] = {}

    def refusal(self, move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
        """Why Kueue would not do it, or somebody would take the seat; or None."""
        scope = self._of_view()
        subject = Subject(cluster=snapshot.cluster, workload=move.workload)
        one = scope.of(move.workload or "")
        if one is None:
            sentence = f"Not moved: Kueue has no Workload for {move.workload}."
            return Refusal(rule="kueue_gone", sentence=sentence, subject=subject)
        workload = snapshot.workload_by_id.get(move.workload or "")
        declares = workload is not None and workload.can_replace_pod
        case = Case(move=move, one=one, scope=scope, settings=self._settings, can_replace_pod=declares)
        no = first_no(case)
        return None if no is None else Refusal(rule=no[0], sentence=no[1], subject=subject)

    def way(self, recommendation: Recommendation, snapshot: ClusterSnapshot) -> Way:
        """The lines that Kueue's part comes down to, how it goes and how long it takes."""
        return way_of(recommendation, snapshot, self._of_view(), self._settings)

    def hold(self, command: Command) -> None:
        """Cordon, stop the queues where somebody could take what is freed, and write the seats down."""
        Carry(**self._parts(command)).hold()

    def submit(self, command: Command) -> None:
        """The next step: stop, wait until it has stopped fully, seat, start again, open the queues."""
        Carry(**self._parts(command)).submit()

    def release(self, command: Command) -> None:
        """Give everything back that bears the command's mark; what it stopped starts again."""
        Release(**self._parts(command)).release()

    def _parts(self, command: Command) -> Parts:
        return {
            "pen": self._pen,
            "scope": self._of_view(),
            "settings": self._settings,
            "command": command,
            "swapped": self._swapped,
        }

    def _of_view(self) -> Scope:
        """What the view says about queues, worked out once a view."""
        view = self._view()
        if self._scope is None or self._scope.view is not view:
            self._scope = Scope(view=view, gpu_resource=self._settings.gpu_resource)
        return self._scope
