"""What trimtab would do about it: moves, recommendations with gain and cost, commands and outcomes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.model.advice import Subject
from trimtab.model.standing import OwnerAnswer

MARK = re.compile(r"^trimtab:(?:([0-9a-f]+):)?R([0-9]+)$")


def mark_of(ledger: str, command_id: int) -> str:
    """`trimtab:3fa9c1:R11`; without a ledger `trimtab:R11`."""
    return f"trimtab:{ledger}:R{command_id}" if ledger else f"trimtab:R{command_id}"


def read_mark(mark: str) -> tuple[str, int] | None:
    """Ledger and command id of a mark of ours; None where it is none."""
    found = MARK.match(mark)
    return None if found is None else (found[1] or "", int(found[2]))


class MoveKind(StrEnum):
    """Kinds that we can carry out."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"
    MIGRATE = "migrate"
    CONSOLIDATE = "consolidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Room for one pod: a node and how many GPUs of it."""

    pod: str
    node: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One workload and where each of its pods sits before and after. A cordon has no workload."""

    kind: MoveKind
    node: str | None = None
    workload: str | None = None
    controller: str | None = None
    before: tuple[Seat, ...] = ()
    after: tuple[Seat, ...] = ()
    replaced: tuple[str, ...] = ()
    """Pods that alone are replaced while the others run on; empty = the whole workload stops and starts again."""


class Verb(StrEnum):
    """One write to a scheduler."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    RESERVE = "reserve"
    """Keep room on a node for one workload."""
    SUSPEND = "suspend"
    RESUME = "resume"
    """Let a workload start again, on given seats."""
    REPLACE = "replace"
    """Take single pods off; their controller makes new ones, on given seats."""
    TAINT_DEVICE = "taint_device"
    """Keep new work off one GPU of a node (`gpu`), where GPUs are handed out by DRA; the next one ends that."""
    UNTAINT_DEVICE = "untaint_device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One exact write. `lasts` = stays after the command settled (a cordon of a bad node), undone by `undo` only."""

    verb: Verb
    node: str | None = None
    workload: str | None = None
    seats: tuple[Seat, ...] = ()
    lasts: bool = False
    lifts: str | None = None
    """Of an uncordon: the mark of the command whose cordon it lifts."""
    gpu: str | None = None
    """UUID of the GPU that a device taint is for."""

    @property
    def text(self) -> str:
        """The write in words, as shown and fingerprinted."""
        seats = ", ".join(f"{seat.gpus} GPUs on {seat.node} for {seat.pod}" for seat in self.seats)
        subject = self.node if self.verb in (Verb.CORDON, Verb.UNCORDON) else self.workload
        if self.verb in (Verb.TAINT_DEVICE, Verb.UNTAINT_DEVICE):
            subject = f"{self.gpu} of {self.node}"
        return f"{self.verb} {subject}" + (f": {seats}" if seats else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a recommendation gives. `gpu_hours` over `horizon_hours`; `formula` shows the numbers."""

    gpu_hours: float
    horizon_hours: float
    gpus_unlocked: int = 0
    formula: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a recommendation takes: work since the last checkpoint plus the restart, in GPU-hours."""

    gpu_hours: float
    restart_seconds: float = 0.0
    pods_disturbed: int = 0
    workloads_disturbed: tuple[str, ...] = ()
    formula: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A no with a name and a sentence that carries the number that decided."""

    rule: str
    sentence: str
    subject: Subject | None = None
    purpose: str | None = None
    """The recommendation that it stands against (`make-room:research/eval-9`), where it is one."""


class RecommendationKind(StrEnum):
    """Kinds that we can carry out, then kinds that stay advice always."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"
    MIGRATE = "migrate"
    CONSOLIDATE = "consolidate"
    RESET = "reset"
    REBOOT = "reboot"
    RUN_DIAGNOSTICS = "run_diagnostics"
    REPLACE = "replace"
    CHANGE_QUOTA = "change_quota"
    RESIZE = "resize"
    CHANGE_SETTINGS = "change_settings"

    @property
    def is_advice_only(self) -> bool:
        """Whether we never carry it out ourselves."""
        return self not in (
            RecommendationKind.CORDON,
            RecommendationKind.UNCORDON,
            RecommendationKind.DRAIN,
            RecommendationKind.MIGRATE,
            RecommendationKind.CONSOLIDATE,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What would be better, as a value. `purpose` is stable over beats: the same advice keeps its id.

    `rule` is what made it: evacuate, relocate, consolidate. `findings` are ids of open findings. `not_before` waits
    for a checkpoint. The fingerprint is of the exact writes and their targets; an approval binds to it.
    """

    kind: RecommendationKind
    rule: str
    purpose: str
    subject: Subject
    sentence: str
    reason: str
    findings: tuple[int, ...]
    moves: tuple[Move, ...]
    writes: tuple[Write, ...]
    gain: Gain
    cost: Cost
    created_at: datetime
    expires_at: datetime
    not_before: datetime | None = None
    for_workload: str | None = None
    """The waiting workload that this makes room for."""
    against: tuple[str, ...] = ()
    if_nothing_is_done: str = ""
    steps: tuple[str, ...] = ()
    """The writes in the scheduler's own words, as lines to copy; empty where it has none."""
    way: str = ""
    """How the scheduler carries it out, in a sentence with its expected time."""
    way_seconds: float | None = None
    """Expected seconds from the first stop until all of it runs again; None = unknown."""
    gates: Mapping[str, str] = field(default_factory=dict)
    """Node -> what must be proved before what this takes out returns to service."""
    causes: tuple[str, ...] = ()
    """Detectors' rules of the findings that it rests on: `device_fault`. Breakers and vetoes go by them."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 (16 hex digits) over the exact writes, in our words and in the scheduler's."""
        lines = [f"{write.text}{' lasts' if write.lasts else ''}" for write in self.writes]
        return hashlib.sha256("\n".join((*lines, *self.steps)).encode()).hexdigest()[:16]

    def writes_for(self, controller: str) -> tuple[Write, ...]:
        """The writes that one controller's adapter does: those on its workloads, and those on nodes alone."""
        others = {move.workload for move in self.moves if move.controller != controller and move.workload}
        return tuple(write for write in self.writes if write.workload is None or write.workload not in others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a scheduler's adapter carries a recommendation out.

    `steps` are the exact writes, as lines to copy; `seconds` is until the work runs again, None where unknown.
    """

    steps: tuple[str, ...] = ()
    sentence: str = ""
    seconds: float | None = None
    against: tuple[str, ...] = ()


class CommandState(StrEnum):
    """The life of a command."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    HELD = "held"
    CONFIRMED = "confirmed"
    SUBMITTED = "submitted"
    SETTLED = "settled"
    REJECTED = "rejected"
    REFUSED = "refused"
    EXPIRED = "expired"
    ABANDONED = "abandoned"
    MISSED = "missed"
    UNDONE = "undone"

    @property
    def is_begun(self) -> bool:
        """Whether something may have been written and the command must be finished or undone."""
        return self in (CommandState.HELD, CommandState.CONFIRMED, CommandState.SUBMITTED)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself."""
        return not self.is_begun and self not in (CommandState.PROPOSED, CommandState.APPROVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A recommendation being carried out (or waiting to be). Shown as `R11`.

    What it writes bears its mark, `trimtab:3fa9c1:R11`: `ledger` tells two daemons on one cluster apart.
    """

    id: int
    recommendation: Recommendation
    state: CommandState
    changed_at: datetime
    approved_by: str | None = None
    approved_at: datetime | None = None
    approved_fingerprint: str | None = None
    submitted_at: datetime | None = None
    settled_at: datetime | None = None
    snoozed_until: datetime | None = None
    undo_requested_by: str | None = None
    reason: str = ""
    """Why it is in this state: a person's words, a refusal's sentence, what was seen."""
    attempts: int = 0
    is_dry: bool = False
    """Begun in a dry run: nothing of it is ever written, and nothing has to be given back."""
    ledger: str = ""
    """Id of the ledger that it is in; made with the database."""
    answers: Mapping[str, OwnerAnswer] = field(default_factory=dict)
    """Workload -> what its owner was asked before the move, and answered."""
    noticed_at: datetime | None = None
    """When the owners of what it moves were told."""
    questioned_at: datetime | None = None
    """When a node that it had cordoned was first seen open; a second look decides."""
    given_back_at: datetime | None = None
    """When what was to last was given back: returned to service, repaired, gone with its node, taken over."""

    @property
    def name(self) -> str:
        """`R11`."""
        return f"R{self.id}"

    @property
    def is_live(self) -> bool:
        """Whether something is still to happen to it: not over, or it holds a node and was asked to be undone."""
        can_be_undone = self.state in (CommandState.SETTLED, CommandState.MISSED)
        return not self.state.is_over or (can_be_undone and self.undo_requested_by is not None)

    @property
    def lasting_nodes(self) -> tuple[str, ...]:
        """Nodes that it leaves cordoned once it is over."""
        writes = self.recommendation.writes
        return tuple(one.node for one in writes if one.verb is Verb.CORDON and one.lasts and one.node is not None)

    @property
    def lasting_gpus(self) -> tuple[tuple[str, str], ...]:
        """(Node, UUID) of the GPUs that it leaves out of service alone once it is over."""
        taints = [one for one in self.recommendation.writes if one.verb is Verb.TAINT_DEVICE and one.lasts]
        return tuple((one.node, one.gpu) for one in taints if one.node and one.gpu)

    @property
    def is_holding(self) -> bool:
        """Whether it is over and keeps nodes out: settled, or its seats were taken after the stop (the fault stays)."""
        is_over = self.state is CommandState.SETTLED or (
            self.state is CommandState.MISSED and self.submitted_at is not None
        )
        is_given_back = self.is_dry or self.given_back_at is not None
        return is_over and not is_given_back and bool(self.lasting_nodes or self.lasting_gpus)

    @property
    def mark(self) -> str:
        """How our writes are marked on the scheduler's objects."""
        return mark_of(self.ledger, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a settled (or failed) command, against its forecast; a forecast is None where there was none."""

    command_id: int
    measured_at: datetime
    is_good: bool
    sentence: str
    gpu_hours_lost: float
    gpu_hours_saved: float
    gpus_unlocked: int
    seconds_to_settle: float
    seconds_forecast: float | None = None
    gpu_hours_lost_forecast: float | None = None
    gpu_hours_saved_forecast: float | None = None
    seats_planned: int = 0
    seats_hit: int = 0
    """Of the seats planned, how many the work really sits on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may still be done now; None = no limit. Counted down in planning, enforced again at the edge."""

    moves_left: int | None = None
    nodes_cordonable: int | None = None
    moves_left_by_queue: Mapping[str, int] = field(default_factory=dict)
    moves_left_by_workload: Mapping[str, int] = field(default_factory=dict)
    node_attempts_left: Mapping[str, int] = field(default_factory=dict)
    spares_kept: int = 0
    """Whole free nodes that consolidation and relocation leave alone, for faults."""
    gpus_movable: int | None = None
    """GPUs whose work may still be stopped at once."""
    moves_left_this_hour: int | None = None
    cordons_left_this_hour: int | None = None
    nodes_cordonable_by_pool: Mapping[str, int] = field(default_factory=dict)
    """By pool, as far as it is limited; a pool that is not named has no limit of its own."""
    nodes_cordonable_by_rack: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the planner says this beat: recommendations, and every no with its sentence."""

    made_at: datetime
    recommendations: tuple[Recommendation, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    is_whole: bool = True
    """False when nothing could be judged (a stale snapshot): standing proposals then stay as they are."""

    @property
    def sentence(self) -> str:
        """One line for the log."""
        return f"{len(self.recommendations)} recommendations, {len(self.refusals)} refusals"


class Mode(StrEnum):
    """What the daemon may do."""

    OBSERVE = "observe"
    RECOMMEND = "recommend"
    APPROVE = "approve"
    ACT = "act"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """Who did what, why; append-only."""

    at: datetime
    who: str
    what: str
    why: str = ""
    command_id: int | None = None
    finding_id: int | None = None
