"""People, faults, crashes and other movers in any order: budgets hold at every moment, nothing of a person's is undone,
and when it comes to rest nothing of ours is left behind.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builders import a_finding
from tests.issue.scenes import Scene, evacuation, relocation, room_making
from tests.issue.test_crash import Fuse, Killed, check

from trimtab.errors import DecisionRefused, SchedulerRefused, SchedulerUnavailable
from trimtab.issue import decisions
from trimtab.model.cluster import WorkloadState
from trimtab.model.command import CommandState, Mode
from trimtab.model.spending import cordons_of
from trimtab.model.standing import StandingKind
from trimtab.plan.budget import budget_of
from trimtab.settings import IssueSettings, PlanSettings

IS_LONG = bool(os.environ.get("TRIMTAB_LONG"))
PLAN = PlanSettings(moves_max=2, cordoned_ratio_max=1.0, cordoned_max=2, cordoned_ratio_max_per_rack=1.0)
IDS = st.integers(1, 3)
ERRORS = st.sampled_from((SchedulerUnavailable("no answer"), SchedulerRefused("no")))


class Daemon(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fuse = Fuse()
        self.scene: Scene = evacuation()
        self.scene.ledger.at_point = self.scene.scheduler.at_point = self.fuse
        self.sofias: set[str] = set()

    @precondition(lambda self: not self.scene.ledger.stored)
    @rule(make=st.sampled_from((evacuation, room_making, relocation)), mode=st.sampled_from((Mode.APPROVE, Mode.ACT)))
    def choose(self, make, mode):
        short = IssueSettings(mode=mode, settle_seconds_max=60, hold_seconds_max=60, retry_seconds=30)
        self.scene = make(settings=short)
        self.fuse, self.sofias = Fuse(), set()
        self.scene.ledger.at_point = self.scene.scheduler.at_point = self.fuse

    @rule(seconds=st.sampled_from((5, 10, 20, 400)), count=st.integers(1, 6))
    def beat(self, seconds, count):
        for _ in range(count):
            self.beat_once(seconds)

    def beat_once(self, seconds):
        scene, now = self.scene, self.scene.clock.now()
        recent = scene.ledger.commands(live_only=False, since=now - timedelta(days=1))
        scene.budget = budget_of(scene.scheduler.snapshot(), recent, PLAN, now, ledger=scene.ledger.ledger)
        try:
            scene.beat(seconds=seconds)
        except Killed:
            scene.restart()

    @rule(data=st.data())
    def a_node_fails(self, data):
        """Its finding opens; never two on one node."""
        name = data.draw(st.sampled_from(sorted(self.scene.scheduler.nodes)))
        findings = self.scene.findings
        if all(one.finding.subject.node != name for one in findings):
            number = max([one.id for one in (*findings, *self.scene.closed)], default=0) + 1
            new = a_finding(id=number, node=name, incident=f"i{number}", loss_gpus=8.0)
            self.scene.findings = (*findings, new)

    @rule()
    def all_is_repaired(self):
        self.scene.close_findings()

    @rule(points=st.integers(1, 30))
    def crash_soon(self, points):
        self.fuse.set(points)

    @rule(number=IDS, what=st.sampled_from(("approve", "approve", "approve", "reject", "undo", "snooze")))
    def decide(self, number, what):
        scene, by = self.scene, {"who": "mei", "now": self.scene.clock.now()}
        with contextlib.suppress(DecisionRefused, Killed):
            if what == "approve":
                command = scene.ledger.command(number)
                fingerprint = command.recommendation.fingerprint if command else ""
                decisions.approve(scene.ledger, number, fingerprint=fingerprint, settings=scene.settings, **by)
            elif what == "snooze":
                decisions.snooze(scene.ledger, number, seconds=60, **by)
            else:
                getattr(decisions, what)(scene.ledger, number, reason="", **by)

    @rule(is_paused=st.sampled_from((False, False, False, True)))
    def pause(self, is_paused):
        self.scene.ledger.paused = is_paused

    @rule(mode=st.sampled_from((Mode.ACT, Mode.ACT, Mode.ACT, *Mode)))
    def change_mode(self, mode):
        self.scene.restart(IssueSettings(mode=mode, settle_seconds_max=60, hold_seconds_max=60, retry_seconds=30))

    @rule(error=ERRORS, which=st.sampled_from(("hold", "submit", "release")))
    def scheduler_fails_once(self, error, which):
        setattr(self.scene.scheduler, f"next_{which}_error", error)

    @rule(is_stuck=st.sampled_from((False, False, True)))
    def nothing_starts(self, is_stuck):
        self.scene.scheduler.is_stuck = is_stuck

    @rule(data=st.data(), is_ready=st.booleans())
    def a_node_goes_or_comes(self, data, is_ready):
        name = data.draw(st.sampled_from(sorted(self.scene.scheduler.nodes)))
        node = self.scene.scheduler.nodes[name]
        self.scene.scheduler.nodes[name] = replace(node, is_ready=is_ready)

    @rule(data=st.data())
    def a_person_cordons_or_uncordons(self, data):
        name = data.draw(st.sampled_from(sorted(self.scene.scheduler.nodes)))
        scheduler = self.scene.scheduler
        if scheduler.nodes[name].is_cordoned:
            scheduler.uncordon(name)
            self.sofias.discard(name)
        else:
            scheduler.cordon(name)
            self.sofias.add(name)

    @rule(data=st.data())
    def a_job_ends(self, data):
        jobs = self.scene.scheduler.jobs
        job = jobs[data.draw(st.sampled_from(sorted(jobs)))]
        if job.state is WorkloadState.RUNNING:
            jobs[job.id] = replace(job, state=WorkloadState.FINISHED, placements=())

    @invariant()
    def no_gpu_is_held_twice(self):
        jobs = self.scene.scheduler.jobs.values()
        held = [(place.node, gpu) for job in jobs for place in job.placements for gpu in place.gpus]
        assert len(held) == len(set(held))

    @rule(data=st.data())
    def a_job_is_scaled_down(self, data):
        jobs = self.scene.scheduler.jobs
        job = jobs[data.draw(st.sampled_from(sorted(jobs)))]
        if job.state is WorkloadState.RUNNING and job.pods > 1:
            jobs[job.id] = replace(job, pods=job.pods - 1, placements=job.placements[:-1])

    @invariant()
    def a_persons_cordon_stays(self):
        for name in self.sofias:
            assert self.scene.scheduler.nodes[name].cordoned_by == "sofia"

    @invariant()
    def a_vetoed_node_is_left_alone(self):
        now = self.scene.clock.now()
        for veto in self.scene.ledger.standing(StandingKind.VETO):
            if veto.until > now and veto.name in self.scene.scheduler.nodes:
                node = self.scene.scheduler.nodes[veto.name]
                assert node.cordoned_by is None or not node.cordoned_by.startswith("trimtab:")

    @invariant()
    def no_budget_is_exceeded(self):
        begun = [one for one in self.scene.ledger.commands(live_only=True) if one.state.is_begun and not one.is_dry]
        moves = [move for one in begun for move in one.recommendation.moves if move.before]
        assert len(moves) <= PLAN.moves_max
        ours = {
            node.name for node in self.scene.scheduler.nodes.values() if str(node.cordoned_by).startswith("trimtab:")
        }
        ours |= {node for one in begun for node in cordons_of(one.recommendation.writes)}
        assert len(ours) <= 2

    def teardown(self):
        """Nobody does anything any more: what has begun ends, and what a crash left is given back."""
        self.fuse.set(0)
        scheduler = self.scene.scheduler
        scheduler.is_stuck = False
        scheduler.next_hold_error = scheduler.next_submit_error = scheduler.next_release_error = None
        self.scene.restart(IssueSettings(mode=Mode.RECOMMEND, settle_seconds_max=60, hold_seconds_max=60))
        for _ in range(16):
            self.scene.beat()
        check(self.scene)
        assert not [one for one in self.scene.ledger.commands(live_only=True) if one.state is not CommandState.PROPOSED]


Daemon.TestCase.settings = settings(
    max_examples=150 if IS_LONG else 30, stateful_step_count=200, deadline=None, suppress_health_check=list(HealthCheck)
)
TestDaemon = Daemon.TestCase
