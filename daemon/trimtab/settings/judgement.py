"""Thresholds of the detectors, what the planner may propose, and what may be carried out."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from trimtab.model.command import Mode
from trimtab.settings.shape import Count, Natural, NotNegative, Positive, Ratio, Section


class DetectSettings(Section, frozen=True, kw_only=True):
    """Thresholds of the detectors; each default has its source in docs."""

    interval_seconds: Positive = 5.0
    """How often the window is judged: half a report interval, so that nothing waits for long."""
    span_seconds: Positive = 900.0
    """How much history one judgement sees."""
    silent_after_seconds: Positive = 60.0
    """node_silent: six missed reports at 10 s."""
    idle_after_seconds: Positive = 1800.0
    """idle_gpu: allocated and no GPU evidence of work for this long."""
    thermal_after_seconds: Positive = 300.0
    """hotspot: hardware thermal slowdown active this long."""
    power_brake_after_seconds: Positive = 300.0
    """hotspot: hardware power brake active this long."""
    straggler_after_seconds: Positive = 120.0
    """straggler: a rank slow against its gang for this long."""
    straggler_ratio: Ratio = 0.9
    """A rank counts as slow under this share of its gang's median clock or activity."""
    fragmentation_after_seconds: Positive = 120.0
    """fragmentation: a waiting job that placement alone keeps waiting for this long."""
    hung_after_seconds: Positive = 300.0
    """hung_job: every rank busy by utilisation and at rest by power and memory this long; a slow step is shorter."""
    clock_skew_seconds_max: Positive = 300.0
    """clock_skew: from here windows use our receipt time."""


class PlanSettings(Section, frozen=True, kw_only=True):
    """What the planner may propose and how much at once."""

    interval_seconds: Positive = 5.0
    """How often a snapshot is taken and each command takes a step."""
    expiry_seconds: Positive = 900.0
    """A recommendation not approved by then lapses (and is made anew if it still holds)."""
    moves_max: Natural = 4
    """Workloads under way at once."""
    cordoned_ratio_max: Ratio = 0.1
    """Share of nodes that may stand cordoned by us."""
    cordoned_max: Natural | None = None
    """Most nodes that may stand cordoned by us, whatever the share allows; unset = the share alone."""
    cordoned_ratio_max_per_pool: Ratio = 0.2
    """The same share within one pool (one node at least): a rule gone wrong must not take all of one GPU model."""
    cordoned_max_per_pool: Natural | None = None
    """Most nodes of one pool, whatever the share allows; unset = the share alone."""
    cordoned_ratio_max_per_rack: Ratio = 0.5
    """The same share within one rack (one node at least): what hits a whole rack is for a person to look at."""
    cordoned_max_per_rack: Natural | None = None
    """Most nodes of one rack, whatever the share allows; unset = the share alone."""
    cordons_per_hour_max: Natural | None = 10
    """Nodes cordoned within one hour; more is an incident that no rule should answer alone."""
    moved_gpus_ratio_max: Ratio | None = None
    """Share of the GPUs in use whose work may be stopped at once; unset = `moves_max` alone."""
    moves_per_hour_max: Natural | None = 30
    """Workloads stopped within one hour."""
    moves_max_per_queue: Natural | None = None
    """Workloads of one queue under way at once; unset = no limit of its own."""
    moves_ratio_max_per_queue: Ratio | None = None
    """Share of one queue's running workloads under way at once (one at least); unset = no limit of its own."""
    moves_per_workload_per_day: Natural = 3
    """A job that is moved again and again loses more than it gains."""
    node_attempts_per_day: Natural = 3
    """After so many attempts on one node a person is to look."""
    spares_kept: Natural = 1
    """Whole free nodes left alone by consolidation and relocation, for faults."""
    checkpoint_wait_seconds_max: Positive = 1800.0
    """How long a move may wait for a checkpoint."""
    restart_seconds_default: Positive = 300.0
    """Restart of a job where nothing is known: scheduling, image, NCCL start, checkpoint read."""
    is_finding_needed_to_make_room: bool = True
    """Jobs are moved to make room only for one that a fragmentation finding speaks for: it has waited long enough."""
    horizon_hours: Positive = 24.0
    """Gain of ending a loss is counted over this time at most."""


class IssueSettings(Section, frozen=True, kw_only=True):
    """What may be carried out."""

    mode: Mode = Mode.RECOMMEND
    """observe, recommend, approve or act; per rule below."""
    rules: dict[str, Mode] = field(default_factory=dict)
    """Rule -> mode, capped by `mode`."""
    is_dry_run: bool = False
    """What begins goes through all steps and writes nothing. What had begun before is finished or undone for real."""
    settle_seconds_max: Positive = 900.0
    """A submitted command that has not settled by then is abandoned and released."""
    hold_seconds_max: Positive = 1800.0
    """Room held longer than this without a move is given back."""
    quiet_seconds_after_no: Positive = 3600.0
    """What a person rejected or undid is not proposed again for this long."""
    retry_seconds: Positive = 300.0
    """What failed or was refused by the scheduler is not tried again sooner."""
    missed_quiet_seconds: Positive = 30.0
    """After somebody else took a seat, the rule proposes no move for so long; twice as long after each next miss."""
    missed_quiet_seconds_max: Positive = 1800.0
    """Longest such pause: by then the stream that takes the seats has changed, or a person has looked."""
    veto_seconds: Positive = 7 * 86400.0
    """A node that a person opened after we had cordoned it is not cordoned again for the same cause: a week, so that
    whoever was on call need not say it twice."""
    notice_seconds: NotNegative = 0.0
    """How long before a move its owner is told, at least; 0 = told, then moved."""
    breaker_cordons: Count = 5
    """A detector's rule that made so many cordons, and most of them, within the window stops until a person looks."""
    breaker_ratio: Ratio = 0.5
    """Share of all cordons within the window that is more than one rule may make."""
    breaker_window_seconds: Annotated[float, Meta(gt=0, le=86400)] = 3600.0
    """How far back cordons count for the breaker; a day at most, which is how long they are kept at hand."""
