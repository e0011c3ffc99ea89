"""A drain as the planner makes it, and what drives the adapter over a hall as the issuer does, killed or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.schedulers.hands import Desk, a_command
from tests.schedulers.plain_hall import NAMESPACE, PlainHall
from tests.schedulers.views import view_of

from trimtab.errors import SchedulerBusy, SchedulerConflict
from trimtab.model.command import Command, Move, MoveKind, Seat, Verb, Write
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.plain import Plain

BEATS = 12


class Killed(BaseException):
    """The process ends here."""


def a_move(hall: PlainHall, kind: str, name: str, to: dict[str, str], *, replaced: Sequence[str] = ()) -> Move:
    before = tuple(
        Seat(pod=pod["metadata"]["name"], node=pod["spec"].get("nodeName", ""), gpus=_gpus(pod))
        for pod in hall.pods(name)
    )
    after = tuple(replace(seat, node=to.get(seat.node, seat.node)) for seat in before)
    return Move(
        kind=MoveKind.DRAIN,
        workload=f"{NAMESPACE}/{kind}/{name}",
        controller="kubernetes",
        before=before,
        after=after,
        replaced=tuple(replaced),
    )


def _gpus(pod: dict[str, Any]) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])


def a_drain(*moves: Move, cordons: Sequence[str] = ()) -> Command:
    writes = [Write(verb=Verb.CORDON, node=node, lasts=True) for node in cordons]
    writes += [
        Write(
            verb=Verb.RESERVE,
            workload=move.workload,
            seats=tuple(seat for seat in move.after if not move.replaced or seat.pod in move.replaced),
        )
        for move in moves
    ]
    for move in moves:
        if move.replaced:
            writes.append(Write(verb=Verb.REPLACE, workload=move.workload, seats=move.after))
        elif move.before:
            writes.append(Write(verb=Verb.SUSPEND, workload=move.workload))
            writes.append(Write(verb=Verb.RESUME, workload=move.workload, seats=move.after))
    return a_command(writes=writes, moves=moves)


class Driver:
    """A hall and an adapter that is made anew after every kill: it remembers nothing."""

    def __init__(self, hall: PlainHall) -> None:
        self.hall = hall
        self.start()

    def start(self) -> None:
        self.desk = Desk(self.hall.kube)
        self.plain = Plain(self.desk.pen, lambda: view_of(self.hall.kube), self.desk.settings, self.desk.clock)

    def again(self, do: Callable[[Command], None], command: Command) -> None:
        try:
            do(command)
        except Killed:
            self.start()
        except (SchedulerBusy, SchedulerConflict):
            pass

    def hold(self, command: Command) -> None:
        for _ in range(3):
            self.again(self.plain.hold, command)

    def run(self, command: Command, is_done: Callable[[], bool], beats: int = BEATS) -> int:
        """Beats until it has come true."""
        for beat in range(beats):
            if is_done():
                return beat
            self.again(self.plain.submit, command)
            self.hall.step()
        assert is_done(), f"not after {beats} beats"
        return beats

    def release(self, command: Command) -> None:
        for _ in range(3):
            self.again(self.plain.release, command)

    def left(self) -> dict[str, list[str]]:
        """What bears our mark: object -> what."""
        kinds = ("nodes", "pods", "jobs.batch", "deployments.apps", "statefulsets.apps", "jobsets.jobset.x-k8s.io")
        found: dict[str, list[str]] = {}
        for kind in kinds:
            for one in self.hall.kube.all(kind):
                name = f"{kind} {one['metadata']['name']}"
                holds = read_holds(one["metadata"].get("annotations") or {}, "trimtab")
                words = [what for hold in holds for what in (*hold.what, *(["seats"] if hold.seats else []))]
                taints = one["spec"].get("taints") or () if kind == "nodes" else ()
                words += [f"bare {taint['key']}" for taint in taints if taint["key"].startswith("trimtab/")]
                if words:
                    found[name] = words
        return found
