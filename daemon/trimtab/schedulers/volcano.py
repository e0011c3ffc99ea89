"""Volcano's adapter: seats kept by taint and toleration; pods evicted one by one, or gangs stopped and started whole.

Every call reads what is there and does the next write that can be done. What must outlive a crash stands on the Job in
the same patch as the change (`volcano_jobs`), or before the Command that follows it (`volcano_commands`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import structlog

from trimtab.clock import Clock
from trimtab.errors import SchedulerBusy, SchedulerError, SchedulerGone, SchedulerRefused, SchedulerVetoed
from trimtab.model.advice import Subject
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, Move, MoveKind, Recommendation, Refusal, Verb, Way
from trimtab.schedulers.face import Operation, value_of
from trimtab.schedulers.kubernetes import PatchKind
from trimtab.schedulers.marks import SUSPEND, Hold
from trimtab.schedulers.nodes import Nodes
from trimtab.schedulers.objects import Pod
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.view import View
from trimtab.schedulers.volcano_choice import (
    JOB_KIND,
    LEFT,
    Case,
    Facts,
    How,
    choose,
    leaving,
    left_nodes,
    why_never,
    why_not,
)
from trimtab.schedulers.volcano_commands import ABORT, RESTART, RESUME, Commands, shows
from trimtab.schedulers.volcano_health import why_lease_old
from trimtab.schedulers.volcano_jobs import (
    FINISHED,
    MOVE,
    Ref,
    VolcanoJob,
    back,
    is_at_zero,
    moved,
    note_of,
    pods_version,
    read_group,
    read_job,
    read_pods,
    rebuilt,
    ref_of,
    to_zero,
    zero_hold,
)
from trimtab.schedulers.volcano_room import why_queue_closed
from trimtab.schedulers.volcano_seats import STOP_SECONDS, Seats, seat_suffix
from trimtab.schedulers.volcano_trouble import why_slow
from trimtab.schedulers.volcano_ways import way_of
from trimtab.settings import KubernetesSettings

log = structlog.get_logger()

ZERO = str(How.ZERO)


class VolcanoScheduler:
    """Carries out commands for Volcano Jobs, and for what other controllers make and Volcano places."""

    name = "volcano"

    def __init__(self, pen: Pen, view: Callable[[], View], settings: KubernetesSettings, clock: Clock) -> None:
        """`view` is of the last whole snapshot; what decides a write is read afresh."""
        self._pen, self._view, self._settings, self._clock = pen, view, settings, clock
        self._nodes = Nodes(pen=pen, settings=settings)
        self._seats = Seats(nodes=self._nodes, view=view)
        self._commands = Commands(pen=pen)
        self._facts: Facts | None = None

    # --- opinions

    def refusal(self, move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
        """Why this adapter cannot carry the move out, or None."""
        if move.workload is None or move.controller != self.name:
            return None
        why = why_not(self._case(move))
        if why is None:
            return None
        name = ref_of(move.workload).name
        subject = Subject(cluster=snapshot.cluster, workload=move.workload)
        return Refusal(rule=self.name, sentence=f"Not moved: {name}: {why}.", subject=subject)

    def way(self, recommendation: Recommendation, snapshot: ClusterSnapshot) -> Way:
        """How it would carry its part of the advice out, as lines to copy, and the expected time."""
        cases = [self._case(move) for move in self._moves(recommendation)]
        return way_of(recommendation, cases, snapshot, prefix=self._settings.prefix, suffix=seat_suffix)

    # --- hold

    def hold(self, command: Command) -> None:
        """Keep every seat for its pod, close what is left behind, cordon what is to be cordoned; idempotent."""
        for write in command.recommendation.writes_for(self.name):
            if write.verb is Verb.CORDON and write.node:
                self._nodes.cordon(command, write.node, lasts=write.lasts)
            elif write.verb is Verb.RESERVE and write.workload:
                self._nodes.reserve(command, write.workload, write.seats)
                for node in dict.fromkeys(seat.node for seat in write.seats):
                    self._seats.keep(command, node)
        moves = self._moves(command.recommendation)
        for node in left_nodes(command.recommendation, moves):
            self._nodes.taint(command, node, LEFT)
        for move in moves:
            if not move.before:
                self._steer(command, move, self._pods(move))

    # --- submit

    def submit(self, command: Command) -> None:
        """Do the next write of each move that can be done now; the first trouble is raised when all were tried."""
        troubles: list[SchedulerError] = []
        for write in command.recommendation.writes_for(self.name):
            if write.verb is Verb.UNCORDON and write.node:
                self._nodes.open(command, write.node)
        for move in self._moves(command.recommendation):
            try:
                self._advance(command, move)
            except SchedulerError as error:
                troubles.append(error)
        _raise_worst(troubles)

    def _advance(self, command: Command, move: Move) -> None:
        writes = command.recommendation.writes
        verbs = {write.verb for write in writes if write.workload == move.workload}
        ref = ref_of(move.workload or "//")
        if ref.kind != JOB_KIND:
            self._advance_pods(command, move)
            return
        job = read_job(self._pen.api, ref, self._settings.prefix)
        if job is None or job.phase in FINISHED:
            return
        if self._is_wiped(command, job):
            raise SchedulerRefused(f"Somebody took our note off {job.name} while it stood at zero: it is given back.")
        other = next((one.mark for one in job.holds if one.mark != command.mark and one.what), None)
        if other is not None:
            raise SchedulerBusy(f"{other} has {job.name} in hand.")
        hold = job.hold(command.mark)
        if hold is not None:
            self._go_on(command, move, job, hold, resumes=Verb.RESUME in verbs)
        elif Verb.SUSPEND in verbs:
            self._stop(command, move, job, resumes=Verb.RESUME in verbs)
        elif Verb.REPLACE in verbs:
            self._replace(command, move, job)
        else:
            self._steer(command, move, self._pods(move))

    def _stop(self, command: Command, move: Move, job: VolcanoJob, *, resumes: bool) -> None:
        if is_at_zero(job):
            raise SchedulerRefused(f"{job.name} wants no pods: somebody scaled it to zero.")
        choice = choose(job, move, read_pods(self._pen.api, ref_of(move.workload or "//")), resumes=resumes)
        if choice.why_not is not None:
            raise SchedulerRefused(f"{job.name}: {choice.why_not}.")
        self._check(move)
        self._seats.check(command, move)
        why = command.recommendation.sentence
        if choice.how is How.ZERO:
            hold = zero_hold(job, command.mark, why, self._clock.now())
            self._patch(command, job, to_zero(job, hold), f"scale vcjob {job.name} to zero")
        elif choice.how is How.RESTART:
            since = pods_version(self._pen.api, ref_of(move.workload or "//"))
            self._commands.ask(command, job, RESTART, what=(MOVE,), why=why)
            if move.kind is not MoveKind.DRAIN:  # a drain asks for nothing but to be off the node
                self._seats.meet(command, move, since, pods=len(move.after), seconds=STOP_SECONDS)
        else:
            self._commands.ask(command, job, ABORT, what=(SUSPEND,), why=why)

    def _go_on(self, command: Command, move: Move, job: VolcanoJob, hold: Hold, *, resumes: bool) -> None:
        how, is_stopped = note_of(hold).how, SUSPEND in hold.what
        if how not in (ZERO, RESTART, ABORT, RESUME):
            raise SchedulerRefused(f"Our note on {job.name} was changed and cannot be read any more: it is given back.")
        if how == ZERO and is_stopped:
            if resumes:
                self._bring_back(command, move, job, hold)
        elif how == ZERO or (how in (RESTART, RESUME) and self._commands.follow(command, job, hold)):
            self._receive(command, move)
        elif how == ABORT:
            self._commands.follow(command, job, hold)

    def _receive(self, command: Command, move: Move) -> None:
        """Let in who is there, and meet who is about to come in the place of a pod that ends."""
        since = pods_version(self._pen.api, ref_of(move.workload or "//"))
        pods = self._pods(move)
        self._steer(command, move, pods)
        ending = sum(1 for pod in pods if pod.is_terminating)
        if ending and move.kind is not MoveKind.DRAIN:
            self._seats.meet(command, move, since, pods=ending)

    def _bring_back(self, command: Command, move: Move, job: VolcanoJob, hold: Hold) -> None:
        """From zero to the old numbers, once the last pod is gone."""
        if not is_at_zero(job):
            raise SchedulerVetoed(f"Somebody scaled {job.name} while it was stopped: left as it is.")
        pods = [pod for pod in self._pods(move) if not pod.is_over]
        if pods:
            self._complain(job, pods)
            return
        queue = self._view().kind("queues.scheduling.volcano.sh").get(job.queue)
        closed = why_queue_closed(queue, job.queue)
        if closed is not None:
            raise SchedulerBusy(f"{job.name} waits: {closed}.")
        self._seats.check(command, move)
        body = [*job.test(), *back(job, note_of(hold)), *job.signed(moved(hold))]
        since = pods_version(self._pen.api, ref_of(move.workload or "//"))
        self._patch(command, job, body, f"scale vcjob {job.name} back")
        self._seats.meet(command, move, since, pods=len(move.after))

    # --- pods

    def _replace(self, command: Command, move: Move, job: VolcanoJob) -> None:
        """One pod at a time: the next goes when all run again."""
        pods = self._pods(move)
        self._steer(command, move, pods)
        go = [pod for pod in leaving(move, pods) if not pod.is_terminating]
        if not go or not self._is_whole(job, pods):
            return
        choice = choose(job, move, pods)
        if choice.why_not is not None:
            raise SchedulerRefused(f"{job.name}: {choice.why_not}.")
        self._evict(command, move, go[0])

    def _is_whole(self, job: VolcanoJob, pods: Sequence[Pod]) -> bool:
        alive = [pod for pod in pods if not pod.is_over]
        is_steady = all(pod.status.phase == "Running" and not pod.is_terminating for pod in alive)
        over = sum(1 for pod in pods if pod.is_over)
        if not is_steady or len(alive) + over < job.pods_wanted or job.phase != "Running":
            return False
        group = read_group(self._pen.api, job)
        return group is not None and group.status.get("phase") == "Running"

    def _advance_pods(self, command: Command, move: Move) -> None:
        """Pods of other controllers: evicted one by one, each replacement let onto a seat."""
        pods = self._pods(move)
        self._steer(command, move, pods)
        go = leaving(move, pods)
        is_steady = all(pod.status.phase == "Running" and not pod.is_terminating for pod in pods)
        if go and is_steady and len(pods) >= len(move.before):
            self._evict(command, move, go[0])

    def _evict(self, command: Command, move: Move, pod: Pod) -> None:
        self._check(move)
        self._seats.check(command, move)
        node = self._view().nodes.get(pod.spec.node_name)
        value = value_of(command.mark)
        if node is not None and not node.spec.unschedulable and all(one.value != value for one in node.spec.taints):
            raise SchedulerBusy(f"{pod.spec.node_name} is open: {pod.metadata.name} would come back to it.")
        self._nodes.evict(command, pod)

    def _steer(self, command: Command, move: Move, pods: Sequence[Pod]) -> None:
        """Let each pod that waits for a place onto its own seat, and say what keeps it where nothing was left to do."""
        steered = self._seats.let_in(command, move, pods)
        job = self._case(move).job
        if not steered and job is not None and move.before:
            self._complain(job, pods)

    def _complain(self, job: VolcanoJob, pods: Sequence[Pod]) -> None:
        trouble = why_slow(job, pods, self._view(), self._clock.now())
        if trouble is not None:
            raise SchedulerBusy(f"{job.name} is not back: {trouble}.")

    # --- release

    def release(self, command: Command) -> None:
        """Withdraw what nobody took, start what was stopped, take notes and taints off; the last trouble is raised."""
        troubles: list[SchedulerError] = []
        for ref in self._jobs_of(command):
            try:
                self._give_back_job(command, ref)
            except SchedulerError as error:
                troubles.append(error)
        for node in self._nodes.bearing(command, self._view().nodes):
            try:
                self._nodes.give_back(command, node)
            except SchedulerError as error:
                troubles.append(error)
        try:
            self._nodes.give_back_pods(command, self._view().pods.values())
        except SchedulerError as error:
            troubles.append(error)
        _raise_worst(troubles)

    def _jobs_of(self, command: Command) -> Iterable[Ref]:
        """Volcano Jobs that the command names, and those that bear its mark."""
        named = [write.workload for write in command.recommendation.writes if write.workload]
        refs = [ref for ref in map(ref_of, dict.fromkeys(named)) if ref.kind == JOB_KIND]
        for found in self._view().kind("jobs.batch.volcano.sh").values():
            if command.mark in found.metadata.annotations.get(f"{self._settings.prefix}/hold", ""):
                refs.append(Ref(namespace=found.metadata.namespace, kind=JOB_KIND, name=found.metadata.name))
        return dict.fromkeys(refs)

    def _give_back_job(self, command: Command, ref: Ref) -> None:
        job = read_job(self._pen.api, ref, self._settings.prefix)
        if job is None:
            return
        hold = job.hold(command.mark)
        if hold is None:
            if self._is_wiped(command, job):
                note = rebuilt(job, self._pods_before(command, job))
                self._patch(command, job, [*job.test(), *back(job, note)], f"scale vcjob {job.name} back")
            return
        note = note_of(hold)
        how = note.how
        if not how and SUSPEND in hold.what and job.is_zeroed_by_us:
            note = rebuilt(job, self._pods_before(command, job))
        body = [*job.test(), *job.unsigned(command.mark)]
        if note.how == ZERO and SUSPEND in hold.what and is_at_zero(job):
            self._patch(command, job, [*body, *back(job, note)], f"scale vcjob {job.name} back")
            return
        if how in (ABORT, RESUME) and not self._is_resumed(command, job, hold):
            return
        if how == RESTART:
            self._commands.withdraw(command, job, hold)
        self._patch(command, job, body, f"forget the move of vcjob {job.name}")

    def _is_resumed(self, command: Command, job: VolcanoJob, hold: Hold) -> bool:
        """Whether what was aborted is on its way again; else the next step to that, and the note stays."""
        if note_of(hold).how == RESUME:
            return self._commands.follow(command, job, hold)
        if self._commands.withdraw(command, job, hold):
            return True
        if job.phase in ("Aborting", "Aborted"):
            self._commands.ask(command, job, RESUME, what=(SUSPEND,), why="given back")
            return False
        return shows(job, hold)

    # --- small things

    def _is_wiped(self, command: Command, job: VolcanoJob) -> bool:
        """Whether our note is gone from a job that stands at zero by us, as the command was to bring it."""
        workload = f"{job.metadata.get('namespace')}/{JOB_KIND}/{job.metadata.get('name')}"
        writes = command.recommendation.writes
        is_to_stop = any(one.verb is Verb.SUSPEND and one.workload == workload for one in writes)
        return is_to_stop and not job.is_signed and job.is_zeroed_by_us

    def _pods_before(self, command: Command, job: VolcanoJob) -> list[str]:
        """The job's pods as the move was planned."""
        workload = f"{job.metadata.get('namespace')}/{JOB_KIND}/{job.metadata.get('name')}"
        return [
            seat.pod
            for move in self._moves(command.recommendation)
            if move.workload == workload
            for seat in move.before
        ]

    def _case(self, move: Move) -> Case:
        view = self._view()
        if self._facts is None or self._facts.view is not view:
            self._facts = Facts(view=view, now=self._clock.now())
        return Case(move=move, facts=self._facts, prefix=self._settings.prefix)

    def _moves(self, recommendation: Recommendation) -> list[Move]:
        return [move for move in recommendation.moves if move.controller == self.name and move.workload]

    def _pods(self, move: Move) -> tuple[Pod, ...]:
        """A Volcano Job's pods as they are now; another's as the view has them, each read again before a write."""
        ref = ref_of(move.workload or "//")
        if ref.kind == JOB_KIND:
            return read_pods(self._pen.api, ref)
        return self._view().pods_of.get(move.workload or "", ())

    def _check(self, move: Move) -> None:
        """All that may have changed since the plan: what passes is waited for, what does not ends the command."""
        case = self._case(move)
        never = why_never(case)
        if never is not None:
            raise SchedulerRefused(f"{case.ref.text}: {never}.")
        now = why_not(case) or why_lease_old(self._pen.api, self._clock.now())
        if now is not None:
            raise SchedulerBusy(f"{case.ref.text} is not touched: {now}.")

    def _patch(self, command: Command, job: VolcanoJob, body: list[Operation], what: str) -> None:
        path = Ref(namespace=str(job.metadata["namespace"]), kind=JOB_KIND, name=str(job.metadata["name"])).path
        try:
            self._pen.patch(command, path, body, PatchKind.JSON, what=what)
        except SchedulerGone:
            return


def _raise_worst(troubles: Sequence[SchedulerError]) -> None:
    """A no for good before one that passes."""
    for error in sorted(troubles, key=lambda one: not isinstance(one, SchedulerRefused)):
        raise error
