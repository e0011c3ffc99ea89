from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import CLUSTER, a_node, a_snapshot, a_window, a_workload, an_xid, gpu_uuid
from tests.detect.views import (
    a_job_window,
    at,
    key,
    readings,
    series_of,
    stale,
    with_node,
    with_reading,
    with_values,
)

from trimtab.detect.closing import CLOSE_RULES
from trimtab.detect.detector import catalogue
from trimtab.detect.device_fault import DeviceFault
from trimtab.detect.incident import members_text
from trimtab.detect.tracker import Changes, Tracker
from trimtab.model.advice import Action, Finding, FindingState, OpenFinding, Severity, Subject
from trimtab.model.reading import Event, EventKind, GpuState
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

NODE = "gpu-07"


def a_finding(rule: str = "hotspot", **changes) -> Finding:
    return Finding(
        **{
            "rule": rule,
            "incident": f"{rule}:{NODE}",
            "subject": Subject(cluster=CLUSTER, node=NODE),
            "action": Action.WATCH,
            "severity": Severity.WARNING,
            "sentence": "gpu-07: 3 of 8 GPUs throttle on heat",
            **changes,
        }
    )


def a_fault(index: int = 3, *, when: float = 0.0, **changes) -> Finding:
    """What device_fault says of an uncorrectable error, resting on events."""
    facts = {
        "kind": "device",
        "needs": "reset",
        "rests_on": "events",
        "boot_id": "boot-a",
        "last_at": at(when).isoformat(),
        "members": members_text([f"device:{NODE}/{gpu_uuid(NODE, index)}"]),
    }
    return a_finding(
        "device_fault",
        **{
            "incident": f"device:{NODE}/{gpu_uuid(NODE, index)}",
            "subject": Subject(cluster=CLUSTER, node=NODE, gpu=gpu_uuid(NODE, index)),
            "action": Action.CORDON_RESET,
            "sentence": f"gpu-07 GPU {index} has an uncorrectable memory error (XID 48)",
            "facts": {**facts, **changes.pop("facts", {})},
            **changes,
        },
    )


def window_at(seconds: float, *, found=None, events: Iterable[Event] = (), **changes) -> Window:
    return a_window(
        {NODE: readings(NODE) if found is None else found},
        events=[(NODE, event) for event in events],
        at=at(seconds),
        **changes,
    )


class Beats:
    """A tracker and its time, as the daemon drives them."""

    def __init__(self, tracker: Tracker | None = None) -> None:
        self.tracker = tracker or Tracker()
        self.seconds = 0.0

    def beat(self, *findings: Finding, after: float = 0.0, window: Window | None = None, **update) -> Changes:
        self.seconds += after
        changes = self.tracker.update(window or window_at(self.seconds), findings, **update)
        self.tracker.commit(changes)
        return changes

    def quiet(self, seconds: float, *, step: float = 30.0, window=window_at) -> list[OpenFinding]:
        """Beats without findings; what closed meanwhile."""
        closed: list[OpenFinding] = []
        for _ in range(int(seconds / step)):
            self.seconds += step
            closed += self.beat(window=window(self.seconds)).closed
        return closed

    @property
    def open(self) -> tuple[OpenFinding, ...]:
        return self.tracker.open_findings


# ---- opening ----


def test_a_finding_is_opened_once():
    beats = Beats()
    first = beats.beat(a_finding())
    assert [each.name for each in first.opened] == ["F1"]
    assert beats.beat(a_finding(), after=5).opened == ()
    assert len(beats.open) == 1


def test_the_sentence_says_what_changed():
    assert Beats().beat(a_finding()).sentence == (
        "1 opened (F1 gpu-07: 3 of 8 GPUs throttle on heat), 0 changed, 0 closed; 1 open"
    )


def test_nothing_holds_before_the_commit():
    tracker = Tracker()
    first = tracker.update(window_at(0), [a_finding()])
    assert tracker.open_findings == ()
    assert tracker.update(window_at(5), [a_finding()]).opened[0].id == first.opened[0].id


def test_two_findings_that_share_a_member_are_one():
    slow = a_finding("straggler", incident="s", action=Action.RESET_AFTER_DRAIN, facts={"members": members_text("a")})
    hot = a_finding("hotspot", incident="h", facts={"members": members_text("ab")})
    beats = Beats()
    assert [each.finding.rule for each in beats.beat(hot, slow).opened] == ["straggler"]
    assert beats.beat(hot, slow, after=5).opened == ()


def test_a_wider_view_of_an_incident_keeps_its_number_and_takes_the_others_in():
    beats = Beats()
    beats.beat(a_fault(1), a_fault(2))
    both = a_fault(1, facts={"members": members_text([f"device:{NODE}/{gpu_uuid(NODE, index)}" for index in (1, 2)])})
    changes = beats.beat(both, after=70)
    assert [each.name for each in beats.open] == ["F1"]
    assert [(each.name, each.close_reason) for each in changes.closed] == [("F2", "now part of F1")]


def test_a_part_of_a_jobs_error_after_the_job_left_opens_nothing_new():
    facts = {"kind": "app"}
    job = a_fault(1, action=Action.ALERT_OWNER, facts={**facts, "members": members_text("abc")}, incident="app:a",
                  sentence="llama-70b: 3 GPUs …")  # fmt: skip
    parts = [a_fault(1, action=Action.ALERT_OWNER, facts={**facts, "members": members_text(part)},
                     incident=f"app:{part}", sentence=f"part {part}") for part in "abc"]  # fmt: skip
    beats = Beats()
    beats.beat(job)
    changes = beats.beat(*parts, after=120)
    assert (changes.opened, changes.changed, changes.closed) == ((), (), ())
    assert beats.open[0].finding.sentence == "llama-70b: 3 GPUs …"


def test_a_silent_node_is_told_after_a_moment():
    beats = Beats()
    silent = a_finding("node_silent")
    assert beats.beat(silent).opened == ()
    assert beats.beat(silent, after=10).opened == ()
    assert len(beats.beat(silent, after=10).opened) == 1


def test_a_moment_of_silence_is_not_told():
    beats = Beats()
    silent = a_finding("node_silent")
    beats.beat(silent)
    beats.beat(after=10)
    assert beats.beat(silent, after=10).opened == ()


# ---- changing ----


def test_worse_is_told_at_once():
    beats = Beats()
    beats.beat(a_finding())
    changes = beats.beat(a_finding(action=Action.CORDON_RESET), after=5)
    assert [each.finding.action for each in changes.changed] == [Action.CORDON_RESET]
    assert changes.changed[0].changed_at == at(5)


def test_better_is_told_after_it_has_held():
    beats = Beats()
    beats.beat(a_finding(action=Action.CORDON_RESET))
    assert beats.beat(a_finding(), after=5).changed == ()
    assert beats.open[0].finding.action is Action.CORDON_RESET
    assert beats.beat(a_finding(), after=30).changed == ()
    assert [each.finding.action for each in beats.beat(a_finding(), after=31).changed] == [Action.WATCH]


def test_better_for_a_moment_is_not_told():
    beats = Beats()
    bad = a_finding(action=Action.CORDON_RESET)
    beats.beat(bad)
    beats.beat(a_finding(), after=40)
    beats.beat(bad, after=10)
    assert beats.beat(a_finding(), after=30).changed == ()


def test_other_words_are_told_once_a_minute_at_most():
    beats = Beats()
    beats.beat(a_finding(sentence="one"))
    assert beats.beat(a_finding(sentence="two"), after=5).changed == ()
    assert [each.finding.sentence for each in beats.beat(a_finding(sentence="three"), after=60).changed] == ["three"]


def test_equal_findings_change_nothing():
    beats = Beats()
    beats.beat(a_finding())
    changes = beats.beat(a_finding(loss_gpus=3.0), after=120)
    assert (changes.changed, changes.touched) == ((), ())
    assert beats.open[0].finding.loss_gpus == 3.0


def test_the_beginning_is_the_earliest_that_was_said():
    beats = Beats()
    beats.beat(a_finding(began_at=at(-300)))
    beats.beat(a_finding(began_at=at(-10)), after=5)
    assert beats.open[0].finding.began_at == at(-300)


def test_a_snoozed_finding_speaks_up_only_for_worse():
    beats = Beats()
    beats.beat(a_finding())
    beats.tracker.commit(beats.tracker.snooze(1, at(3600), at=at(0)))
    assert beats.beat(a_finding(sentence="other"), after=120).changed == ()
    assert beats.open[0].finding.sentence == "other"
    assert len(beats.beat(a_finding(action=Action.CORDON_RESET), after=5).changed) == 1
    assert beats.open[0].snoozed_until == at(3600)


def test_of_equal_views_the_one_it_was_told_as_goes_on():
    slow = a_finding("straggler", incident="s", facts={"members": members_text("a")}, loss_gpus=2.0)
    hot = a_finding("hotspot", incident="h", facts={"members": members_text("a")}, loss_gpus=1.0)
    beats = Beats()
    beats.beat(slow, hot)
    changes = beats.beat(slow, replace(hot, loss_gpus=9.0), after=120)
    assert changes.changed == ()
    assert beats.open[0].finding.rule == "straggler"


def test_lines_that_slide_out_of_the_window_take_nothing_back():
    beats = Beats()
    fault = a_fault(action=Action.CORDON_REBOOT, sentence="fell off the bus", facts={"needs": "reboot"})
    beats.beat(fault)
    state = a_fault(action=Action.RESET_AFTER_DRAIN, sentence="waits for a reset", facts={"rests_on": "state"})
    for _ in range(20):
        assert beats.beat(state, after=60).changed == ()
    assert beats.open[0].finding.sentence == "fell off the bus"
    assert beats.open[0].finding.facts["needs"] == "reboot"


def test_after_the_reset_what_is_left_is_told():
    beats = Beats()
    beats.beat(a_fault(action=Action.CORDON_REBOOT, sentence="fell off the bus", facts={"needs": "reboot"}))
    state = a_fault(action=Action.RESET_AFTER_DRAIN, sentence="waits for a reset", facts={"rests_on": "state"})
    beats.beat(state, window=after_boot(60), after=60)
    (changed,) = beats.beat(state, window=after_boot(130), after=70).changed
    assert changed.finding.sentence == "waits for a reset"


def test_new_lines_that_say_less_are_news():
    beats = Beats()
    beats.beat(a_fault())
    contained = a_fault(when=30, action=Action.RESET_AFTER_DRAIN, sentence="contained")
    beats.beat(contained, after=30)
    (changed,) = beats.beat(contained, after=61).changed
    assert changed.finding.sentence == "contained"


# ---- closing ----


def test_what_is_clear_for_its_time_is_closed():
    beats = Beats()
    beats.beat(a_finding())
    assert beats.quiet(60) == []
    (closed,) = beats.quiet(30)
    assert (closed.state, closed.close_reason) == (FindingState.CLOSED, "no longer hot")
    assert beats.open == ()


def test_what_comes_back_meanwhile_stays_open():
    beats = Beats()
    beats.beat(a_finding())
    beats.quiet(60)
    beats.beat(a_finding(), after=5)
    assert beats.open[0].clear_since is None
    assert beats.quiet(60) == []


def test_what_comes_back_soon_has_its_number_again():
    beats = Beats()
    beats.beat(a_finding())
    beats.quiet(120)
    changes = beats.beat(a_finding(), after=300)
    assert [(each.name, each.opened_at) for each in changes.opened] == [("F1", at(0))]


def test_what_comes_back_late_has_a_new_number():
    beats = Beats()
    beats.beat(a_finding())
    beats.quiet(120)
    assert [each.name for each in beats.beat(a_finding(), after=700).opened] == ["F2"]


def test_a_node_that_is_not_seen_closes_nothing():
    beats = Beats()
    beats.beat(a_finding())
    unseen = lambda seconds: stale(window_at(seconds), NODE, seconds=300)  # noqa: E731
    assert beats.quiet(7200, step=600, window=unseen) == []
    assert beats.open[0].finding.facts["unseen"] == "cannot be seen: no report from gpu-07"
    (closed,) = beats.quiet(90)
    assert closed.id == 1
    assert "unseen" not in closed.finding.facts


def test_a_window_without_the_node_closes_nothing():
    beats = Beats()
    beats.beat(a_finding())
    assert beats.quiet(7200, step=600, window=lambda seconds: a_window({}, at=at(seconds))) == []


def test_a_node_that_left_the_cluster_closes_its_findings():
    beats = Beats()
    beats.beat(a_finding())
    gone = stale(window_at(300, snapshot=a_snapshot([a_node("gpu-08")])), NODE, seconds=200)
    (closed,) = beats.beat(window=gone, after=300).closed
    assert closed.close_reason == "gpu-07 left the cluster"


def test_a_detector_that_failed_closes_nothing():
    beats = Beats()
    beats.beat(a_finding())
    for _ in range(20):
        assert beats.beat(after=30, judged={"idle_gpu"}).closed == ()
    assert beats.open[0].clear_since is None


def test_without_a_snapshot_what_rests_on_it_stays():
    beats = Beats()
    waits = a_finding("fragmentation", subject=Subject(cluster=CLUSTER, workload="research/eval-9"))
    beats.beat(waits)
    assert beats.quiet(600) == []
    full = lambda seconds: window_at(seconds, snapshot=a_snapshot([a_node(NODE)]))  # noqa: E731
    assert len(beats.quiet(90, window=full)) == 1


def test_too_little_history_is_no_all_clear():
    job = a_workload("llama-70b", on={NODE: range(8)})
    idle = a_finding("idle_gpu", subject=Subject(cluster=CLUSTER, workload=job.id),
                     facts={"series": "sm_active_ratio", "series_seconds": "600"})  # fmt: skip
    snapshot = a_snapshot([a_node(NODE)], [job])

    def window(seconds: float, *, covers: float) -> Window:
        keys = [key(NODE, index) for index in range(8)]
        series = series_of({"sm_active_ratio": dict.fromkeys(keys, 0.8)}, end=at(seconds), seconds=covers)
        return window_at(seconds, snapshot=snapshot, series=series)

    beats = Beats()
    beats.beat(idle)
    assert beats.quiet(600, window=lambda seconds: window(seconds, covers=100)) == []
    assert len(beats.quiet(90, window=lambda seconds: window(seconds, covers=900))) == 1


def test_an_idle_job_that_is_over_is_closed_without_history():
    idle = a_finding("idle_gpu", subject=Subject(cluster=CLUSTER, workload="research/gone"),
                     facts={"series": "sm_active_ratio", "series_seconds": "600"})  # fmt: skip
    beats = Beats()
    beats.beat(idle)
    assert len(beats.quiet(90, window=lambda seconds: window_at(seconds, snapshot=a_snapshot([a_node(NODE)])))) == 1


def test_a_program_error_closes_an_hour_after_its_last_line():
    beats = Beats()
    beats.beat(a_fault(action=Action.ALERT_OWNER, facts={"kind": "app", "needs": ""}))
    assert beats.quiet(3540, step=60) == []
    assert len(beats.quiet(120, step=60)) == 1


# ---- return to service of a device ----


def test_a_device_that_needs_a_reset_stays_open_until_one_is_seen():
    beats = Beats()
    beats.beat(a_fault())
    assert beats.quiet(7200, step=600) == []
    assert beats.open[0].finding.facts["unseen"] == "stays open: its reset has not been seen"


def after_boot(seconds: float) -> Window:
    return with_node(window_at(seconds), NODE, boot_id="boot-b")


def returned(seconds: float) -> Window:
    event = replace(an_xid(node=NODE, at=at(60)), kind=EventKind.GPU_RETURNED, code=None)
    return window_at(seconds, events=[event])


def withdrawn(seconds: float) -> Window:
    return window_at(seconds, events=[an_xid(154, node=NODE, at=at(60), details={"action": "0x0"})])


def restarted(seconds: float) -> Window:
    return window_at(seconds, found=with_values(readings(NODE), 3, energy_joules_total=100.0))


@pytest.mark.parametrize("window", [after_boot, returned, withdrawn, restarted])
def test_a_reset_device_closes_when_well_for_ten_minutes(window):
    beats = Beats()
    beats.beat(a_fault(facts={"energy_joules": "5000000000"}))
    assert beats.quiet(600, step=60, window=window) == []
    (closed,) = beats.quiet(120, step=60, window=window)
    assert closed.close_reason == "well for 10 min, and the driver asks for nothing"
    assert "reset_seen_at" in closed.finding.facts


def test_a_reset_that_was_seen_once_is_remembered():
    beats = Beats()
    beats.beat(a_fault())
    beats.beat(window=returned(90), after=90)
    assert len(beats.quiet(660, step=60)) == 1


def test_a_new_fault_after_the_reset_wants_a_new_one():
    beats = Beats()
    beats.beat(a_fault())
    beats.beat(window=returned(90), after=90)
    beats.beat(a_fault(when=100), after=30)
    assert beats.quiet(1200, step=60) == []


def test_a_withdrawn_wish_is_no_reboot():
    beats = Beats()
    beats.beat(a_fault(action=Action.CORDON_REBOOT, facts={"needs": "reboot"}))
    assert beats.quiet(1200, step=60, window=withdrawn) == []
    assert len(beats.quiet(720, step=60, window=after_boot)) == 1


@pytest.mark.parametrize(
    "found",
    [
        with_values(readings(NODE), 3, recovery_action=1.0),
        with_reading(readings(NODE), 3, state=GpuState.LOST, values={}),
        readings(NODE)[:3],
    ],
)
def test_a_device_that_is_not_well_stays_open(found):
    def window(seconds: float) -> Window:
        return with_node(window_at(seconds, found=found), NODE, boot_id="boot-b", gpus_expected=8)

    beats = Beats()
    beats.beat(a_fault())
    assert beats.quiet(1200, step=60, window=window) == []


def test_a_state_that_ended_is_its_own_proof():
    beats = Beats()
    beats.beat(a_fault(facts={"rests_on": "state"}))
    assert len(beats.quiet(660, step=60)) == 1


def test_a_replaced_card_closes_its_finding():
    new = with_reading(readings(NODE), 3, info=replace(readings(NODE)[3].info, uuid="GPU-new"))
    beats = Beats()
    beats.beat(a_fault())
    (closed,) = beats.beat(window=with_node(window_at(60, found=new), NODE, gpus_expected=8), after=60).closed
    assert closed.close_reason == "the card was replaced"


# ---- restart, and the whole way ----


def test_a_restart_goes_on_where_it_was():
    beats = Beats()
    beats.beat(a_finding(), a_fault(3))
    resumed = Beats(Tracker(beats.open, next_id=1))
    resumed.seconds = 5
    changes = resumed.beat(a_finding(), a_fault(3))
    assert (changes.opened, changes.closed) == ((), ())
    assert [each.name for each in resumed.open] == ["F1", "F2"]
    assert [each.name for each in resumed.beat(a_finding("idle_gpu"), a_finding(), a_fault(3)).opened] == ["F3"]


def test_what_closed_just_before_a_restart_may_come_back():
    beats = Beats()
    beats.beat(a_finding())
    closed = beats.quiet(120)
    resumed = Beats(Tracker(closed, next_id=2))
    resumed.seconds = beats.seconds
    assert resumed.open == ()
    assert [each.name for each in resumed.beat(a_finding(), after=60).opened] == ["F1"]


def test_every_rule_has_a_close_rule():
    rules = {detector.name for detector in catalogue(DetectSettings())}
    assert {name.partition(":")[0] for name in CLOSE_RULES} == rules


def test_a_fault_from_line_to_return():
    """The real detector: one finding from the line on, through the job's restart, to the reboot."""
    beats = Beats()
    events = [("gpu-01", an_xid(79, node="gpu-01", at=at(0)))]
    lost = with_reading(readings("gpu-01"), 3, state=GpuState.LOST, values={})

    def window(seconds: float, *, is_lost: bool, boot: str) -> Window:
        whole = a_job_window(events=events, seen_at=at(seconds))
        found = {each: now for each, now in whole.gpus.items() if each.node != "gpu-01"}
        own = a_window({"gpu-01": lost if is_lost else readings("gpu-01")}, at=at(seconds))
        return with_node(replace(whole, gpus={**found, **own.gpus}), "gpu-01", boot_id=boot)

    detector = DeviceFault()
    for seconds in range(0, 3000, 30):
        now = window(seconds, is_lost=seconds < 1200, boot="boot-a" if seconds < 1200 else "boot-b")
        changes = beats.tracker.update(now, detector.detect(now))
        beats.tracker.commit(changes)
        assert len(changes.opened) == (1 if seconds == 0 else 0)
        if changes.closed:
            break
    assert 1800 <= seconds <= 1860
    assert changes.closed[0].opened_at + timedelta(seconds=seconds) == changes.closed[0].closed_at
