"""Gives back what a command holds on Kueue's objects, in whatever state it ended; what its jobs still need stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trimtab.errors import SchedulerError
from trimtab.model.command import CommandState
from trimtab.schedulers.kueue_moves import Carry, seat_check
from trimtab.schedulers.kueue_objects import CLUSTER_QUEUES, LOCAL_QUEUES
from trimtab.schedulers.kueue_seats import Seats, seat_key
from trimtab.schedulers.kueue_stops import Stop
from trimtab.schedulers.marks import CORDON, hold_of, read_holds


class Release(Carry):
    """One command that is over."""

    def release(self) -> None:
        """Everything back: nodes first, then what stands still, then the queues, so that they are served as before."""
        errors: list[SchedulerError] = []

        def attempt(act: Callable[[], object]) -> None:
            try:
                act()
            except SchedulerError as error:
                errors.append(error)

        for node in self.nodes.bearing(self.command, self.scope.view.nodes):
            attempt(partial(self._give_back_node, node))
        for workload in self._bearing():
            attempt(partial(self._give_back, workload))
        own = self.queues_of(self.moves)
        nodes = {seat.node for move in self.moves for seat in (*move.before, *move.after)}
        queues = [(CLUSTER_QUEUES, key) for key in (*own, *self.scope.rivals(own, nodes))] if own else []
        locals_ = [(LOCAL_QUEUES, key) for key in sorted(self.locals_ahead())]
        for kind, key in dict.fromkeys((*self.queues.bearing(), *queues, *locals_)):
            attempt(partial(self.queues.open, kind, key))
        if errors:
            raise errors[0]

    def _bearing(self) -> tuple[str, ...]:
        named = [write.workload for write in self.writes if write.workload]
        signed = [
            workload
            for workload, one in self.scope.view.kueue_of.items()
            if hold_of(one.metadata.annotations, self.pen.prefix, self.command.mark) is not None
        ]
        return tuple(dict.fromkeys((*named, *signed)))

    def _give_back_node(self, node: str) -> None:
        found = self.scope.view.nodes.get(node)
        holds = read_holds(found.metadata.annotations, self.pen.prefix) if found is not None else ()
        mine = [one for one in holds if one.mark == self.command.mark]
        if not self._has_settled or not any(one.workload for one in mine):
            self.nodes.give_back(self.command, node)
        elif any(CORDON in one.what and not one.lasts for one in mine):
            self.nodes.uncordon(self.command, node)  # and the seat label stays signed

    @property
    def _has_settled(self) -> bool:
        return self.command.state is CommandState.SETTLED

    def _give_back(self, workload: str) -> None:
        stop = self.read(workload)
        if stop is None:
            return
        if stop.is_in_other_hands:  # check and labels are by now the other command's
            self.on(workload, partial(Stop.give_back, keeps=()))
            return
        check = seat_check(stop.now, self.pen.prefix)
        if check is not None and stop.now.has_quota and not stop.now.is_finished:
            # Its pods ask for the label whenever they start anew: it stays until the job ends. Given back before, only
            # the signature goes; `KueueCheck` takes the label off when nobody asks for it any more.
            label = f"label {seat_key(self.pen.prefix, stop.now)}"
            self.on(workload, partial(Stop.give_back, keeps=("podSetUpdates", label) if self._has_settled else ()))
            return
        if check is not None and not stop.now.is_finished:
            Seats(pen=self.pen, view=self.scope.view, check=check).answer(
                self.command, stop.now, "Pending", updates=[], message=f"{self.command.name} is over: anywhere"
            )
        planned = {seat.node for move in self.victims if move.workload == workload for seat in move.after}
        self.seats.take(self.command, stop.now, also=planned if self.settings.admission_check else ())
        self.on(workload, partial(Stop.give_back, keeps=()))
