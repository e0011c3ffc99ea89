"""What people are told of an incident, from its opening to its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders import CLUSTER
from tests.oncall.hall import CHAT, PAGER, Hall, Judged, a_fault, down, lost_answer
from tests.store.values import a_recommendation

from trimtab.errors import DecisionRefused
from trimtab.model.advice import Action, OpenFinding, Severity
from trimtab.model.command import Command, CommandState
from trimtab.model.oncall import Target
from trimtab.model.outbox import LetterState


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
