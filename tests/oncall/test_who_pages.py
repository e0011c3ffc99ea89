"""What keeps people asleep, who pages, how much is too much, and which routes lead to whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders import CLUSTER, a_snapshot, a_workload
from tests.oncall.hall import CHAT, PAGER, Hall, a_fault

from trimtab.errors import SettingsError
from trimtab.model.advice import Action, OpenFinding, Severity
from trimtab.model.oncall import Audience, Pager, Target, Verb
from trimtab.settings.oncall import OnCallSettings, RouteSettings
from trimtab.show.oncall.routes import Router


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path, PAGER, CHAT)
    yield made
    made.stop()


def changed(found: OpenFinding, **changes: object) -> OpenFinding:
    return replace(found, finding=replace(found.finding, **changes))


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


def test_what_nobody_pages_is_taken_over_by_whoever_pages_next(tmp_path: Path):
    hall = Hall(tmp_path, settings=OnCallSettings(pager=Pager.NONE))
    fault = a_fault()
    hall.beat(fault)
    hall.flip(Pager.OUTBOX)
    hall.beat(fault)
    hall.flip(Pager.ALERTMANAGER)
    hall.beat(fault)
    assert hall.pd.story() == ["open I1"]
    hall.end(fault)
    assert hall.pd.story() == ["open I1", "resolve I1"]
    hall.stop()


def test_what_is_on_no_route_is_taken_over_by_alertmanager(tmp_path: Path):
    hall = routed(tmp_path, RouteSettings(targets=("pd",), queues=("elsewhere",)))
    fault = a_fault()
    hall.beat(fault)
    hall.flip(Pager.ALERTMANAGER)
    hall.beat(fault)
    (incident,) = hall.history.open_incidents()
    assert (incident.pager, incident.paged_at) == (Pager.ALERTMANAGER, None)
    hall.flip(Pager.OUTBOX)
    hall.beat(fault)
    assert hall.history.open_incidents()[0].pager is Pager.ALERTMANAGER
    hall.stop()


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
