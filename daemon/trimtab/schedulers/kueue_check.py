"""The controller of our AdmissionCheck: says that it lives, answers whoever waits for it, sweeps seats nobody sits on.

Level-triggered: each beat it looks at what is there. It fails closed: while no daemon runs, nothing new is admitted in
the queues that ask for the check; what runs goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import structlog

from trimtab.clock import Clock, iso
from trimtab.errors import SchedulerConflict, SchedulerError, SchedulerGone, SchedulerUnavailable
from trimtab.model.advice import Subject
from trimtab.model.command import Command, CommandState, Cost, Gain, Recommendation, RecommendationKind
from trimtab.schedulers.kubernetes import PatchKind
from trimtab.schedulers.kueue_objects import CHECKS, WORKLOADS, KueueWorkload, path_of
from trimtab.schedulers.kueue_seats import Seats, is_seat_key, seat_key
from trimtab.schedulers.marks import SUSPEND, annotation, hold_text, read_holds
from trimtab.schedulers.objects import Loose
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.view import View
from trimtab.settings import KubernetesSettings

log = structlog.get_logger()


def controller_name(prefix: str) -> str:
    """`trimtab/seats`: what `spec.controllerName` of the AdmissionCheck has to be."""
    return f"{prefix}/seats"


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueCheck:
    """Call `step` each beat while this daemon may write, after the snapshot and before commands go on."""

    pen: Pen
    view: Callable[[], View]
    settings: KubernetesSettings
    clock: Clock

    def step(self) -> str:
        """Answer all that wait; what was done in one line, empty where there was nothing to do.

        What cannot be written now is said and tried again next beat: commands go on without it.
        """
        said: list[str] = []
        try:
            said += self._answers()
            said += self._swept()
        except SchedulerError as error:
            said.append(f"the AdmissionCheck waits: {error}")
        return "; ".join(said)

    def why_not(self) -> str | None:
        """Why nothing is answered, as a sentence for a person; None = all is well, or the check is not asked for."""
        name = self.settings.admission_check
        if not name:
            return None
        check = self.view().kind(CHECKS).get(name)
        wanted = controller_name(self.pen.prefix)
        if check is None:
            return f"There is no AdmissionCheck {name}. Create it with spec.controllerName {wanted}."
        found = str(check.spec.get("controllerName") or "")
        if found != wanted:
            return f"AdmissionCheck {name} belongs to {found}, not to {wanted}: it is not answered."
        return None

    # --- the check

    def _answers(self) -> Iterator[str]:
        name = self.settings.admission_check
        if not name:
            return
        reason = self.why_not()
        if reason is not None:
            yield reason
            return
        view = self.view()
        command = self._command(f"answer the AdmissionCheck {name}")
        self._say_alive(command, view, view.kind(CHECKS)[name])
        seats = Seats(pen=self.pen, view=view, check=name)
        count = 0
        for one in view.kind(WORKLOADS).values():
            if self._waits(KueueWorkload.of(one)):
                count += self._answer(command, seats, KueueWorkload.of(one).key)
        if count:
            yield f"{count} {'Workload' if count == 1 else 'Workloads'} let in by {name}"

    def _waits(self, one: KueueWorkload) -> bool:
        """Reserved, not being evicted, and waiting for us. Anything earlier Kueue sets back."""
        check = one.check(self.settings.admission_check)
        is_asked = check is not None and check.state == "Pending"
        return is_asked and one.is_active and one.has_quota and not one.is_evicted and not one.is_finished

    def _answer(self, command: Command, seats: Seats, key: str) -> bool:
        """Read afresh, and let in anywhere: seats of a move are asked for while it stands still, not here.

        What an earlier move asked for is taken back: Kueue has chosen new nodes without it.
        """
        try:
            one = KueueWorkload(self.pen.api.get(path_of(seats.view, WORKLOADS, key)))
            if not self._waits(one):
                return False
            seats.ready(command, one, is_exact=False, message="let in")
        except SchedulerUnavailable:
            raise
        except SchedulerError as error:
            log.warning("admission check not answered", workload=key, error=str(error))
            return False
        return True

    def _say_alive(self, command: Command, view: View, check: Loose) -> None:
        """A check that is not Active closes every queue that asks for it."""
        active = check.conditions.get("Active")
        if active is not None and active.status == "True":
            return
        name = check.metadata.name
        path = path_of(view, CHECKS, name, "status")
        condition = {
            "type": "Active",
            "status": "True",
            "reason": "Answered",
            "message": f"Answered by {self.pen.prefix}",
            "lastTransitionTime": iso(self.clock.now()),
        }
        body = {
            "apiVersion": f"kueue.x-k8s.io/{path.split('/')[3]}",
            "kind": "AdmissionCheck",
            "metadata": {"name": name},
            "status": {"conditions": [condition]},
        }
        what = f"activate AdmissionCheck {name}"
        self.pen.patch(command, path, body, PatchKind.APPLY, what=what, params={"force": "true"})

    # --- seats that nobody sits on any more

    def _swept(self) -> Iterator[str]:
        view = self.view()
        command = self._command("the job that sat there has ended or moved")
        workloads = [KueueWorkload.of(one) for one in view.kind(WORKLOADS).values()]
        needed = {seat_key(self.pen.prefix, one) for one in workloads if self._sits(one)}
        seats = Seats(pen=self.pen, view=view, check=self.settings.admission_check)
        for key, nodes in sorted(_labels(view, self.pen.prefix).items()):
            if key not in needed:
                seats.take_off(command, key, nodes)
                yield f"seat {key} taken off {', '.join(sorted(nodes))}"
        for one in workloads:
            if not self._sits(one) and any(hold.lasts for hold in read_holds(one.annotations, self.pen.prefix)):
                self._unsign(command, view, one)

    def _sits(self, one: KueueWorkload) -> bool:
        """Whether it asks for its seats, or a command has it in hand."""
        if one.is_finished:
            return False
        key = seat_key(self.pen.prefix, one)
        in_hand = any(hold.seats or SUSPEND in hold.what for hold in read_holds(one.annotations, self.pen.prefix))
        return in_hand or any(check.selects(key) for check in one.checks)

    def _unsign(self, command: Command, view: View, one: KueueWorkload) -> None:
        """Take what lasted off a Workload that sits there no more; where somebody else wrote meanwhile, next beat."""
        kept = [hold for hold in read_holds(one.annotations, self.pen.prefix) if not hold.lasts]
        metadata = {"resourceVersion": one.version, "annotations": {annotation(self.pen.prefix): hold_text(kept)}}
        path = path_of(view, WORKLOADS, one.key)
        with suppress(SchedulerConflict, SchedulerGone):
            self.pen.patch(command, path, {"metadata": metadata}, PatchKind.MERGE, what=f"let go of {one.key}")

    def _command(self, why: str) -> Command:
        """Writes of the check belong to no command; the audit wants to know why all the same."""
        now = self.clock.now()
        recommendation = Recommendation(
            kind=RecommendationKind.CHANGE_SETTINGS,
            rule="admission_check",
            purpose="admission-check",
            subject=Subject(cluster=""),
            sentence=why,
            reason=why,
            findings=(),
            moves=(),
            writes=(),
            gain=Gain(gpu_hours=0.0, horizon_hours=0.0),
            cost=Cost(gpu_hours=0.0),
            created_at=now,
            expires_at=now + timedelta(hours=1),
        )
        return Command(id=0, recommendation=recommendation, state=CommandState.SUBMITTED, changed_at=now)


def _labels(view: View, prefix: str) -> dict[str, list[str]]:
    """Seat label -> nodes that bear it."""
    found: dict[str, list[str]] = {}
    for name, node in view.nodes.items():
        for key in node.metadata.labels:
            if is_seat_key(prefix, key):
                found.setdefault(key, []).append(name)
    return found
