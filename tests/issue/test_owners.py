"""The voice of a job's owner: opt-out, "not before T", ask first by a real webhook, notice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import a_node
from tests.issue.hook import Hook, a_hook
from tests.issue.scenes import Scene, evacuation, room_making, to

from trimtab.clock import SystemClock, iso
from trimtab.issue.asking import HttpAsker
from trimtab.model.cluster import OwnerWishes
from trimtab.model.command import CommandState, Mode
from trimtab.model.standing import Answer
from trimtab.settings import IssueSettings, KubernetesSettings

ACT = IssueSettings(mode=Mode.ACT)
APPROVE = IssueSettings(mode=Mode.APPROVE)
GANG = "research/llama-70b"
PATIENCE_SECONDS = 60.0


class Wall:
    """The scene's clock for moments, the machine's for waits: an answer takes real time."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.now = scene.clock.now
        self.monotonic_seconds = scene.clock.monotonic_seconds
        self.wall_seconds = SystemClock().wall_seconds


@pytest.fixture
def hook() -> Iterator[Hook]:
    with a_hook() as made:
        yield made


def asking(hook, *, settings=ACT, wishes=None, token=None, **changes) -> Scene:
    """An evacuation whose gang wants to be asked first."""
    scene = evacuation(settings=settings)
    gang = scene.scheduler.jobs[GANG]
    scene.scheduler.put(replace(gang, wishes=wishes or OwnerWishes(is_ask_first=True)))
    kubernetes = KubernetesSettings(**{"ask_url": hook.url, "ask_seconds_max": 300.0, **changes})
    scene.asker = HttpAsker(kubernetes, Wall(scene), token=token)
    scene.restart()
    return scene


def until(scene, is_true, *, seconds=1.0):
    """Beats of a second each until it is so; the hook's answer comes in real time."""
    patience = SystemClock().monotonic_seconds() + PATIENCE_SECONDS
    while not is_true():
        assert SystemClock().monotonic_seconds() < patience, scene.command()
        scene.beat(seconds=seconds)
        for thread in threading.enumerate():
            if thread.name.startswith("ask "):
                thread.join(0.05)


def is_in(scene, *states):
    return lambda: bool(scene.ledger.stored) and scene.command().state in states


def asked_by(scene):
    """The scene in the beat after its question went out."""
    until(scene, lambda: bool(scene.ledger.stored) and GANG in scene.command().answers)
    return scene.beat(seconds=1)


@pytest.mark.parametrize("settings", [ACT, APPROVE])
def test_a_yes_lets_the_move_begin_and_is_kept_with_the_command(hook, settings):
    scene = asking(hook, settings=settings, token="s3cret")
    hook.answers("yes", said="after lunch is fine")
    scene.beat()
    if settings is APPROVE:
        scene.approve()
    until(scene, is_in(scene, CommandState.SETTLED))
    answer = scene.command().answers[GANG]
    assert (answer.answer, answer.said) == (Answer.YES, "after lunch is fine")
    assert hook.tokens == ["Bearer s3cret"]
    (question,) = hook.asked
    assert question["id"] == f"{scene.mark}:{scene.command().recommendation.fingerprint}:{GANG}"
    assert (question["command"], question["workload"], question["deadline"]) == ("R1", GANG, iso(answer.deadline))
    assert question["reason"].startswith("F1: gpu-02")
    assert any("owner of research/llama-70b: yes (after lunch is fine)" in line.why for line in scene.ledger.lines)


def test_a_no_ends_it_and_the_same_work_is_not_asked_about_again_soon(hook):
    scene = asking(hook)
    hook.answers("no", said="paper deadline")
    until(scene, is_in(scene, CommandState.REJECTED))
    assert scene.command().reason == "The owner of llama-70b said no: paper deadline"
    scene.findings = (replace(scene.findings[0], finding=replace(scene.findings[0].finding, incident="other")),)
    scene.beats(5)
    assert len(hook.asked) == 1
    assert scene.scheduler.calls == []
    until(scene, lambda: len(scene.ledger.stored) == 2, seconds=600)
    hook.answers("yes")
    until(scene, lambda: scene.command(2).state is CommandState.SETTLED, seconds=10)
    assert len(hook.asked) == 2


def test_silence_until_the_deadline_is_a_no(hook):
    scene = asking(hook, settings=IssueSettings(mode=Mode.ACT))
    hook.is_silent = True
    advance = asked_by(scene)
    deadline = scene.command().answers[GANG].deadline
    said = [one.sentence for one in advance.refusals if one.rule == "owner"]
    assert said == [f"R1 waits: the owner of llama-70b was asked and has until {iso(deadline)} to answer."]
    scene.beats(5)
    assert scene.command().state is CommandState.APPROVED
    assert len(hook.asked) == 1
    scene.beat(seconds=300)
    scene.beat()
    assert (scene.command().state, scene.command().reason) == (
        CommandState.REJECTED,
        f"The owner of llama-70b said no: no answer by {iso(deadline)}",
    )
    assert scene.scheduler.calls == []
    hook.let_go.set()


def test_an_answer_that_comes_too_late_changes_nothing(hook):
    scene = asking(hook)
    hook.is_silent = True
    asked_by(scene)
    scene.clock.advance(301)
    hook.let_go.set()
    until(scene, is_in(scene, CommandState.REJECTED))
    assert "no answer by" in scene.command().reason


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"maybe", "the hook's answer cannot be read"),
        (200, b'{"answer": "perhaps"}', "the hook's answer cannot be read"),
        (200, b'{"answer": "not_before"}', "the hook answered not_before without an `until`"),
        (200, b'{"answer": "not_before", "until": "2026-11-02T12:00:00"}', "without an `until` with its zone"),
        (200, b'{"answer": "yes"' + b" " * 70_000 + b"}", "longer than 65536 bytes"),
        (404, b'{"answer": "yes"}', "the hook answered 404"),
        (302, b'{"answer": "yes"}', "the hook answered 302"),
    ],
)
def test_what_cannot_be_read_is_a_no(hook, status, body, said):
    scene = asking(hook)
    hook.status, hook.body = status, body
    until(scene, is_in(scene, CommandState.REJECTED))
    assert said in scene.command().reason
    assert scene.scheduler.calls == []
    assert len(hook.asked) == 1


def test_a_hook_in_trouble_is_asked_again_under_the_same_id_until_it_answers(hook):
    scene = asking(hook)
    hook.status = 500
    until(scene, lambda: len(hook.asked) == 2, seconds=5)
    hook.status = 200
    until(scene, is_in(scene, CommandState.SETTLED), seconds=5)
    assert len(hook.asked) == 3
    fingerprint = scene.command().recommendation.fingerprint
    assert {one["id"] for one in hook.asked} == {f"{scene.mark}:{fingerprint}:{GANG}"}


def test_a_hook_that_cannot_be_reached_has_said_no_in_the_end_and_why_is_kept():
    with a_hook() as gone:
        pass
    scene = asking(gone)
    until(scene, is_in(scene, CommandState.REJECTED), seconds=10)
    assert "no answer by" in scene.command().reason


def test_not_before_is_waited_for_and_then_the_move_begins_without_asking_again(hook):
    scene = asking(hook, settings=IssueSettings(mode=Mode.ACT))
    until_moment = scene.clock.now() + timedelta(minutes=5)
    hook.answers("not_before", until=iso(until_moment))
    until(scene, lambda: bool(scene.ledger.stored) and any(one.answer for one in scene.command().answers.values()))
    advance = scene.beat(seconds=1)
    assert f"the owner of llama-70b asked for no move before {iso(until_moment)}." in advance.refusals[0].sentence
    assert scene.scheduler.calls == []
    scene.beat(seconds=300)
    scene.beats(6)
    assert scene.command().state is CommandState.SETTLED
    assert len(hook.asked) == 1


def test_a_daemon_that_died_while_asking_asks_again_under_the_same_id_and_moves_nothing_before(hook):
    scene = asking(hook)
    hook.is_silent = True
    asked_by(scene)
    scene.asker = HttpAsker(KubernetesSettings(ask_url=hook.url), Wall(scene))
    scene.restart()
    scene.beats(2)
    assert scene.command().state is CommandState.APPROVED
    hook.is_silent = False
    until(scene, lambda: len(hook.asked) >= 2)
    hook.let_go.set()
    until(scene, is_in(scene, CommandState.SETTLED))
    assert len({one["id"] for one in hook.asked}) == 1


def test_an_answer_that_was_written_down_is_not_asked_for_again_after_a_restart(hook):
    scene = asking(hook)
    until(scene, lambda: bool(scene.ledger.stored) and any(one.answer for one in scene.command().answers.values()))
    scene.asker = HttpAsker(KubernetesSettings(ask_url=hook.url), Wall(scene))
    scene.restart()
    until(scene, is_in(scene, CommandState.SETTLED))
    assert len(hook.asked) == 1


def test_a_jobs_own_hook_is_called_only_where_the_site_allows_it(hook):
    own = OwnerWishes(is_ask_first=True, ask_url=hook.url + "/mine")
    allowed = asking(hook, wishes=own, token="s3cret", ask_url="", ask_url_prefixes=(hook.url + "/",))
    until(allowed, is_in(allowed, CommandState.SETTLED))
    assert hook.tokens == [None], "the site's token is not for jobs' hooks"
    refused = asking(hook, wishes=own, ask_url="", ask_url_prefixes=("https://hooks.example/",))
    refused.beats(4)
    assert refused.command().state is CommandState.PROPOSED, "no hook: a person decides"
    assert len(hook.asked) == 1


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://hooks.corp/a", True),
        ("https://hooks.corp", True),
        ("https://HOOKS.corp:443/a?job=1", True),
        ("https://hooks.corp.evil.io/a", False),
        ("https://hooks.corp@evil.io/a", False),
        ("https://hooks.corp:8443/a", False),
        ("http://hooks.corp/a", False),
        ("https://evil.io/https://hooks.corp/a", False),
        ("https://hooks.corp:port/a", False),
        ("https://hooks.corp\\@evil.io/a", False),
        ("https://team.corp:8443/ask/mine", True),
        ("https://team.corp:8443/ask", True),
        ("https://team.corp:8443/asking", False),
        ("https://team.corp:8443/ask/../admin", False),
        ("https://team.corp:8443/ask/%2e%2e/admin", False),
    ],
)
def test_a_jobs_own_hook_is_compared_part_by_part(url, is_allowed):
    prefixes = ("https://hooks.corp", "https://team.corp:8443/ask")
    asker = HttpAsker(KubernetesSettings(ask_url_prefixes=prefixes), SystemClock())
    assert asker.can_ask(url) is is_allowed


def test_without_a_hook_a_persons_approval_is_the_yes():
    scene = evacuation(settings=ACT)
    gang = scene.scheduler.jobs[GANG]
    scene.scheduler.put(replace(gang, wishes=OwnerWishes(is_ask_first=True)))
    scene.beats(3)
    assert scene.command().state is CommandState.PROPOSED
    assert "The owner of llama-70b wants to be asked first." in scene.command().recommendation.against
    scene.approve()
    scene.beats(8)
    assert scene.command().state is CommandState.SETTLED


# --- opt-out, not before, notice


@pytest.mark.parametrize("state", [CommandState.APPROVED, CommandState.HELD, CommandState.CONFIRMED])
def test_an_opt_out_that_comes_before_the_stop_ends_it_and_gives_back(state):
    scene = room_making()
    scene.beat()
    scene.approve()
    if state is not CommandState.APPROVED:
        to(scene, state)
    plan = scene.planner.propose(scene.scheduler.snapshot(), scene.findings, scene.budget)
    job = scene.scheduler.jobs["research/a"]
    wishes = OwnerWishes(is_opted_out=True, opt_out_reason="karpenter.sh/do-not-disrupt on pod a-0")
    scene.scheduler.put(replace(job, wishes=wishes))
    scene.beat(plan=plan)
    assert scene.command().state in (CommandState.REJECTED, CommandState.ABANDONED)
    assert scene.command().reason == ("The owner of a does not want it moved (karpenter.sh/do-not-disrupt on pod a-0).")
    assert scene.scheduler.held() == []
    assert scene.scheduler.jobs["research/a"].nodes == ("gpu-03",)


def test_not_before_stands_at_the_edge_too():
    scene = room_making()
    scene.beat()
    scene.approve()
    plan = scene.planner.propose(scene.scheduler.snapshot(), scene.findings, scene.budget)
    job = scene.scheduler.jobs["research/a"]
    later = scene.clock.now() + timedelta(hours=1)
    scene.scheduler.put(replace(job, wishes=OwnerWishes(not_before=later)))
    advance = scene.beat(plan=plan)
    assert [one.sentence for one in advance.refusals if one.rule == "owner"] == [
        f"R1 waits: the owner of a asked for no move before {iso(later)}."
    ]
    assert scene.scheduler.calls == []


def test_owners_are_told_before_the_move_and_the_notice_is_waited_for():
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT, notice_seconds=60))
    until(scene, lambda: bool(scene.told), seconds=5)
    assert scene.scheduler.calls == []
    told_at = scene.command().noticed_at
    advance = scene.beat(seconds=30)
    assert advance.refusals[0].sentence == (
        f"R1 waits until {iso(told_at + timedelta(seconds=60))}: its owners have been told."
    )
    scene.restart()
    scene.beat(seconds=30)
    assert scene.command().state is CommandState.HELD
    scene.beats(5)
    assert scene.command().state is CommandState.SETTLED
    (told,) = scene.told
    assert told.startswith("research/llama-70b: R1: llama-70b is stopped and moved to gpu-22 in 60 s or later: F1: ")


def test_without_a_time_owners_are_told_as_it_begins_and_nobody_is_told_in_a_dry_run():
    scene = evacuation(settings=ACT)
    scene.beats(4)
    assert len(scene.told) == 1
    assert [line.what for line in scene.ledger.lines].count("told the owner of research/llama-70b") == 1
    dry = evacuation(settings=IssueSettings(mode=Mode.ACT, is_dry_run=True))
    dry.beats(6)
    assert dry.told == []


# --- the move changes after its owners have been told or asked


def elsewhere(scene):
    """The seat of the plan is shut and another spare is there: the move becomes another one."""
    scene.scheduler.nodes["gpu-23"] = a_node("gpu-23", is_spare=True)
    scene.scheduler.cordon("gpu-22")
    scene.beat()
    assert scene.command().state is CommandState.PROPOSED
    assert "gpu-23" in scene.command().recommendation.sentence


def test_a_move_that_has_changed_is_told_anew_and_its_notice_begins_anew():
    scene = evacuation(settings=IssueSettings(mode=Mode.APPROVE, notice_seconds=300))
    scene.beat()
    scene.approve()
    until(scene, lambda: len(scene.told) == 1, seconds=5)
    elsewhere(scene)
    assert scene.command().noticed_at is None
    scene.beat(seconds=400)
    scene.approve()
    scene.beats(3)
    assert scene.command().state is CommandState.APPROVED
    assert scene.scheduler.calls == []
    first, second = scene.told
    assert "moved to gpu-22" in first
    assert "moved to gpu-23" in second


def test_a_yes_is_for_the_move_that_was_asked_about_and_no_other(hook):
    scene = asking(hook, settings=IssueSettings(mode=Mode.APPROVE, notice_seconds=300))
    hook.answers("yes")
    scene.beat()
    scene.approve()
    until(scene, lambda: any(one.answer for one in scene.command().answers.values()))
    elsewhere(scene)
    assert dict(scene.command().answers) == {}
    hook.answers("no", said="not there")
    scene.approve()
    until(scene, is_in(scene, CommandState.REJECTED))
    assert scene.command().reason == "The owner of llama-70b said no: not there"
    assert len({one["id"] for one in hook.asked}) == len(hook.asked) == 2


def test_a_not_before_outlives_a_change_of_the_move(hook):
    scene = asking(hook, settings=APPROVE)
    moment = iso(scene.clock.now() + timedelta(hours=1))
    hook.answers("not_before", until=moment)
    scene.beat()
    scene.approve()
    until(scene, lambda: any(one.answer for one in scene.command().answers.values()))
    elsewhere(scene)
    scene.approve()
    advance = scene.beat(seconds=1)
    assert [one.sentence for one in advance.refusals if one.rule == "owner"] == [
        f"R1 waits: the owner of llama-70b asked for no move before {moment}."
    ]
    assert len(hook.asked) == 1
