"""ROOT of the cluster: ship -> store -> detect -> plan -> issue -> show, as three beats on threads of their own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from trimtab import __version__
from trimtab.clock import Clock, iso
from trimtab.context import Context
from trimtab.detect.detector import Detector
from trimtab.detect.fragmentation import stranded_by_size
from trimtab.detect.others import with_alerts
from trimtab.detect.tracker import FLAP_SECONDS, SETTLE_SECONDS, Tracker
from trimtab.errors import SchedulerError, StoreError
from trimtab.issue.issuer import Advance, Issuer
from trimtab.issue.policy import quiet_purposes
from trimtab.issue.vetoes import in_force
from trimtab.journaling import log_changes, remember
from trimtab.link import Link
from trimtab.loop import Beat, moving
from trimtab.model.advice import FindingState, OpenFinding, Subject
from trimtab.model.board import ReleaseRow
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Plan, Refusal
from trimtab.model.devices import NodeDevices, devices_of
from trimtab.model.outbox import Posting
from trimtab.model.reading import Delivery
from trimtab.model.standing import StandingKind
from trimtab.model.window import Window
from trimtab.plan.planner import Planner
from trimtab.recall import DAY, Past, budget_left, past, standing, taken_out
from trimtab.runner import Ran, Tally, run_all
from trimtab.settings import DaemonSettings
from trimtab.ship.inbox import Inbox
from trimtab.show.board import BoardBox, build_board
from trimtab.show.circumstances import Circumstances, pause_sentences, release_row
from trimtab.show.oncall.bell import Bell
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.ring import Ring
from trimtab.store.rollup_shift import Shift

log = structlog.get_logger()

REFILL_REPORTS = 500
SNAPSHOT_AGE_SECONDS_MIN = 30.0
BLIND_SECONDS = 60.0
"""So long without a whole snapshot is no hiccup: from then on what has begun is given back when its time is over."""
JUDGED_AGE_SECONDS_MAX = 300.0
"""Findings that were judged longer ago, or by an earlier daemon only, are no ground for a move."""
NO_SCHEDULER = (
    "No scheduler is set up: who holds which GPU is as the reports say, and nothing is planned. Where there is one, "
    'add to the daemon\'s settings: [kubernetes] kubeconfig = "/etc/trimtab/kubeconfig" (empty inside the cluster).'
)


@dataclass(slots=True)
class Counts:
    """Counts over the life of the daemon; /metrics reads them."""

    reports_stored_total: int = 0
    reports_duplicate_total: int = 0
    scheduler_failures_total: int = 0
    command_changes_total: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Commands that came into a state, by rule and state."""


@dataclass(slots=True, kw_only=True)
class Parts:
    """What the beats work with; put together in `assembly.py`."""

    settings: DaemonSettings
    clock: Clock
    inbox: Inbox
    journal: Journal
    ring: Ring
    history: History
    detectors: tuple[Detector, ...]
    planner: Planner
    issuer: Issuer
    link: Link
    box: BoardBox
    context: Context | None = None
    tally: Tally = field(default_factory=Tally)
    is_ring_filled: bool = False
    """The ring was kept up while this daemon stood by."""
    rollup: Shift | None = None
    bell: Bell | None = None
    """On-call; None = nobody is told."""
    unread: Callable[[], tuple[str, ...]] = tuple
    """A sentence for each exporter that is not read now."""


class Central:
    """The daemon's three beats and what they share: values that are published whole, never edited in place."""

    def __init__(self, parts: Parts) -> None:
        """Take up where the last daemon left off: open findings from the store, the ring from the journal."""
        self._parts = parts
        self.counts = Counts()
        self.window: Window | None = None
        self.snapshot: ClusterSnapshot | None = None
        self.budget: Budget | None = None
        self.beats: tuple[Beat, ...] = ()
        """What runs the beats, for their last sentences; given by whoever made them."""
        self._publishing = threading.Lock()
        self._doubt = NO_SCHEDULER if parts.link.reader is None else "The scheduler has not been read yet"
        self._advance = Advance(commands=(), refusals=(), sentence="")
        self._plan: Plan | None = None
        self._judged_at: dict[str, datetime] = {}
        self._failures: dict[str, str] = {}
        self._command_bell_error: str | None = None
        self._past = Past()
        self._release: ReleaseRow | None = None
        self._span_seconds = max(detector.span_seconds for detector in parts.detectors)
        now = parts.clock.now()
        closed = parts.history.findings(state=FindingState.CLOSED, since=now - timedelta(seconds=FLAP_SECONDS))
        self.tracker = Tracker(
            (*parts.history.open_findings(), *closed),
            parts.history.next_finding_id(),
            settled_at=now + timedelta(seconds=SETTLE_SECONDS),
        )
        self._findings: tuple[OpenFinding, ...] = self.tracker.open_findings
        remember(self._findings, parts.history.commands(live_only=True))
        if not parts.is_ring_filled:
            self.refill(now)

    def refill(self, now: datetime) -> None:
        """Fill the ring from the journal, so that a restart does not make the daemon blind."""
        chunk: list[Delivery] = []
        for delivery in self._parts.journal.tail(now - timedelta(seconds=self._span_seconds)):
            chunk.append(delivery)
            if len(chunk) >= REFILL_REPORTS:
                moving(f"reading reports of {iso(delivery.received_at)} back")
                self._parts.ring.add(chunk)
                chunk = []
        self._parts.ring.add(chunk)

    # --- the beats

    def remember(self) -> str:
        """Ingest: one transaction, acknowledged after it, whatever the other beats do."""
        deliveries = self._parts.inbox.drain()
        if not deliveries:
            return self._parts.journal.idle()
        try:
            appended = self._parts.journal.append(deliveries)
        except StoreError as error:
            self._parts.inbox.fail(deliveries, error)
            raise
        self._parts.inbox.acknowledge(deliveries)
        self._parts.ring.add(appended.new)
        if self._parts.rollup is not None:
            self._parts.rollup.add(appended.new)
        self.counts.reports_stored_total += appended.stored
        self.counts.reports_duplicate_total += appended.duplicates
        return appended.sentence

    def judge(self) -> str:
        """What is wrong."""
        parts = self._parts
        now = parts.clock.now()
        window = parts.ring.window(now, span_seconds=self._span_seconds, snapshot=self._fresh_snapshot(now))
        if parts.context is not None:
            window = replace(window, alerts=parts.context.alerts())
        judges = [(one.name, lambda one=one: tuple(one.detect(window))) for one in parts.detectors]
        ran = run_all(judges, clock=parts.clock, tally=parts.tally)
        findings = [finding for one in ran for finding in one.result or ()]
        judged = {one.name for one in ran if one.error is None}
        changes = self.tracker.update(window, findings, judged=judged)
        if parts.context is not None:
            parts.context.see(changes.after, window.snapshot)
        rung = self._ring(lambda bell: bell.hear(changes, window.snapshot))
        parts.history.record_findings(changes, rung.result or ())
        self.tracker.commit(changes)
        remember((*changes.after, *changes.closed), self._advance.commands)
        log_changes(changes)
        self._judged_at |= dict.fromkeys(judged, now)
        ran.append(rung)
        self._log_failures({one.name: one.error for one in ran if one.error is not None})
        self.window, self._findings = window, (*changes.after, *self._closed_within_the_hour(now))
        said = [changes.sentence, *(f"{one.name} failed: {one.error}" for one in ran if one.error is not None)]
        self._publish(now)
        return "; ".join(said)

    def _ring(self, hear: Callable[[Bell], tuple[Posting, ...]]) -> Ran[tuple[Posting, ...]]:
        """What on-call is to be told; should that fail, it is told at the next beat, and all else goes on."""
        bell = self._parts.bell
        if bell is None:
            return Ran(name="bell")
        return run_all([("bell", lambda: hear(bell))], clock=self._parts.clock, tally=self._parts.tally)[0]

    def _ring_commands(self, now: datetime) -> None:
        rung = self._ring(lambda bell: tuple(bell.hear_commands(self._advance.commands, now)))
        if rung.error is not None and rung.error != self._command_bell_error:
            log.warning("people cannot be told of commands; it is tried again", error=rung.error)
        self._command_bell_error = rung.error
        self._parts.history.post(rung.result or ())

    @property
    def is_bell_failing(self) -> bool:
        """Whether people could not be told of the last findings or commands."""
        return "bell" in self._failures or self._command_bell_error is not None

    def rebalance(self) -> str:
        """What would be better, and one step of what was agreed. No whole snapshot, no move."""
        parts = self._parts
        if parts.link.reader is None:
            return "there is no scheduler to plan with"
        moving("the scheduler's snapshot")
        try:
            snapshot = parts.link.reader.snapshot()
        except SchedulerError as error:
            self.counts.scheduler_failures_total += 1
            self._doubt = str(error)
            self._go_on_blind()
            raise
        self.snapshot, self._doubt = snapshot, ""
        now = parts.clock.now()
        budget = self.budget = budget_left(parts.history, parts.settings.plan, snapshot, now)
        findings = self.tracker.open_findings
        quiet = quiet_purposes(parts.history.commands(live_only=False, since=now - DAY), parts.settings.issue, now)
        plan = self._why_not_judged(snapshot, now) or parts.planner.propose(
            snapshot, findings, budget, standing(parts.history), taken_out(parts.history, snapshot), quiet=quiet
        )
        attended = self._attend()
        was, self._advance = self._advance, parts.issuer.advance(plan, snapshot, budget, findings)
        remember(findings, self._advance.commands)
        self._tell(was)
        self._ring_commands(now)
        self._plan = self._advance.plan or plan
        self._release = self._release_now(now)
        if _news(was) != _news(self._advance) or self._parts.box.latest() is None:
            # A board costs a second at 100,000 GPUs: without news it waits for the next judgement.
            self._past = past(parts.history, self._advance.commands)
            self._publish(now)
        return "; ".join(said for said in (plan.sentence, attended, self._advance.sentence) if said)

    def _attend(self) -> str:
        """What waits for our answer each beat, whatever else cannot be seen."""
        attend = self._parts.link.attend
        try:
            return attend() if attend is not None else ""
        except SchedulerError as error:
            return f"not answered: {error}"

    def _go_on_blind(self) -> None:
        """No whole snapshot: nothing new, but nobody's work may be left stopped for ever either."""
        self._attend()
        last = self.snapshot
        if last is not None and (self._parts.clock.now() - last.taken_at).total_seconds() > BLIND_SECONDS:
            self._parts.issuer.give_up(last)

    # --- what the beats share

    def _fresh_snapshot(self, now: datetime) -> ClusterSnapshot | None:
        """The last snapshot, unless it is too old to say who holds what."""
        snapshot = self.snapshot
        oldest_seconds = max(SNAPSHOT_AGE_SECONDS_MIN, 4 * self._parts.settings.plan.interval_seconds)
        if snapshot is None or (now - snapshot.taken_at).total_seconds() > oldest_seconds:
            return None
        return snapshot

    def _why_not_judged(self, snapshot: ClusterSnapshot, now: datetime) -> Plan | None:
        """An empty plan that begins nothing, while the findings are not those of now; what has begun goes on."""
        rules = {one.finding.rule for one in self.tracker.open_findings} & {one.name for one in self._parts.detectors}
        oldest = now - timedelta(seconds=JUDGED_AGE_SECONDS_MAX)
        late = sorted(rule for rule in rules if rule not in self._judged_at or self._judged_at[rule] < oldest)
        if self._judged_at and not late:
            return None
        at = self._judged_at.get(late[0]) if late else None
        since = "since this daemon started" if at is None else f"since {iso(at)}"
        refusal = Refusal(
            rule="not_judged",
            sentence=f"Nothing proposed: {late[0] if late else 'no detector'} has not judged {since}, "
            "so what is open may be over.",
            subject=Subject(cluster=snapshot.cluster),
        )
        return Plan(made_at=snapshot.taken_at, refusals=(refusal,), is_whole=False)

    def _log_failures(self, failures: dict[str, str]) -> None:
        """A warning when a detector begins to fail or fails in another way; its findings stay as they were."""
        for name, error in failures.items():
            if self._failures.get(name) != error:
                log.warning("a detector failed; its findings stay as they were", detector=name, error=error)
        self._failures = failures

    def _tell(self, was: Advance) -> None:
        """Count what has changed of a command and say it on the cluster's own objects; what stood before is no news."""
        if not was.sentence:
            return
        lease, tell = self._parts.link.lease, self._parts.link.tell
        if lease is not None and lease.epoch is None:
            tell = None  # whoever acts tells
        states = {command.id: command.state for command in was.commands}
        for command in self._advance.commands:
            if states.get(command.id) is command.state:
                continue
            self.counts.command_changes_total[command.recommendation.rule, command.state.value] += 1
            if tell is not None:
                tell(command, states.get(command.id))

    def devices(self) -> Mapping[str, NodeDevices]:
        """What the agents say now of who holds which GPU, by node."""
        window = self.window
        return devices_of(window) if window is not None else {}

    def _closed_within_the_hour(self, now: datetime) -> tuple[OpenFinding, ...]:
        return self._parts.history.findings(state=FindingState.CLOSED, since=now - timedelta(hours=1), limit=200)

    def _why_paused(self) -> tuple[Refusal, ...]:
        if self._advance.pause is None:
            return ()
        subject = Subject(cluster=self._parts.settings.cluster)
        return (Refusal(rule="paused", sentence=f"Nothing new begins: {self._advance.pause}", subject=subject),)

    def _release_now(self, now: datetime) -> ReleaseRow | None:
        """How far a release of everything is; one that has ended is shown for an hour."""
        released = self._advance.released
        if released is not None:
            return release_row(
                self._release,
                asked_by=released.asked_by,
                asked_at=released.asked_at,
                at=now,
                given_back=released.given_back,
                left=released.left,
                is_done=released.is_done,
            )
        is_old = self._release is not None and self._release.at < now - timedelta(hours=1)
        return None if is_old else self._release

    def _circumstances(self, now: datetime) -> Circumstances:
        history, link, context = self._parts.history, self._parts.link, self._parts.context
        is_paused = history.is_paused()
        return Circumstances(
            pauses=pause_sentences(
                paused=history.paused_by() if is_paused else None,
                is_paused=is_paused,
                cluster_reason=self.snapshot.pause_reason if self.snapshot is not None else None,
                releases=history.standing(StandingKind.RELEASE),
            ),
            why_not_written=link.lease.why_not() if link.lease is not None else None,
            breakers=history.standing(StandingKind.BREAKER),
            vetoes=tuple(in_force(history.standing(StandingKind.VETO), now).values()),
            release=self._release,
            notes=link.notes(),
            unread=self._parts.unread(),
            quiet=context.quiet(now) if context is not None else (),
            alerts=context.shown() if context is not None else (),
        )

    def _publish(self, now: datetime) -> None:
        with self._publishing:
            settings = self._parts.settings
            snapshot = self._fresh_snapshot(now)
            window = self.window or self._parts.ring.window(now, span_seconds=60.0, snapshot=snapshot)
            refusals = (*self._why_paused(), *(self._plan.refusals if self._plan else ()), *self._advance.refusals)
            around = self._circumstances(now)
            board = build_board(
                cluster=settings.cluster,
                at=now,
                window=window,
                snapshot=snapshot,
                findings=with_alerts(self._findings, window),
                commands=self._advance.commands,
                mode=settings.issue.mode,
                is_paused=self._advance.pause is not None or bool(around.pauses),
                outcomes=self._past.outcomes,
                records=self._past.records,
                refusals=refusals,
                rule_modes=settings.issue.rules,
                stranded=stranded_by_size(snapshot, spares_kept=settings.plan.spares_kept) if snapshot else {},
                blind=(self._doubt,) if self._doubt else (),
                beats={beat.name: beat.last_sentence for beat in self.beats},
                silent_after_seconds=settings.detect.silent_after_seconds,
                circumstances=around,
                notice_seconds=settings.issue.notice_seconds,
                version=__version__,
                clock_speed=settings.simulated.clock_speed if settings.simulated else None,
            )
            self._parts.box.publish(board)
            if self._parts.rollup is not None and (snapshot is not None or self._parts.link.reader is None):
                # While a scheduler that there is cannot be read, what stood goes on.
                self._parts.rollup.see(board, snapshot)


def _news(advance: Advance) -> tuple[object, ...]:
    """What of a beat is worth a new board at once."""
    return advance.commands, advance.pause, advance.released
