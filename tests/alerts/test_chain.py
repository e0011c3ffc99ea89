"""Every alert by real Prometheus and Alertmanager: its fault played, told once to on-call, over once it is mended.

Rules, ranges, offsets and the waits of the sample Alertmanager are shortened by one factor, and so are the faults. Each
fault has a cluster, a node and a daemon of its own, so that all can be played at once and none hides another.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.alerts.faults import AGENT, CLUSTER, DAEMON, FAULTS, WELL, Counter, Fault, Gauge, Source
from tests.alerts.promtool_tests import ALWAYS_THERE, alert_rules, needed_by
from tests.alerts.servers import Chain, OnCall, Told, a_chain, a_page, why_missing
from tests.system.processes import eventually

FACTOR = 60.0
"""One minute of rules and faults is one second here."""
SHORT_MINUTES = 45
"""What needs longer, with all that it looks back on, is played by the long run."""
RECEIVERS = {"critical": "on-call", "warning": "day-shift", "info": "notices"}


class World:
    """One fault's own cluster, node and daemon: what they say now."""

    def __init__(self, fault: Fault, number: int) -> None:
        self.fault = fault
        self.number = number
        self.is_ill = False
        self.ill_at = self.mended_at = 0.0
        needed = needed_by(fault.alert) | ALWAYS_THERE
        base = {name: source for name, source in WELL.items() if name.partition("{")[0] in needed}
        self._series = {self.own(name): source for name, source in {**base, **fault.series}.items()}
        self._totals = dict.fromkeys(self._series, 0.0)
        self._looked_at = time.monotonic()

    def own(self, text: str) -> str:
        """A text about the common fleet as one about this world's."""
        n = f"{self.number:02}"
        text = text.replace(CLUSTER, f"hall-{n}").replace("hall-b", f"hall-{n}b").replace("gpu-07", f"gpu-{n}")
        text = text.replace("GPU-1", f"GPU-{n}").replace("daemon:9740", f"daemon-{n}:9740")
        return text.replace("gpu-03", f"exp-{n}").replace("trimtab-daemon", f"trimtab-daemon-{n}")

    def labels(self) -> dict[str, str]:
        """The labels that on-call must see."""
        fault = self.fault
        told = {"alertname": fault.alert, "severity": fault.severity, "incident": self.own(fault.incident),
                "theme": fault.theme, **{name: self.own(value) for name, value in fault.labels.items()}}  # fmt: skip
        return {name: value for name, value in told.items() if value}

    def break_it(self) -> None:
        self.is_ill, self.ill_at = True, time.monotonic()

    def mend_it(self) -> None:
        self.is_ill, self.mended_at = False, time.monotonic()

    def lines(self) -> list[str]:
        now = time.monotonic()
        minutes, self._looked_at = (now - self._looked_at) * FACTOR / 60, now
        found = []
        for name, source in self._series.items():
            value = self._value(name, source, minutes)
            if value is not None:
                found.append(f"{name} {value!r}")
        return found

    def _value(self, name: str, source: Source, minutes: float) -> float | None:
        if isinstance(source, Gauge):
            return source.ill if self.is_ill else source.well
        assert isinstance(source, Counter)
        self._totals[name] += (source.ill if self.is_ill else source.well) * minutes
        return self._totals[name]


class Stage:
    """All worlds on one page; nothing at all once the curtain has fallen."""

    def __init__(self, faults: list[Fault]) -> None:
        self.worlds = [World(fault, number) for number, fault in enumerate(faults)]
        self.has_ended = False
        self._lock = threading.Lock()

    def page(self) -> str:
        with self._lock:
            lines = [] if self.has_ended else [line for world in self.worlds for line in world.lines()]
        return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def scrape(port: int) -> list[dict[str, object]]:
    return [{"job_name": "stage", "honor_labels": True, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]


def told_of(oncall: OnCall, world: World) -> list[Told]:
    labels = world.labels()
    where = {"cluster": labels["cluster"]} if "cluster" in labels else {}
    return [
        one
        for one in oncall.of(world.fault.alert, incident=labels["incident"], **where)
        if any(labels.items() <= alert["labels"].items() for alert in one.alerts)
    ]


def play(chain: Chain, stage: Stage, tmp_path: Path) -> None:
    """Break each world when it has been well for long enough, mend it once on-call was told, until all are over."""
    began_at = time.monotonic()
    waiting, broken, mended = list(stage.worlds), [], []

    def step() -> bool:
        now = time.monotonic()
        for world in [one for one in waiting if now - began_at > (one.fault.before_minutes + 3) * 60 / FACTOR]:
            world.break_it()
            waiting.remove(world)
            broken.append(world)
        for world in [one for one in broken if told_of(chain.oncall, one)]:
            world.mend_it()
            broken.remove(world)
            mended.append(world)
        return not waiting and not broken and all(told_of(chain.oncall, one)[-1].status == "resolved" for one in mended)

    def said() -> str:
        missing = [one.fault.alert for one in waiting + broken]
        open_ = [one.fault.alert for one in mended if told_of(chain.oncall, one)[-1].status != "resolved"]
        logs = "".join(
            (tmp_path / "chain" / f"{name}.log").read_text()[-800:] for name in ("prometheus", "alertmanager")
        )
        return f"never told: {missing}; never over: {open_}\n{logs}"

    longest = max(one.fault.before_minutes + one.fault.for_minutes + one.fault.after_minutes for one in stage.worlds)
    eventually(step, seconds=60 + longest * 60 / FACTOR * 1.5, said=said)


def report(stage: Stage, oncall: OnCall) -> None:
    """Fault to page, and mended to told, in the rules' own time."""
    print(f"\n{'alert':32} {'for':>8} {'to page':>9} {'to end':>9}   at {FACTOR:g} times the pace")
    for world in sorted(stage.worlds, key=lambda one: one.fault.alert):
        told = told_of(oncall, world)
        page, end = (told[0].at - world.ill_at) * FACTOR, (told[-1].at - world.mended_at) * FACTOR
        print(f"{world.fault.alert:32} {world.fault.for_minutes * 60:6g} s {page:7.0f} s {end:7.0f} s")


def check(stage: Stage, oncall: OnCall) -> None:
    for world in stage.worlds:
        told, fault = told_of(oncall, world), world.fault
        assert [one.status for one in told] == ["firing", "resolved"], (fault.alert, told)
        assert len({one.key for one in told}) == 1, fault.alert
        (alert,) = told[0].alerts
        assert alert["labels"] == world.labels(), fault.alert
        assert {"summary", "impact", "action", "runbook"} <= alert["annotations"].keys()
        assert "<no value>" not in str(alert["annotations"]), alert["annotations"]
        if "finding" in alert["labels"]:
            assert alert["annotations"]["link"] == "https://trimtab.example/f/31"
        is_owners = fault.labels.get("audience") == "owner"
        assert {one.receiver for one in told} == {"owners" if is_owners else RECEIVERS[fault.severity]}, fault.alert


def strangers(stage: Stage, oncall: OnCall) -> list[dict[str, str]]:
    """Alerts that on-call was told and that are no world's fault."""
    known = [world.labels() for world in stage.worlds]
    told = [alert["labels"] for one in list(oncall.told) for alert in one.alerts]
    return [labels for labels in told if labels not in known and labels["alertname"] != "TrimtabAlwaysFiring"]


def is_quiet(chain: Chain) -> bool:
    """Nothing fires or waits, and all that on-call was told of is over there too."""
    if {one["labels"]["alertname"] for one in chain.alerts()} != {"TrimtabAlwaysFiring"}:
        return False
    last = {one.key: one for one in list(chain.oncall.told)}
    return all(one.status == "resolved" or one.receiver == "dead-man" for one in last.values())


def run(tmp_path: Path, faults: list[Fault]) -> None:
    if why_missing():
        pytest.skip(why_missing())
    stage = Stage(faults)
    chain_home = tmp_path / "chain"
    with (
        a_page(stage.page) as port,
        a_chain(chain_home, scrapes=scrape(port), factor=FACTOR, interval="500ms") as chain,
    ):
        eventually(lambda: chain.query("count(trimtab_board_age_seconds)"))
        # Before the first scrape all is absent: that is no part of the play.
        eventually(lambda: is_quiet(chain))
        chain.oncall.told.clear()
        play(chain, stage, tmp_path)
        report(stage, chain.oncall)
        check(stage, chain.oncall)
        assert strangers(stage, chain.oncall) == []
        beats = chain.oncall.of("TrimtabAlwaysFiring")
        assert {one.receiver for one in beats} == {"dead-man"}
        assert len(beats) > 3, "a dead man's switch is told again and again"
        # The curtain: no page of anybody any more. The dead man goes on; what is absent says so.
        stage.has_ended = True
        for alert in ("TrimtabGpuSeriesAbsent", "TrimtabDaemonAbsent"):
            eventually(lambda alert=alert: [one for one in chain.oncall.of(alert) if one.status == "firing"][-1:])
        assert chain.oncall.of("TrimtabGpuSeriesAbsent")[-1].receiver == "on-call"


def is_short(fault: Fault) -> bool:
    return fault.before_minutes + fault.for_minutes + fault.after_minutes <= SHORT_MINUTES


PLAYED = [fault for fault in FAULTS if fault.alert != "TrimtabGpuSeriesAbsent"]
"""All but the one that is tried when the curtain has fallen."""


def test_every_alert_is_told_once_and_is_over_once_its_fault_is(tmp_path: Path) -> None:
    run(tmp_path, [fault for fault in PLAYED if is_short(fault)])


@pytest.mark.long
def test_what_waits_for_long_is_told_once_too(tmp_path: Path) -> None:
    run(tmp_path, [fault for fault in PLAYED if not is_short(fault)])


def test_no_alert_is_left_out() -> None:
    played = {fault.alert for fault in PLAYED} | {"TrimtabGpuSeriesAbsent", "TrimtabAlwaysFiring"}
    assert {rule["alert"] for rule in alert_rules()} == played
    long = {fault.alert for fault in PLAYED if not is_short(fault)}
    hours = {"TrimtabHealthReadingsGone", "TrimtabHistoryShort", "TrimtabOutboxDead", "TrimtabPausedLong"}
    assert long == hours | {"TrimtabReleaseStuck"}


def test_the_worlds_differ_in_all_that_could_hide_one_another() -> None:
    worlds = Stage(list(FAULTS)).worlds
    text = [world.own(f"{CLUSTER} gpu-07 GPU-1 {DAEMON} {AGENT}") for world in worlds]
    assert len(set(text)) == len(worlds)
