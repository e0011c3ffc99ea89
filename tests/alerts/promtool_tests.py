"""Writes alerts/trimtab.test.yml from the faults: for each alert quiet while well, waiting, firing alone, over.

`python -m tests.alerts.promtool_tests` writes it; a test keeps it current. Sites that change rules can run it too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import yaml
from tests.alerts.faults import AGENT, CLUSTER, FAULTS, WELL, Counter, Fault, Gauge, Source

ALERTS = Path(__file__).parent.parent.parent / "alerts"
TEST_FILE = ALERTS / "trimtab.test.yml"
HEAD = """\
# Written by `python -m tests.alerts.promtool_tests`; run with `promtool test rules trimtab.test.yml`.
# Each alert in turn: quiet while all is well, not yet firing within its `for`, firing alone, over once mended.
"""
STEP_MINUTES = 0.5
LAG_MINUTES = 2
QUIET = 'count by (alertname) (ALERTS{alertname!="TrimtabAlwaysFiring",alertstate="firing"})'


def document() -> str:
    """The whole file."""
    files = sorted(path.name for path in ALERTS.glob("*.rules.yml"))
    # Findings first: the others ask for what they record.
    order = sorted(files, key=lambda name: name != "trimtab-findings.rules.yml")
    whole = {
        "rule_files": files,
        "group_eval_order": _groups(order),
        "evaluation_interval": "30s",
        "tests": [_healthy(), *(_test(fault) for fault in FAULTS), *_more()],
    }
    return HEAD + yaml.safe_dump(whole, sort_keys=False, width=10_000, default_flow_style=None)


def _groups(files: list[str]) -> list[str]:
    return [group["name"] for name in files for group in yaml.safe_load((ALERTS / name).read_text())["groups"]]


def _healthy() -> dict[str, Any]:
    return {
        "name": "a fleet that is well fires only the dead-man",
        "interval": "30s",
        "input_series": _series({}, 0, 0, 120),
        "promql_expr_test": [
            _expect("10m", QUIET, {}),
            _expect("58m", QUIET, {}),
            _expect("58m", 'ALERTS{alertname="TrimtabAlwaysFiring"}', {_dead_man(): 1}),
        ],
    }


def _dead_man() -> str:
    return _name(
        "ALERTS",
        {"alertname": "TrimtabAlwaysFiring", "alertstate": "firing", "severity": "none", "incident": "dead_man",
         "theme": "daemon"},
    )  # fmt: skip


def _test(fault: Fault) -> dict[str, Any]:
    before = fault.before_minutes + 6
    ill = int(fault.for_minutes + LAG_MINUTES + 4)
    after = fault.after_minutes + 8
    alert = f'ALERTS{{alertname="{fault.alert}",alertstate="firing"}}'
    told = {"alertname": fault.alert, "alertstate": "firing", "severity": fault.severity, "incident": fault.incident,
            "theme": fault.theme, **fault.labels}  # fmt: skip
    checks = [_expect(f"{before - 1}m", QUIET, {})]
    if fault.for_minutes >= 1:
        waiting = before + fault.for_minutes - STEP_MINUTES
        checks.append(_expect(f"{int(waiting * 60)}s", alert, {}))
    checks += [
        _expect(f"{before + ill - 1}m", alert, {_name("ALERTS", told): 1}),
        _expect(f"{before + ill - 1}m", QUIET, {_name("", {"alertname": fault.alert}): 1}),
        _expect(f"{before + ill + after - 1}m", QUIET, {}),
    ]
    return {
        "name": fault.alert,
        "interval": "30s",
        "input_series": _series(dict(fault.series), before, ill, after, needed=needed_by(fault.alert)),
        "promql_expr_test": checks,
    }


def _series(
    changed: Mapping[str, Source], before: int, ill: int, after: int, *, needed: Set[str] | None = None
) -> list[dict[str, str]]:
    """All that a healthy fleet says, or what of it `needed` names, with some of it changed."""
    steps = [round(minutes / STEP_MINUTES) for minutes in (before, ill, after)]
    base = {name: source for name, source in WELL.items() if needed is None or name.partition("{")[0] in needed}
    return [{"series": name, "values": _values(source, *steps)} for name, source in {**base, **changed}.items()]


ALWAYS_THERE = frozenset({"trimtab_board_age_seconds", "trimtab_gpu_up", "trimtab_page_info", "up"})
"""Without these something would be absent."""


def needed_by(alert: str) -> Set[str]:
    """The metrics that the alert asks for, so that each test stays small; the healthy fleet is tested whole."""
    expression = next(rule["expr"] for rule in alert_rules() if rule["alert"] == alert)
    return ALWAYS_THERE | {name for name in (one.partition("{")[0] for one in WELL) if name in expression}


@functools.cache
def alert_rules() -> list[dict[str, Any]]:
    """Every alert of every rule file."""
    groups = [
        group for path in sorted(ALERTS.glob("*.rules.yml")) for group in yaml.safe_load(path.read_text())["groups"]
    ]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def _values(source: Source, before: int, ill: int, after: int) -> str:
    if isinstance(source, Counter):
        return _counted(source, before, ill, after)
    if source.well == source.ill:
        return f"{source.well:g}x{before + ill + after - 1}"
    parts: list[str] = []
    for value, steps in ((source.well, before), (source.ill, ill), (source.well, after)):
        parts += _absent(steps) if value is None else [f"{value:g}x{steps - 1}"]
    return " ".join(parts)


def _absent(steps: int) -> list[str]:
    return ["stale", f"_x{steps - 1}"] if steps else []


def _counted(source: Counter, before: int, ill: int, after: int) -> str:
    total, parts = 0.0, []
    for per_minute, steps in ((source.well, before), (source.ill, ill), (source.well, after)):
        if steps:
            parts.append(f"{total:g}+{per_minute * STEP_MINUTES:g}x{steps - 1}")
            total += per_minute * STEP_MINUTES * steps
    return " ".join(parts)


def _expect(at: str, expression: str, samples: dict[str, float]) -> dict[str, Any]:
    found = [{"labels": labels, "value": value} for labels, value in samples.items()]
    return {"expr": expression, "eval_time": at, "exp_samples": found}


def _name(metric: str, labels: dict[str, str]) -> str:
    return f"{metric}{{{','.join(f'{key}={value!r}'.replace(chr(39), chr(34)) for key, value in labels.items())}}}"


def _more() -> Iterator[dict[str, Any]]:
    """What stays quiet because something else speaks for it, and what goes on although the daemon has gone."""
    finding = next(fault for fault in FAULTS if fault.alert == "TrimtabDeviceFault")
    told = next(iter(finding.series))
    lost = next(fault for fault in FAULTS if fault.alert == "TrimtabGpuDoesNotAnswer")
    yield {
        "name": "a GPU that has a finding is one page, not two",
        "interval": "30s",
        "input_series": _series({**lost.series, told: Gauge(None, 1)}, 6, 12, 8),
        "promql_expr_test": [_expect("17m", QUIET, {_name("", {"alertname": "TrimtabDeviceFault"}): 1})],
    }
    paged = told.replace("workload=", 'pager="outbox",workload=')
    yield {
        "name": "what the outbox pages, Alertmanager does not; what nobody else pages, it does",
        "interval": "30s",
        "input_series": _series({paged: Gauge(None, 1), told.replace("F31", "F32"): Gauge(None, 1)}, 6, 12, 8),
        "promql_expr_test": [
            _expect("17m", 'ALERTS{alertname="TrimtabDeviceFault",finding="F31"}', {}),
            _expect("17m", QUIET, {_name("", {"alertname": "TrimtabDeviceFault"}): 1}),
        ],
    }
    daemon = {name: Gauge(source.well, None) for name, source in WELL.items()
              if 'job="trimtab-daemon"' in name and isinstance(source, Gauge)}  # fmt: skip
    both = {_name("", {"alertname": "TrimtabDeviceFault"}): 1, _name("", {"alertname": "TrimtabDaemonAbsent"}): 1}
    series = _series(daemon, 12, 70, 8)
    # Open from minute 6 on; the daemon goes at minute 12, and its finding is held for an hour and no longer.
    series.append({"series": told, "values": "_x12 1x11 stale _x155"})
    yield {
        "name": "a daemon that is gone has mended nothing",
        "interval": "30s",
        "input_series": series,
        "promql_expr_test": [
            _expect("11m", QUIET, {_name("", {"alertname": "TrimtabDeviceFault"}): 1}),
            _expect("13m", QUIET, {_name("", {"alertname": "TrimtabDeviceFault"}): 1}),
            _expect("60m", QUIET, both),
            _expect("76m", QUIET, {_name("", {"alertname": "TrimtabDaemonAbsent"}): 1}),
        ],
    }
    racks = sorted(name for name in WELL if name.startswith("trimtab_rack_nodes"))
    yield {
        "name": "a blind rack is not over because the scheduler cannot be read",
        "interval": "30s",
        "input_series": [
            *(one for one in _series({}, 0, 0, 60) if one["series"] not in racks),
            *({"series": name, "values": f"8x11 {0 if 'reporting' in name else 8}x5 stale _x60"} for name in racks),
        ],
        "promql_expr_test": [
            _expect("8m", QUIET, {_name("", {"alertname": "TrimtabRackBlind"}): 1}),
            _expect("15m", QUIET, {_name("", {"alertname": "TrimtabRackBlind"}): 1}),
            _expect("25m", QUIET, {}),
        ],
    }
    node = 'cluster="hall-a",node="gpu-07"'
    agent = 'instance="gpu-07:9742",job="trimtab-agents"'
    gauge = f'trimtab_gpu_xid_last_code{{{node},gpu="GPU-1",{agent}}}'
    again = f'trimtab_node_events_total{{{node},kind="xid",code="79",{agent}}}'
    yield {
        "name": "an exporter's XID gauge is not counted, and an agent that has only now been found is no news",
        "interval": "30s",
        "input_series": [
            *({"series": name, "values": ("_x40 " if agent in name else "") + _values(source, 80, 0, 0)}
              for name, source in WELL.items()),
            {"series": gauge, "values": "_x40 0x20 79x40 31x20"},
            {"series": again, "values": "_x40 3x80"},
        ],
        "promql_expr_test": [_expect("26m", 'ALERTS{alertname=~"TrimtabXid.*"}', {})],
    }  # fmt: skip
    yield {
        "name": "an old XID that comes again fires again",
        "interval": "30s",
        "input_series": [*_series({}, 0, 0, 120), {"series": again, "values": "3x60 4x60"}],
        "promql_expr_test": [
            _expect("29m", QUIET, {}),
            _expect("34m", QUIET, {_name("", {"alertname": "TrimtabXidCritical"}): 1}),
            _expect("50m", QUIET, {}),
        ],
    }
    yield from _what_wakes_nobody(told)
    yield from _of_clusters()
    yield {
        "name": "a value that is away for a moment mends nothing",
        "interval": "30s",
        "input_series": _series({next(iter(lost.series)): Gauge(0, None)}, 6, 3, 12),
        "promql_expr_test": [_expect(f"{at}s", _count_of(lost.alert), {"{}": 1}) for at in (300, 390, 510, 570, 750)],
    }


def _what_wakes_nobody(told: str) -> Iterator[dict[str, Any]]:
    """Findings that page nobody leave the floor's alerts alone: history, and a program's own error."""
    at = f'node="gpu-07",gpu="GPU-1",{AGENT}'
    remap = f'trimtab_gpu_row_remap_failed{{cluster="{CLUSTER}",{at}}}'
    lost = f'trimtab_node_events_total{{cluster="{CLUSTER}",node="gpu-07",kind="xid",code="79",{AGENT}}}'
    mild = told.replace('severity="critical"', 'severity="info"')
    own = mild.replace('action="cordon_reboot"', 'action="alert_owner"')
    for name, finding in (("what is only told", mild), ("a program's own error", own)):
        yield {
            "name": f"{name} hides no fault of the GPU",
            "interval": "30s",
            "input_series": [
                *_series({remap: Gauge(0, 1), finding: Gauge(None, 1)}, 12, 12, 8),
                {"series": lost, "values": "_x24 1x40"},
            ],
            "promql_expr_test": [
                _expect("20m", _count_of("TrimtabRowRemapFailed"), {"{}": 1}),
                _expect("20m", _count_of("TrimtabXidCritical"), {"{}": 1}),
            ],
        }


def _of_clusters() -> Iterator[dict[str, Any]]:
    """What is one alert a cluster, however many nodes it has, and what holds while only another cluster lives."""
    nodes = [f"n-{number:02}" for number in range(20)]
    dropped = 'trimtab_series_dropped_total{{cluster="hall-a",node="{}",instance="daemon:9740",job="trimtab-daemon"}}'
    yield {
        "name": "a fleet too large for one page is one alert",
        "interval": "30s",
        "input_series": [
            *_series({}, 0, 0, 60),
            *({"series": dropped.format(node), "values": "0+600x59"} for node in nodes),
        ],
        "promql_expr_test": [_expect("20m", QUIET, {_name("", {"alertname": "TrimtabSeriesDropped"}): 1})],
    }
    board = 'trimtab_board_age_seconds{{cluster="{}",instance="{}:9740",job="trimtab-daemon"}}'
    absent = 'ALERTS{alertname="TrimtabDaemonAbsent",alertstate="firing"}'
    gone = {"alertname": "TrimtabDaemonAbsent", "alertstate": "firing", "severity": "critical",
            "incident": "daemon_absent", "theme": "daemon", "cluster": CLUSTER}  # fmt: skip
    yield {
        "name": "a daemon that is gone for more than a day is still gone, though another cluster's lives",
        "interval": "4m",
        "input_series": [
            {"series": board.format(CLUSTER, "daemon"), "values": "3x15 stale _x500"},
            {"series": board.format("hall-b", "other"), "values": "3x500"},
        ],
        "promql_expr_test": [_expect(at, absent, {_name("ALERTS", gone): 1}) for at in ("2h", "23h", "27h", "32h")],
    }


def _count_of(alert: str) -> str:
    return f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'


if __name__ == "__main__":
    TEST_FILE.write_text(document(), encoding="utf-8")
