"""Whether the daemon itself is well: what doctor says, each failure with its fix. Pure; sees what /metrics sees."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.clock import age_text, count_text
from trimtab.model.board import NO_SCHEDULER
from trimtab.show.alertmanager.facts import alerting_checks
from trimtab.show.api_types import Check
from trimtab.show.checks_certificates import certificate_checks
from trimtab.show.checks_limits import limits_checks
from trimtab.show.checks_pair import pair_checks
from trimtab.show.checks_settings import settings_checks
from trimtab.show.metrics_facts import BeatFacts, DaemonView

LATE_BEATS = 3
"""A beat is late when it has not ended for this many intervals (and at least ten seconds)."""

INBOX_FULL_RATIO = 0.5


def daemon_checks(view: DaemonView) -> tuple[Check, ...]:
    """The checks, in the order of the path."""
    beats = (_beat(beat) for beat in view.facts.beats)
    pair = pair_checks(view.facts.pair) if view.facts.pair is not None else ()
    return (
        *settings_checks(view.facts.settings),
        *pair,
        *_inbox(view),
        *beats,
        *_sight(view),
        *_detectors(view),
        *_alerting(view),
        *limits_checks(view.facts.limits),
        *certificate_checks(view.facts.certificates),
    )


def _alerting(view: DaemonView) -> Iterable[Check]:
    return alerting_checks(view.facts.alerting) if view.facts.alerting is not None else ()


def _inbox(view: DaemonView) -> Iterable[Check]:
    reports, most = view.facts.inbox_reports, view.facts.inbox_reports_max
    if reports is None or not most:
        return
    is_ok = reports < most * INBOX_FULL_RATIO
    yield Check(
        name="inbox",
        is_ok=is_ok,
        sentence=f"{reports} of at most {most} reports wait for commit.",
        fix="" if is_ok else "The database does not keep up: look at the beat `remember` and at the disk it writes to.",
    )


def _beat(beat: BeatFacts) -> Check:
    limit_seconds = max(beat.interval_seconds * LATE_BEATS, 10.0)
    name = f"beat {beat.name}"
    if not beat.is_alive:
        return Check(name=name, is_ok=False, sentence=f"{beat.name} has ended.", fix="Restart the daemon; see its log.")
    if beat.age_seconds is None:
        return Check(name=name, is_ok=True, sentence=f"{beat.name} has not run yet.")
    verb = " failed" if beat.is_failing else ""
    said = f"{beat.name}{verb} {age_text(beat.age_seconds)} ago: {beat.sentence}"
    if beat.age_seconds > limit_seconds:
        fix = f"It is due every {beat.interval_seconds:g} s. The log says what it waits for."
        return Check(name=name, is_ok=False, sentence=said, fix=fix)
    if beat.is_failing:
        return Check(name=name, is_ok=False, sentence=said, fix="Mend what it names; it is tried again at each beat.")
    return Check(name=name, is_ok=True, sentence=said)


def _sight(view: DaemonView) -> Iterable[Check]:
    if view.board is None:
        yield Check(
            name="board",
            is_ok=False,
            sentence="Nothing has been judged yet.",
            fix="Wait for the first beat. If it does not come, the log of the daemon says why.",
        )
        return
    strip = view.board.strip
    yield Check(
        name="reports",
        is_ok=strip.gpus_reporting > 0,
        sentence=f"{strip.gpus_reporting} of {_report(strip.gpus_total)}.",
        fix="" if strip.gpus_reporting else "Start `trimtab agent` on the nodes, or name exporters under [scrape].",
    )
    for sentence in view.board.blind:
        is_wanted = sentence.startswith(NO_SCHEDULER)  # one node, or exporters alone: as somebody wants it
        yield Check(name="sight", is_ok=is_wanted, sentence=sentence, fix=_fix_of(sentence))


def _report(gpus: int) -> str:
    return f"{count_text(gpus, 'GPU')} report" + ("s" if gpus == 1 else "")


def _fix_of(sentence: str) -> str:
    if "exporter is not read" in sentence:
        return "Correct its url under [scrape] targets, or start the exporter; the log has the first failure."
    if sentence.startswith(NO_SCHEDULER):
        return "Add [kubernetes], as it says; a cluster without a scheduler is watched all the same."
    return "See the agent on that node, or the scheduler."


def _detectors(view: DaemonView) -> Iterable[Check]:
    for name, errors in sorted(view.facts.detector_errors_total.items()):
        if errors:
            sentence = f"The detector {name} failed {errors} times since the start; the others went on."
            yield Check(
                name=f"detector {name}", is_ok=False, sentence=sentence, fix="The log names the error: report it."
            )
