"""What people are told of an incident, from its opening to its end, and what they are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders import CLUSTER, a_snapshot, a_workload
from tests.oncall.hall import CHAT, PAGER, Hall, Judged, a_fault, down, lost_answer
from tests.store.values import a_recommendation

from trimtab.errors import DecisionRefused, SettingsError
from trimtab.model.advice import Action, OpenFinding, Severity
from trimtab.model.command import Command, CommandState
from trimtab.model.oncall import Audience, Pager, Target, Verb
from trimtab.model.outbox import LetterState
from trimtab.settings.oncall import OnCallSettings, RouteSettings
from trimtab.show.oncall.routes import Router


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path, PAGER, CHAT)
    yield made
    made.stop()


def changed(found: OpenFinding, **changes: object) -> OpenFinding:
    return replace(found, finding=replace(found.finding, **changes))


def test_an_incident_opens_once_and_is_closed_under_the_same_key(hall: Hall):
    fault = a_fault()
    for _ in range(3):
        hall.beat(fault)
    hall.end(fault)
    hall.beat()
    assert hall.pd.story() == ["open I1", "resolve I1"]
    opened, closed = hall.pd.taken
    assert opened.key == closed.key == f"trimtab/{CLUSTER}/{hall.history.ledger}-I1"
    assert [opened.sequence, closed.sequence] == [1, 2]
    assert opened.id != closed.id
    assert hall.chat.threads[1] == hall.chat.threads[1]
    assert hall.chat.threads == [None, hall.chat.threads[1]]
    assert hall.history.open_incidents() == ()


def test_the_first_line_stands_alone_and_the_rest_says_whom_since_when_and_what(hall: Hall):
    fault = a_fault(impact="llama-70b stands still: 32 GPUs", workloads_hit=("research/llama-70b",))
    hall.beat(fault)
    (page,) = hall.pd.taken
    assert page.first_line == f"{CLUSTER}: gpu-00 GPU 3 fell off the bus (XID 79); llama-70b stands still: 32 GPUs"
    assert page.lines == (
        "Hits: llama-70b stands still: 32 GPUs",
        "Since 2026-11-02 09:00 UTC.",
        "To do: cordon, then reboot the node",
        "Seen by kernel: Xid 79",
        f"I1 · F1 · {CLUSTER}",
    )
    assert page.link == "https://trimtab.example/f/1"


def test_a_long_sentence_is_cut_at_a_word_and_keeps_its_beginning(hall: Hall):
    hall.beat(a_fault(sentence="gpu-00 " + "GPU 3 lost its link and " * 12))
    line = hall.pd.taken[0].first_line
    assert len(line) <= 110
    assert line.startswith(f"{CLUSTER}: gpu-00 GPU 3 lost its link")
    assert line.endswith("…")


def test_it_pages_again_for_a_higher_severity_and_for_new_victims_only(hall: Hall):
    fault = a_fault(severity=Severity.WARNING, workloads_hit=("a",))
    hall.beat(fault)
    hall.beat(changed(fault, sentence="gpu-00 GPU 3 says it in other words"))
    hall.beat(worse := changed(fault, severity=Severity.CRITICAL))
    hall.beat(better := changed(worse, severity=Severity.WARNING))
    hall.beat(again := changed(better, severity=Severity.CRITICAL))
    hall.beat(wider := changed(again, workloads_hit=("a", "b")))
    hall.beat(changed(wider, workloads_hit=("b",)))
    hall.beat(changed(wider, action=Action.HARDWARE_RMA))
    assert hall.pd.story() == [
        "open I1",
        "update I1 loud",
        "update I1",
        "update I1",
        "update I1 loud",
        "update I1",
    ]
    assert [message.first_line.partition(": ")[2].partition(":")[0] for message in hall.pd.taken[1:5]] == [
        "worse",
        "better",
        "worse",
        "hits more",
    ]


def test_a_fault_that_comes_back_is_a_new_incident(hall: Hall):
    fault = a_fault()
    hall.beat(fault)
    hall.end(fault)
    hall.beat(fault)
    assert hall.pd.story() == ["open I1", "resolve I1", "open I2"]
    assert len({message.key for message in hall.pd.taken}) == 2


def test_what_is_only_history_pages_nobody_until_it_is_seen_live(hall: Hall):
    old = a_fault(is_history_only=True)
    hall.beat(old)
    assert hall.pd.taken == []
    hall.beat(changed(old, is_history_only=False))
    hall.beat(old)
    assert hall.pd.story() == ["open I1"]


def test_what_wakes_nobody_is_for_the_page_alone(hall: Hall):
    hall.beat(a_fault(severity=Severity.INFO))
    assert hall.history.open_incidents() == ()


def test_a_snoozed_finding_is_told_of_worse_news_only(hall: Hall):
    fault = a_fault(severity=Severity.WARNING)
    hall.beat(fault)
    snoozed = replace(fault, snoozed_until=hall.clock.now().replace(year=2027))
    hall.beat(changed(snoozed, action=Action.HARDWARE_RMA))
    assert hall.pd.story() == ["open I1"]
    hall.beat(changed(snoozed, severity=Severity.CRITICAL))
    assert hall.pd.story() == ["open I1", "update I1 loud"]


# --- silences and maintenance


def test_silenced_then_mended_leaves_nothing_open(hall: Hall):
    fault = a_fault()
    hall.beat(fault)
    hall.quiet.why["*"] = "silenced by bob until 12:00: rack work"
    hall.beat(changed(fault, workloads_hit=("late",)))
    assert hall.pd.story() == ["open I1"]
    assert hall.history.open_incidents()[0].quiet == "silenced by bob until 12:00: rack work"
    hall.end(fault)
    assert hall.pd.story() == ["open I1", "resolve I1"]
    assert hall.history.open_incidents() == ()


def test_what_broke_and_was_mended_in_a_window_pages_nobody_and_is_audited(hall: Hall):
    hall.quiet.why["*"] = "maintenance M3 of gpu-00 until 12:00"
    fault = a_fault()
    for _ in range(3):
        hall.beat(fault)
    hall.end(fault)
    assert hall.pd.taken == []
    lines = [line for line in hall.history.audit_lines(hall.clock.now().replace(hour=0)) if "I1" in line.what]
    assert [(line.who, line.what, line.why) for line in lines] == [
        ("trimtab", "I1 pages nobody", "maintenance M3 of gpu-00 until 12:00")
    ]


def test_what_is_still_broken_at_the_end_of_a_window_pages(hall: Hall):
    hall.quiet.why["*"] = "maintenance M3 of gpu-00 until 12:00"
    fault = a_fault()
    hall.beat(fault, seconds=3600)
    hall.quiet.why.clear()
    hall.beat(fault)
    hall.beat(fault)
    assert hall.pd.story() == ["open I1"]
    assert "It has stood for 60 min already and nobody was paged" in hall.pd.taken[0].lines[1]


def test_worse_news_during_a_silence_pages_at_its_end(hall: Hall):
    fault = a_fault(severity=Severity.WARNING)
    hall.beat(fault)
    hall.quiet.why["*"] = "silenced"
    worse = changed(fault, severity=Severity.CRITICAL)
    hall.beat(worse)
    assert hall.pd.story() == ["open I1"]
    hall.quiet.why.clear()
    hall.beat(worse)
    hall.beat(worse)
    assert hall.pd.story() == ["open I1", "update I1 loud"]


# --- who pages


def test_a_flip_in_the_middle_of_an_incident_gives_neither_two_pages_nor_none(hall: Hall):
    first, second, third = a_fault(1), a_fault(2), a_fault(3)
    hall.beat(first)
    hall.flip(Pager.ALERTMANAGER)
    hall.beat(first, second)
    hall.flip(Pager.OUTBOX)
    hall.beat(first, second, third)
    assert hall.pd.story() == ["open I1", "open I3"]
    pagers = {one.incident: one.pager for one in hall.history.open_incidents()}
    assert pagers == {
        "device:gpu-00/1": Pager.OUTBOX,
        "device:gpu-00/2": Pager.ALERTMANAGER,
        "device:gpu-00/3": Pager.OUTBOX,
    }
    hall.flip(Pager.ALERTMANAGER)
    hall.end(first, second, third)
    assert hall.pd.story() == ["open I1", "open I3", "resolve I1", "resolve I3"]
    assert hall.history.open_incidents() == ()


def test_the_switch_outlives_a_restart_and_is_audited(hall: Hall):
    hall.flip(Pager.ALERTMANAGER)
    hall.stop()
    hall.start()
    assert (hall.arbiter.for_new(), hall.arbiter.setting) == (Pager.ALERTMANAGER, Pager.OUTBOX)
    assert [line.what for line in hall.history.audit_lines(hall.clock.now())] == ["alertmanager pages"]


def test_nobody_pages_where_the_setting_says_none(tmp_path: Path):
    hall = Hall(tmp_path, settings=OnCallSettings(pager=Pager.NONE))
    hall.beat(fault := a_fault())
    assert [one.pager for one in hall.history.open_incidents()] == [Pager.NONE]
    hall.end(fault)
    assert hall.pd.taken == []
    hall.stop()


# --- too much at once


def test_over_the_budget_one_summary_speaks_and_every_critical_one_still_pages_once(tmp_path: Path):
    hall = Hall(tmp_path, settings=OnCallSettings(budget_incidents_max=5, quiet_update_seconds=0.0))
    flood = [a_fault(number, severity=Severity.WARNING) for number in range(1, 41)]
    bad = [a_fault(number) for number in range(41, 61)]
    for _ in range(3):
        hall.beat(*flood, *bad)
    pages = hall.pd.pages
    assert len({page.key for page in pages}) == len(pages)
    own = [page for page in pages if page.rule != "summary"]
    assert sum(1 for page in own if page.severity is Severity.CRITICAL) == 20
    assert sum(1 for page in own if page.severity is Severity.WARNING) == 5
    (summary,) = [page for page in pages if page.rule == "summary"]
    assert "35 more incidents, all less than critical" in summary.first_line
    # One of them gets worse: that is a page of its own.
    flood[20] = changed(flood[20], severity=Severity.CRITICAL)
    hall.beat(*flood, *bad)
    assert len(hall.pd.pages) == 27
    hall.end(*flood, *bad)
    hall.beat()
    assert hall.history.open_incidents() == ()
    opened = {page.key for page in hall.pd.pages}
    assert {message.key for message in hall.pd.taken if message.verb is Verb.RESOLVE} == opened
    hall.stop()


def test_a_summary_is_told_again_when_it_has_doubled(tmp_path: Path):
    hall = Hall(tmp_path, settings=OnCallSettings(budget_incidents_max=1, quiet_update_seconds=0.0))
    flood = [a_fault(number, severity=Severity.WARNING) for number in range(1, 9)]
    for count in range(1, 9):
        hall.beat(*flood[:count])
    summed = [message.first_line for message in hall.pd.taken if message.rule == "summary"]
    assert [next(word for word in line.split() if word.isdigit() or word == "one") for line in summed] == [
        "one",
        "2",
        "4",
    ]
    hall.stop()


def test_the_budget_is_fresh_after_its_window(tmp_path: Path):
    hall = Hall(tmp_path, settings=OnCallSettings(budget_incidents_max=1, budget_window_seconds=60.0))
    first, second = (a_fault(number, severity=Severity.WARNING) for number in (1, 2))
    hall.beat(first, seconds=61)
    hall.beat(first, second)
    assert hall.pd.story() == ["open I1", "open I2"]
    hall.stop()


# --- routes


def routed(tmp_path: Path, *routes: RouteSettings, targets: tuple[Target, ...] = (PAGER, CHAT)) -> Hall:
    return Hall(tmp_path, *targets, settings=OnCallSettings(routes=routes, quiet_update_seconds=0.0))


def test_routes_go_by_severity_queue_and_rule(tmp_path: Path):
    hall = routed(
        tmp_path,
        RouteSettings(targets=("pd",), severities=(Severity.CRITICAL,)),
        RouteSettings(targets=("chat",), rules=("device_*",), queues=("research",)),
    )
    snapshot = a_snapshot(workloads=[a_workload("llama-70b", on={"gpu-00": range(8)})])
    warned = a_fault(1, severity=Severity.WARNING, workloads_hit=("research/llama-70b",))
    elsewhere = a_fault(2, severity=Severity.WARNING)
    hall.judge(warned, elsewhere, a_fault(3), snapshot=snapshot)
    hall.deliver()
    assert [message.facts["finding"] for message in hall.chat.taken] == ["F1"]
    assert [message.facts["finding"] for message in hall.pd.taken] == ["F3"]
    # A higher severity leads to one more target: there it opens, elsewhere it sounds again.
    hall.judge(changed(warned, severity=Severity.CRITICAL), elsewhere, a_fault(3), snapshot=snapshot)
    hall.deliver()
    assert hall.chat.story("I1") == ["open I1", "update I1 loud"]
    assert hall.pd.story("I1") == ["open I1"]
    hall.end()
    assert hall.pd.story("I1") == ["open I1", "resolve I1"]
    assert hall.chat.story("I1") == ["open I1", "update I1 loud", "resolve I1"]
    hall.stop()


@pytest.mark.parametrize("rule", ["straggler", "idle_gpu", "device_fault"])
def test_owners_get_their_own_news_apart_from_on_call(tmp_path: Path, rule: str):
    hall = routed(
        tmp_path,
        RouteSettings(targets=("pd",)),
        RouteSettings(targets=("chat",), audience=Audience.OWNER, owners=("lin",)),
    )
    snapshot = a_snapshot(
        workloads=[
            a_workload("llama-70b", on={"gpu-00": range(8)}, owner="lin"),
            a_workload("other", on={"gpu-01": range(8)}, owner="wu"),
        ]
    )
    theirs = a_fault(
        1,
        rule=rule,
        action=Action.ALERT_OWNER,
        severity=Severity.WARNING,
        workloads_hit=("research/llama-70b",),
        sentence="llama-70b stopped its program: memory access fault (XID 31)",
    )
    others = changed(a_fault(2), rule=rule, action=Action.ALERT_OWNER, workloads_hit=("research/other",))
    hall.judge(theirs, others, snapshot=snapshot)
    hall.deliver()
    assert hall.pd.taken == []
    (news,) = hall.chat.taken
    assert news.owner == "lin"
    assert news.first_line.startswith(f"{CLUSTER}: your work: llama-70b stopped its program")
    assert news.lines[0] == "You get this because the work that it hits is yours."
    hall.stop()


def test_each_route_has_its_language(tmp_path: Path):
    hall = routed(tmp_path, RouteSettings(targets=("pd",)), RouteSettings(targets=("chat",), locale="zh-CN"))
    hall.beat(fault := a_fault(impact="llama-70b stands still: 32 GPUs"))
    hall.end(fault)
    assert [message.locale for message in hall.pd.taken] == ["en", "en"]
    assert [message.locale for message in hall.chat.taken] == ["zh-CN", "zh-CN"]
    assert hall.chat.taken[0].lines[0] == "影响：llama-70b stands still: 32 GPUs"
    assert hall.chat.taken[1].first_line.startswith(f"{CLUSTER}: 已恢复（持续 5 秒）：")
    hall.stop()


def test_a_route_to_nowhere_is_refused_at_the_start():
    with pytest.raises(SettingsError, match=r"route 1 names the target 'pagre'; there are: pd"):
        Router(OnCallSettings(routes=(RouteSettings(targets=("pagre",)),)), {"pd": PAGER})


# --- commands, acknowledging, the end


def a_command(state: CommandState, *, finding: int = 1) -> Command:
    recommendation = a_recommendation(findings=(finding,))
    return Command(
        id=11,
        recommendation=recommendation,
        state=state,
        changed_at=recommendation.created_at,
        approved_by="ann" if state is not CommandState.PROPOSED else None,
    )


def test_what_is_proposed_and_done_is_told_once_in_the_same_thread(hall: Hall):
    fault = a_fault()
    hall.beat(fault)
    for state in (CommandState.PROPOSED, CommandState.PROPOSED, CommandState.APPROVED, CommandState.SETTLED):
        hall.history.post(hall.bell.hear_commands([a_command(state)], hall.clock.now()))
        hall.deliver()
        hall.clock.advance(5)
    hall.end(fault)
    assert hall.chat.story() == ["open I1", "update I1", "update I1", "resolve I1"]
    proposed, settled, closed = hall.chat.taken[1:]
    assert any(line.startswith("Proposed R11: ") for line in proposed.lines)
    assert proposed.link == "https://trimtab.example/r/11"
    assert any(line.startswith("Done, R11: ") for line in settled.lines)
    assert any(line.startswith("R11 (ann): ") for line in closed.lines)


def test_where_each_message_is_seen_anew_small_news_waits_for_the_ending(tmp_path: Path):
    hall = Hall(tmp_path, PAGER, Target(name="group", kind="dingtalk"))
    fault = a_fault(severity=Severity.WARNING)
    hall.beat(fault)
    hall.history.post(hall.bell.hear_commands([a_command(CommandState.SETTLED)], hall.clock.now()))
    hall.deliver()
    hall.beat(changed(fault, severity=Severity.CRITICAL))
    hall.end(fault)
    assert hall.senders["group"].story() == ["open I1", "update I1 loud", "resolve I1"]
    assert any(line.startswith("R11 (ann): ") for line in hall.senders["group"].taken[-1].lines)
    assert hall.pd.story() == ["open I1", "update I1", "update I1 loud", "resolve I1"]
    hall.stop()


def test_somebody_has_it_and_everybody_hears_it_but_where_it_came_from(hall: Hall):
    fault = a_fault()
    hall.beat(fault)
    said = hall.bell.acknowledge(1, who="wang (pagerduty)", at=hall.clock.now(), came_from="pd")
    assert said.acknowledged_by == "wang (pagerduty)"
    assert hall.bell.acknowledge(1, who="bob", at=hall.clock.now()).acknowledged_by == "wang (pagerduty)"
    hall.deliver()
    assert hall.pd.story() == ["open I1"]
    assert hall.chat.story() == ["open I1", "acknowledge I1"]
    hall.end(fault)
    assert any("wang (pagerduty) has it" in line for line in hall.pd.taken[-1].lines)
    with pytest.raises(DecisionRefused, match="I1 is over since it was closed: well for 10 min"):
        hall.bell.acknowledge(1, who="bob", at=hall.clock.now())
    with pytest.raises(DecisionRefused, match="There is no incident I9"):
        hall.bell.acknowledge(9, who="bob", at=hall.clock.now())


def test_the_end_says_how_long_what_it_cost_and_who_acted(hall: Hall):
    fault = a_fault(loss_gpus=32.0)
    hall.beat(fault, seconds=1800)
    hall.end(fault)
    lines = hall.pd.taken[-1].lines
    assert lines[0] == "It lasted 30 min, from 2026-11-02 09:00 UTC."
    assert lines[1] == "It cost about 16.0 GPU-hours."
    assert lines[2] == "Why it is over: well for 10 min."
    assert lines[3] == "Nobody acknowledged it."
    assert hall.pd.taken[-1].first_line.startswith(f"{CLUSTER}: over after 30 min: gpu-00 GPU 3")


def test_the_findings_and_what_is_told_of_them_are_kept_together_or_not_at_all(hall: Hall):
    fault = a_fault()
    hall.judge(fault)
    assert hall.history.open_findings() == (fault,)
    assert [letter.state for letter in hall.history.letters()] == [LetterState.READY, LetterState.READY]
    # The same judgement again, as after a crash before the tracker took it: nothing is told twice.
    hall.judge(fault)
    assert len(hall.history.letters()) == 2


def test_a_second_daemon_on_the_same_memory_opens_nothing_twice(hall: Hall):
    fault = a_fault()
    judged_by_both = [hall.bell.hear(_judged(hall, fault), None) for _ in range(2)]
    assert hall.history.post(judged_by_both[0]) == 1
    assert hall.history.post(judged_by_both[1]) == 0
    hall.deliver()
    assert hall.pd.story() == ["open I1"]


def _judged(hall: Hall, *standing: OpenFinding):
    return Judged(at=hall.clock.now(), after=standing)


# --- newer news before the older was sent


def test_newer_unsent_news_replaces_older(hall: Hall):
    fault = a_fault(severity=Severity.WARNING)
    hall.beat(fault)
    hall.pd.down = down()
    for action in (Action.CORDON_RESET, Action.HARDWARE_RMA, Action.CORDON_RESET):
        hall.judge(changed(fault, action=action))
        hall.clock.advance(5)
    hall.judge(changed(fault, action=Action.HARDWARE_RMA, severity=Severity.CRITICAL))
    hall.judge(changed(fault, action=Action.CORDON_RESET, severity=Severity.CRITICAL))
    hall.pd.down = None
    hall.deliver()
    assert hall.pd.story() == ["open I1", "update I1 loud"]
    assert hall.pd.taken[-1].facts["action"] == "cordon_reset"


def test_opened_and_closed_before_anything_was_sent_is_not_sent_to_a_pager(hall: Hall):
    fault = a_fault()
    hall.judge(fault)
    hall.clock.advance(60)
    hall.end(fault)
    assert hall.pd.taken == []
    # People who read later are told of what was critical, though it is over.
    assert hall.chat.story() == ["open I1", "resolve I1"]
    states = {letter.target: letter.state for letter in hall.history.letters()}
    assert states["pd"] is LetterState.DROPPED


def test_what_may_have_arrived_is_never_dropped(hall: Hall):
    hall.pd.first = [lost_answer()]
    fault = a_fault()
    hall.beat(fault)
    hall.clock.advance(60)
    hall.end(fault)
    hall.beat()
    assert hall.pd.story() == ["open I1", "open I1", "resolve I1"]
    assert [message.is_repeat for message in hall.pd.taken] == [False, True, False]
