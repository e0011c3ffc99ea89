from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.builders import a_window, an_xid, gpu_uuid
from tests.detect.beats import NODE, Beats, a_fault, a_finding, after_boot, window_at
from tests.detect.views import (
    a_job_window,
    at,
    readings,
    with_node,
    with_reading,
)

from trimtab.detect.closing import CLOSE_RULES
from trimtab.detect.detector import catalogue
from trimtab.detect.device_fault import DeviceFault
from trimtab.detect.incident import members_text
from trimtab.detect.tracker import Tracker
from trimtab.model.advice import Action
from trimtab.model.reading import GpuState
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

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


def test_right_after_our_own_start_no_node_is_called_silent():
    beats = Beats(Tracker(settled_at=at(45)))
    silent = a_finding("node_silent")
    beats.beat(silent)
    assert beats.beat(silent, after=40).opened == ()
    assert len(beats.beat(silent, after=10).opened) == 1


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


def test_what_joins_an_incident_that_now_knows_less_is_known_by_its_name_all_the_same():
    """Lines of a device slid out of the window while another finding came in: it must not open beside it later."""
    beats = Beats()
    device = {"kind": "device", "rests_on": "events", "boot_id": "boot-a", "needs": "reset"}
    beats.beat(a_finding("device_fault", incident="d", action=Action.CORDON_RESET, facts=device))
    milder = a_finding(
        "device_fault", incident="d", action=Action.RESET_AFTER_DRAIN, facts={**device, "members": members_text("a")}
    )
    heat = a_finding("hotspot", incident="h", action=Action.WATCH, facts={"members": members_text("a")})
    beats.beat(milder, heat, after=5)
    alone = beats.beat(replace(heat, facts={}), after=5)
    assert alone.opened == ()
    assert [each.finding.incident for each in alone.after] == ["d"]
