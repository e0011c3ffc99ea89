"""Writes on nodes and pods that every adapter needs: cordon, taint, label, keep seats, tolerate, evict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from msgspec.structs import replace as changed

from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerGone, SchedulerRefused, SchedulerVetoed
from trimtab.model.command import Command, CommandState, Seat
from trimtab.schedulers import face
from trimtab.schedulers.face import (
    CLAIM,
    SEAT,
    Face,
    face_of,
    mark_of_value,
    patch_between,
    taint_text,
    value_of,
)
from trimtab.schedulers.kubernetes import PatchKind, Resource
from trimtab.schedulers.marks import CORDON, Hold, hold_of
from trimtab.schedulers.objects import NodeObject, Pod
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.pods_write import NO_SCHEDULE, Pods
from trimtab.settings import KubernetesSettings

NODES = Resource(group="", version="v1", plural="nodes", is_namespaced=False)
HOLD_HOURS = 1.0
"""A hold that does not last says this much as its expiry; its command's own limits are shorter."""
TRIES = 3

Edit = Callable[[Face], Face]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Writes on nodes by one command each, signed in the node's annotation; all of it safe to repeat."""

    pen: Pen
    settings: KubernetesSettings

    @property
    def prefix(self) -> str:
        """Prefix of all our names."""
        return self.settings.prefix

    def cordon(
        self, command: Command, node: str, *, lasts: bool = False, why: str = "", until: datetime | None = None
    ) -> None:
        """Close a node. One that a person has closed stays theirs; one that a person opened again is refused."""

        def edit(old: Face) -> Face:
            hold = old.hold(command.mark)
            if CORDON in hold.what and not old.is_closed:
                raise SchedulerVetoed(
                    f"Somebody uncordoned {node} since {command.name} cordoned it: a veto.", node=node
                )
            if old.is_closed and not old.is_closed_by_us(self.prefix):
                return old.with_hold(self._signed(old, command, CLAIM, why=why, until=until))
            closed = replace(old, is_closed=True)
            return closed.with_hold(self._signed(old, command, CORDON, lasts=lasts, why=why, until=until))

        self._change(command, node, f"cordon {node}", edit)

    def uncordon(self, command: Command, node: str) -> None:
        """Take this command's own cordon off; the node opens if no other command of ours and no person closed it."""
        self._change(
            command, node, f"uncordon {node}", lambda old: face.opened(old, command.mark, self.prefix), lax=True
        )

    def open(self, command: Command, node: str, *, lifts: str | None = None) -> None:
        """Return a node to service: the lasting cordon of the command with the mark `lifts` goes, by default every one.

        A person's cordon stays, and what another command of ours still needs closed stays closed.
        """

        def edit(old: Face) -> Face:
            if old.is_closed and not old.is_closed_by_us(self.prefix):
                raise SchedulerRefused(f"{node} was cordoned by {old.closer or 'somebody else'}, and stays so.")
            busy = next((one.mark for one in old.holds if CORDON in one.what and not one.lasts), None)
            if busy is not None:
                raise SchedulerBusy(f"{node} is being emptied by {busy}; it opens when that is over.")
            for mark in [hold.mark for hold in old.holds if hold.mark == (lifts or hold.mark)]:
                old = face.opened(old, mark, self.prefix)
            return old

        self._change(command, node, f"uncordon {node}", edit)

    def taint(self, command: Command, node: str, suffix: str, value: str = "", effect: str = NO_SCHEDULE) -> None:
        """Put our taint `<prefix>/<suffix>` on a node, beside everybody's. Its value is by default the command's."""
        taint = {"key": f"{self.prefix}/{suffix}", "value": value or value_of(command.mark), "effect": effect}

        def edit(old: Face) -> Face:
            same = next((one for one in old.taints if (one["key"], one["effect"]) == (taint["key"], effect)), None)
            if same is not None and taint_text(same) != taint_text(taint):
                # A node has one taint a key and effect; whoever came first keeps it until it is over.
                holder = mark_of_value(str(same.get("value") or "")) or taint_text(same)
                raise SchedulerBusy(f"{node} is kept by {holder} already.")
            if same is None and f"taint {taint_text(taint)}" in old.hold(command.mark).what:
                raise SchedulerVetoed(
                    f"Somebody took {taint_text(taint)} off {node} since {command.name} set it: a veto.", node=node
                )
            added = () if same is not None else (taint,)
            tainted = replace(old, taints=(*old.taints, *added))
            return tainted.with_hold(self._signed(old, command, f"taint {taint_text(taint)}"))

        self._change(command, node, f"taint {node} with {taint_text(taint)}", edit)

    def untaint(self, command: Command, node: str, suffix: str) -> None:
        """Take this command's taints of one key off."""
        start = f"taint {self.prefix}/{suffix}="
        self._drop(command, node, f"untaint {node}: {self.prefix}/{suffix}", start)

    def label(self, command: Command, node: str, suffix: str, value: str = "") -> None:
        """Put our label `<prefix>/<suffix>` on a node (a seat label for a node selector)."""
        key, text = f"{self.prefix}/{suffix}", value or value_of(command.mark)

        def edit(old: Face) -> Face:
            if old.labels.get(key, text) != text:
                raise SchedulerBusy(f"{node} bears {key}={old.labels[key]} already.")
            labelled = replace(old, labels={**old.labels, key: text})
            return labelled.with_hold(self._signed(old, command, f"label {key}={text}"))

        self._change(command, node, f"label {node} with {key}={text}", edit)

    def reserve(self, command: Command, workload: str, seats: Iterable[Seat]) -> None:
        """Write down for whom room is kept, node by node. That alone keeps nobody out: a taint or a cordon does."""
        by_node: dict[str, list[Seat]] = {}
        for seat in seats:
            by_node.setdefault(seat.node, []).append(seat)
        for node, kept in by_node.items():
            self._reserve_on(command, node, workload, kept)

    def give_back(self, command: Command, node: str) -> None:
        """Take off what this command holds on a node: all of it, or all but a lasting cordon once it has settled."""
        keeps_cordon = command.state is CommandState.SETTLED
        self._change(
            command,
            node,
            f"release {node}",
            lambda old: face.given_back(
                self._with_orphans(old, command), command.mark, self.prefix, keeps_cordon=keeps_cordon
            ),
            lax=True,
        )

    def bearing(self, command: Command, nodes: Mapping[str, NodeObject]) -> tuple[str, ...]:
        """Nodes that this command may hold something on: those that it names, and those that bear its mark."""
        named = [write.node for write in command.recommendation.writes if write.node]
        named += [seat.node for write in command.recommendation.writes for seat in write.seats]
        value = value_of(command.mark)
        for name, node in nodes.items():
            tainted = any(one.key.startswith(f"{self.prefix}/") and one.value == value for one in node.spec.taints)
            if tainted or hold_of(node.metadata.annotations, self.prefix, command.mark):
                named.append(name)
        return tuple(dict.fromkeys(named))

    # --- pods: as `Pods` says

    @property
    def pods(self) -> Pods:
        """Writes on pods, with the same pen."""
        return Pods(pen=self.pen, settings=self.settings)

    def tolerate(
        self, command: Command, pod: Pod, *, suffix: str = SEAT, value: str = "", effect: str = NO_SCHEDULE
    ) -> bool:
        """Let one pod that is not placed yet pass our taint."""
        return self.pods.tolerate(command, pod, suffix=suffix, value=value, effect=effect)

    def nominate(self, command: Command, pod: Pod, node: str) -> bool:
        """Have the scheduler try this node first for a pod that waits."""
        return self.pods.nominate(command, pod, node)

    def evict(self, command: Command, pod: Pod) -> bool:
        """Ask for a pod's eviction, with its uid compared first; a disruption budget's no is SchedulerBusy."""
        return self.pods.evict(command, pod)

    def give_back_pods(self, command: Command, pods: Iterable[Pod]) -> None:
        """Take this command's signatures and nominations off those of the pods that bear them."""
        self.pods.give_back(command, pods)

    # --- one change of one node

    def _reserve_on(self, command: Command, node: str, workload: str, kept: Sequence[Seat]) -> None:
        def edit(old: Face) -> Face:
            hold = self._signed(old, command, workload=workload)
            return old.with_hold(changed(hold, seats=tuple(kept)))

        gpus = sum(seat.gpus for seat in kept)
        self._change(command, node, f"reserve {gpus} GPUs on {node} for {workload}", edit)

    def _drop(self, command: Command, node: str, what: str, start: str) -> None:
        def edit(old: Face) -> Face:
            hold = old.hold(command.mark)
            ours = tuple(one for one in hold.what if one.startswith(start))
            rest = tuple(one for one in hold.what if one not in ours)
            return face.taken_off(old, changed(hold, what=ours)).with_hold(changed(hold, what=rest))

        self._change(command, node, what, edit, lax=True)

    def _signed(
        self,
        old: Face,
        command: Command,
        *what: str,
        lasts: bool = False,
        why: str = "",
        until: datetime | None = None,
        workload: str | None = None,
    ) -> Hold:
        """This command's hold with more in it. What is signed once keeps its reason, its moment and its end."""
        hold = old.hold(command.mark, workload)
        now = self.pen.clock.now()
        lasts = lasts or hold.lasts
        ends = hold.until or until or now + timedelta(hours=HOLD_HOURS)
        return changed(
            hold,
            what=tuple(dict.fromkeys((*hold.what, *what))),
            why=hold.why or why or command.recommendation.reason or command.recommendation.sentence,
            at=hold.at or now,
            until=until if lasts else ends,
            lasts=lasts,
        )

    def _with_orphans(self, old: Face, command: Command) -> Face:
        """Taints and labels that bear this command's value though somebody wiped the annotation: claimed again."""
        value, start = value_of(command.mark), f"{self.prefix}/"
        found = [
            f"taint {taint_text(one)}"
            for one in old.taints
            if str(one["key"]).startswith(start) and one.get("value") == value
        ]
        found += [f"label {key}={text}" for key, text in old.labels.items() if key.startswith(start) and text == value]
        return old.with_hold(self._signed(old, command, *found)) if found else old

    def _change(self, command: Command, node: str, what: str, edit: Edit, *, lax: bool = False) -> None:
        """Read, edit, patch; again when somebody wrote in between. `lax`: a node that is gone is fine."""
        path = NODES.path(name=node)
        for attempt in range(TRIES):
            try:
                found = self.pen.api.get(path)
                old = face_of(found, self.prefix)
                body = patch_between(found, old, edit(old), self.prefix)
                if body:
                    self.pen.patch(command, path, body, PatchKind.JSON, what=what)
            except SchedulerGone as error:
                if lax:
                    return
                raise SchedulerRefused(f"There is no node {node} any more: {error}") from error
            except SchedulerConflict:
                if attempt == TRIES - 1:
                    raise
            else:
                return
