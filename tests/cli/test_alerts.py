"""How the verbs speak of windows, silences and others' alerts, and what they are given."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.fakes.clock import START
from tests.fakes.people import NOW, TOKEN, Served, a_board, serving

from trimtab.cli import _root
from trimtab.cli.exits import Exit
from trimtab.cli.text_alerts import alert_lines, hushed_lines, quiet_lines, window_lines
from trimtab.cli.text_status import status_lines
from trimtab.model.alerts import AlertPlace, AlertState, ForeignAlert, Maintenance, MaintenanceScope, Quiet
from trimtab.show.api_types_alerts import QuietNow
from trimtab.show.circumstances import Circumstances

HUSH = Quiet(
    kind="maintenance",
    name="M3",
    about="rack r3",
    until=NOW + timedelta(hours=1),
    who="anna",
    why="new switches",
    findings=("F31",),
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(board=a_board(), web=tmp_path) as running:
        yield running


def run(served: Served, *words: str) -> Result:
    return CliRunner().invoke(_root, words, env={"TRIMTAB_URL": served.url, "TRIMTAB_TOKEN": TOKEN})


def test_a_window_is_made_listed_extended_and_ended(served: Served) -> None:
    made = run(served, "maintenance", "add", "gpu-01", "--until", "2h", "--reason", "new cooler")
    assert made.stdout == "M1: faults of gpu-01 page nobody until 2026-11-02T11:10:00Z. Evacuations go on.\n"
    assert "2 h left" in run(served, "maintenance", "list").stdout.replace("120 min", "2 h")
    assert "M1  maintenance" not in run(served, "quiet").stdout
    assert "gpu-01" in run(served, "quiet").stdout
    extended = run(served, "maintenance", "extend", "M1", "--until", "2026-11-02T20:00+08:00")
    assert extended.stdout == "M1 of gpu-01 now ends 2026-11-02T12:00:00Z.\n"
    ended = run(served, "maintenance", "end", "m1")
    assert ended.stdout == "M1 is over: what is still wrong with gpu-01 pages now.\n"
    assert "ended" in run(served, "maintenance", "list").stdout
    assert run(served, "quiet").stdout == "Nothing keeps anybody asleep.\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("gpu-01", "--rack", "r1", "--until", "2h", "--reason", "x"), Exit.USAGE, "Name one thing"),
        (("--until", "2h", "--reason", "x"), Exit.USAGE, "Name one thing"),
        (("gpu-01", "--until", "soon", "--reason", "x"), Exit.USAGE, "is no span of time"),
        (("gpu-01", "--until", "2026-11-30T14:00", "--reason", "x"), Exit.USAGE, "has no zone"),
        (("gpu-01", "--until", "2026-99-30T14:00Z", "--reason", "x"), Exit.USAGE, "is no moment"),
        (("gpu-77", "--until", "2h", "--reason", "x"), Exit.REFUSED, "There is no node 'gpu-77' here"),
        (("gpu-01", "--until", "2020-01-01T00:00Z", "--reason", "x"), Exit.REFUSED, "is not after"),
        (("gpu-01", "--until", "2h", "--reason", "x", "--silence"), Exit.REFUSED, "set alertmanager.urls"),
    ],
)
def test_what_cannot_be_is_refused_with_the_fix(served: Served, words: tuple, code: Exit, said: str) -> None:
    result = run(served, "maintenance", "add", *words)
    assert result.exit_code == code, result.output
    assert said in " ".join(result.stderr.split())


def test_an_unknown_window_is_refused(served: Served) -> None:
    result = run(served, "maintenance", "end", "M9")
    assert (result.exit_code, "There is no maintenance window M9" in result.stderr) == (Exit.REFUSED, True)
    assert run(served, "maintenance", "end", "F9").exit_code == Exit.USAGE


def test_every_verb_gives_its_data_as_json(served: Served) -> None:
    import msgspec

    for words in (("maintenance", "list"), ("quiet",), ("alerts",)):
        assert msgspec.json.decode(run(served, *words, "--json").stdout)


def test_windows_say_where_they_stand() -> None:
    def window(number: int, **changes) -> Maintenance:
        values = {
            "id": number,
            "scope": MaintenanceScope.RACK,
            "name": "r3",
            "starts_at": START,
            "until": NOW + timedelta(minutes=30),
            "who": "anna",
            "why": "switches",
            **changes,
        }
        return Maintenance(**values)

    lines = window_lines(
        [
            window(1),
            window(2, until=NOW),
            window(3, starts_at=NOW + timedelta(minutes=5)),
            window(4, ended_at=NOW, ended_by="ben"),
            window(5, silence_id="x"),
        ],
        NOW,
        120,
    )
    text = "\n".join(lines)
    for said in ("30 min left", "over since", "from 2026-11-02T09:15:00Z until", "ended", "by ben", "with a silence"):
        assert said in text
    assert window_lines([], NOW, 80) == ["No maintenance window stands."]


def test_others_alerts_say_what_they_are_about_and_since_when() -> None:
    def alert(state: AlertState = AlertState.FIRING, **place: str) -> ForeignAlert:
        return ForeignAlert(
            fingerprint="1",
            starts_at=START,
            state=state,
            name="GpuHot",
            labels={},
            annotations={"summary": "hot"},
            place=AlertPlace(**place),
            heard_at=NOW,
        )

    lines = alert_lines(
        [
            alert(node="gpu-01", gpu="3"),
            alert(AlertState.RESOLVED, pod="a/b"),
            alert(AlertState.AGED, workload="w"),
            alert(),
        ],
        NOW,
        120,
    )
    text = "\n".join(lines)
    for said in ("gpu-01 3", "GpuHot: hot", "10 min", "a/b", "over since", "not heard of since", "(nothing of ours)"):
        assert said in text
    assert alert_lines([], NOW, 80) == ["Others say nothing."]


def test_status_says_what_is_hushed_and_only_that() -> None:
    board = a_board(circumstances=Circumstances(quiet=(HUSH,)))
    assert any("M3" in line and "hushes F31" in line for line in status_lines(board, age_seconds=2.0, columns=120))
    assert (
        hushed_lines([Quiet(**{**{name: getattr(HUSH, name) for name in HUSH.__slots__}, "findings": ()})], 120) == []
    )


def test_quiet_tells_its_trouble() -> None:
    lines = quiet_lines(QuietNow(quiet=(HUSH,), silences_read_at=None, trouble="am-0:9093 does not answer."), 120)
    assert lines[-1] == "am-0:9093 does not answer."
