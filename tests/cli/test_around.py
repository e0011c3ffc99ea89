"""Verbs about what stands beside the plan: pauses, breakers, vetoes, a release of everything; and what status says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.fakes.people import (
    NOW,
    TOKEN,
    Served,
    a_board,
    a_breaker,
    a_command,
    a_recommendation,
    a_veto,
    serving,
)

from trimtab.cli import _root
from trimtab.cli.text_explain import recommendation_lines
from trimtab.cli.text_status import around_lines
from trimtab.model.board import Board, CommandRow, ReleaseRow
from trimtab.model.command import Command, CommandState, Mode, Outcome, Refusal
from trimtab.model.standing import Answer, OwnerAnswer, StandingKind
from trimtab.settings import DaemonSettings, KubernetesSettings
from trimtab.show.board import BoardBox, Published
from trimtab.show.circumstances import Circumstances
from trimtab.show.keys import write_client_file

Verb = Callable[..., Result]
CORDON, TAINT = "trimtab:1ed9e0:R11: cordon of gpu-01", "trimtab:1ed9e0:R11: taint trimtab/seat on gpu-03"


def run(*words: str) -> Result:
    return CliRunner().invoke(_root, words, env={"COLUMNS": "120"})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("TRIMTAB_URL", "TRIMTAB_TOKEN", "TRIMTAB_CA_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOGNAME", "anna")
    monkeypatch.setattr("trimtab.cli.release.LOOK_SECONDS", 0.05)
    (tmp_path / "web").mkdir()
    return tmp_path


@pytest.fixture
def served(home: Path) -> Iterator[Served]:
    with serving(board=a_board(), web=home / "web") as running:
        write_client_file(home / "trimtab" / "client.toml", url=running.url, token=TOKEN)
        yield running


# --- resume, pause, allow


def test_resume_says_what_still_stops_new_commands_and_how_to_end_it(home: Path) -> None:
    settings = DaemonSettings(kubernetes=KubernetesSettings())
    with serving(board=a_board(), web=home / "web", settings=settings, pause_reason=lambda: "") as running:
        write_client_file(home / "trimtab" / "client.toml", url=running.url, token=TOKEN)
        result = run("resume")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            "Resumed.",
            "Still paused in the cluster itself: no reason given. To end that: "
            "kubectl --namespace trimtab delete configmap trimtab-pause",
        ],
    )


def test_a_stopped_rule_goes_on_and_one_that_is_not_stopped_is_a_no(served: Served) -> None:
    served.memory.stand(a_breaker(), what="breaker", at=NOW)
    wrong = run("resume", "--rule", "hotspot")
    assert (wrong.exit_code, wrong.stderr) == (4, "trimtab: No breaker has stopped hotspot; stopped: device_fault.\n")
    assert run("resume", "--rule", "device_fault").stdout == "device_fault goes on.\n"
    assert served.memory.standing(StandingKind.BREAKER) == ()
    assert not served.memory.paused


def test_a_veto_is_lifted(served: Served) -> None:
    served.memory.stand(a_veto(), what="veto", at=NOW)
    assert run("allow", "gpu-01").stdout == "gpu-01 may be cordoned again where a finding asks for it.\n"
    assert served.memory.standing(StandingKind.VETO) == ()
    again = run("allow", "gpu-01")
    assert (again.exit_code, again.stderr) == (4, "trimtab: No veto stands on gpu-01.\n")


NOBODY = ("--url", "http://127.0.0.1:1", "--token", "x")


def test_where_the_daemon_does_not_answer_pause_prints_the_kubectl_line(home: Path) -> None:
    result = run("pause", "--reason", "it's on fire", *NOBODY)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.splitlines()[-2:] == [
        "To pause it inside the cluster, where it looks each beat:",
        "  kubectl --namespace trimtab create configmap trimtab-pause --from-literal=reason='it'\"'\"'s on fire'",
    ]


def test_the_kubectl_line_is_that_of_the_daemons_settings(home: Path) -> None:
    settings = home / "daemon.toml"
    settings.write_text('[kubernetes]\nnamespace = "ops"\nprefix = "tt"\n')
    said = run("pause", "--reason", "why", "--settings", str(settings), *NOBODY).stderr
    assert said.splitlines()[-1] == "  kubectl --namespace ops create configmap tt-pause --from-literal=reason=why"
    settings.write_text("")
    assert "has no [kubernetes]" in run("pause", "--reason", "why", "--settings", str(settings), *NOBODY).stderr


def test_where_no_daemon_is_known_at_all_the_line_is_printed_too(home: Path) -> None:
    result = run("pause", "--reason", "why")
    assert result.exit_code == 3
    assert "No daemon is known here" in result.stderr
    assert "create configmap trimtab-pause" in result.stderr


# --- release --all


class Pictures(BoardBox):
    """Shows one board after the other once a release has been asked for, each at least once."""

    def __init__(self, boards: Sequence[Board]) -> None:
        super().__init__()
        self.boards, self.reads, self.is_asked = boards, 0, False

    def latest(self) -> Published | None:
        if not self.is_asked:
            return super().latest()
        self.reads += 1
        return Published(board=self.boards[min(self.reads // 3, len(self.boards) - 1)], sequence=self.reads)


def pictures(*rows: ReleaseRow) -> list[Board]:
    return [a_board(), *(a_board(circumstances=Circumstances(release=row)) for row in rows)]


def a_release(**changes: object) -> ReleaseRow:
    return replace(ReleaseRow(asked_by="operator:anna", asked_at=NOW, at=NOW), **changes)  # type: ignore[arg-type]


def released(home: Path, boards: Sequence[Board], *words: str) -> tuple[Result, Served]:
    box = Pictures(boards)
    with serving(board=a_board(), web=home / "web", box=box) as running:
        write_client_file(home / "trimtab" / "client.toml", url=running.url, token=TOKEN)

        def asked(point: str) -> None:
            box.is_asked = box.is_asked or point == "after release of everything asked for"

        running.memory.at_point = asked
        return run("release", *words), running


OLD = a_release(asked_at=NOW - timedelta(minutes=5), is_done=True, given_back=("R3 held → undone",))
FIRST = a_release(given_back=("R11 held → undone",), left=(CORDON, TAINT))
LAST = a_release(given_back=("R11 held → undone", CORDON, TAINT), is_done=True)


def test_release_waits_and_tells_what_is_given_back_until_nothing_is_left(home: Path) -> None:
    result, served = released(home, pictures(OLD, FIRST, LAST), "--all", "--wait", "--reason", "we leave")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "release  given back: R11 held → undone",
        "         1 given back, 2 left, asked for by operator:anna.",
        f"         left: {CORDON}",
        f"         left: {TAINT}",
        f"release  given back: {CORDON}",
        f"         given back: {TAINT}",
        "         Everything of ours is given back. trimtab stays paused until `trimtab resume`.",
    ]
    assert served.memory.paused
    request = served.memory.standing(StandingKind.RELEASE)[0]
    assert (request.who, request.why) == ("operator:anna", "release --all: we leave")


def test_without_wait_it_tells_the_first_picture(home: Path) -> None:
    mark = "trimtab:9f:R3"
    result, served = released(home, pictures(FIRST, LAST), "--all", "--mark", mark)
    assert (result.exit_code, result.stdout.splitlines()[1]) == (
        0,
        "         1 given back, 2 left, asked for by operator:anna.",
    )
    assert served.memory.standing(StandingKind.RELEASE)[0].marks == (mark,)


def test_what_is_still_left_when_the_time_is_over_is_exit_code_1(home: Path) -> None:
    result, _ = released(home, pictures(FIRST), "--all", "--wait", "--limit", "1s", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["left"], told["is_done"]) == (1, [CORDON, TAINT], False)


def test_without_a_scheduler_nobody_waits_for_a_release_that_cannot_be(home: Path) -> None:
    board = a_board(snapshot=None, blind=("No scheduler is set up: nothing is planned.",))
    with serving(board=board, web=home / "web") as running:
        write_client_file(home / "trimtab" / "client.toml", url=running.url, token=TOKEN)
        result = run("release", "--all", "--wait")
    assert result.exit_code == 1
    assert "nothing was asked for" in result.stderr
    assert "trimtab db kept" in result.stderr
    assert not running.memory.standing(StandingKind.RELEASE)


def test_a_release_is_of_everything_and_takes_marks_only(served: Served) -> None:
    alone = run("release")
    assert (alone.exit_code, "Say --all" in alone.stderr) == (2, True)
    bad = run("release", "--all", "--mark", "gpu-07")
    assert bad.exit_code == 4
    assert served.memory.standing(StandingKind.RELEASE) == ()
    assert not served.memory.paused


# --- status and explain


def plain(lines: Sequence[str]) -> list[str]:
    return [click.unstyle(line) for line in lines]


def test_what_stands_beside_the_plan_is_said_and_nothing_where_there_is_nothing() -> None:
    assert around_lines(a_board(), 120) == []
    around = Circumstances(
        pauses=("Paused by anna: driver upgrade.",),
        why_not_written="the lease is held by hall-b-1",
        breakers=(a_breaker(),),
        vetoes=(a_veto(),),
        notes=("we may not list devicetaintrules.resource.k8s.io",),
        release=FIRST,
    )
    foreign = "trimtab:9f:R3 is of another daemon and is left alone: cordon of gpu-02."
    board = a_board(circumstances=around, refusals=(Refusal(rule="foreign_mark", sentence=foreign),))
    lines = plain(around_lines(board, 200))
    assert [line[:9].strip() for line in lines if not line.startswith(" ")] == [
        "paused",
        "standby",
        "stopped",
        "vetoed",
        "foreign",
        "not read",
        "release",
    ]
    text = "\n".join(lines)
    for part in (
        "paused   Paused by anna: driver upgrade.",
        "standby  Nothing is written: the lease is held by hall-b-1.",
        "trimtab resume --rule device_fault",
        "To lift it: trimtab allow gpu-01",
        f"foreign  {foreign}",
        "trimtab release --all --mark MARK",
        "not read we may not list devicetaintrules",
        f"left: {CORDON}",
    ):
        assert part in text


STEPS = (
    "kubectl cordon gpu-01",
    "kubectl --namespace research patch job llama-70b --type merge -p '" + "x" * 120 + "'",
)


def a_row(command: Command, **changes: object) -> CommandRow:
    made = CommandRow(
        command=command, name=command.name, fingerprint=command.recommendation.fingerprint, is_approvable=False
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def explained(row: CommandRow) -> str:
    return "\n".join(plain(recommendation_lines(row, (), at=NOW, mode=Mode.APPROVE, columns=100)))


def test_explain_shows_lines_to_copy_whole_the_way_its_time_and_the_gates() -> None:
    recommendation = a_recommendation(
        steps=STEPS,
        way="Kueue stops it whole and starts it on its seats",
        way_seconds=95.0,
        gates={"gpu-01": "a diagnostic run without errors, then 24 h without an XID."},
    )
    said = explained(a_row(a_command(recommendation=recommendation)))
    for step in STEPS:
        assert f"  {step}" in said.splitlines()
    assert "Kueue stops it whole and starts it on its seats. Expected: 95 s until all of it runs again." in said
    assert "Before it returns to service\n  - gpu-01: a diagnostic run without errors" in said
    bare = explained(a_row(a_command()))
    assert not {"Lines to copy", "How it goes", "Before it returns", "Owners"} & set(bare.splitlines())


def test_explain_shows_what_owners_were_asked_and_said_and_until_when_notice_runs() -> None:
    asked = OwnerAnswer(asked_at=NOW, deadline=NOW + timedelta(minutes=5))
    answers = {
        "research/a": asked,
        "research/b": replace(asked, answer=Answer.NO, answered_at=NOW, said="the paper is due"),
        "research/c": replace(asked, answer=Answer.NOT_BEFORE, not_before=NOW + timedelta(hours=1)),
    }
    command = a_command(state=CommandState.APPROVED, answers=answers, noticed_at=NOW)
    said = explained(a_row(command, notice_until=NOW + timedelta(minutes=10)))
    for part in (
        "research/a: asked at 09:10 UTC, has until 09:15 UTC to answer",
        "research/b: no at 09:10 UTC: the paper is due",
        "research/c: not before 10:10 UTC",
        "Told at 09:10 UTC; it begins at 09:20 UTC or later.",
    ):
        assert part in said


def test_explain_sets_what_came_out_beside_the_forecast() -> None:
    outcome = Outcome(
        command_id=11,
        measured_at=NOW,
        is_good=True,
        sentence="settled after 130 s",
        gpu_hours_lost=1.9,
        gpu_hours_saved=27.4,
        gpus_unlocked=16,
        seconds_to_settle=130.0,
        seconds_forecast=95.0,
        gpu_hours_lost_forecast=2.1,
        gpu_hours_saved_forecast=None,
        seats_planned=2,
        seats_hit=1,
    )
    record = "right in 46 of 49; takes 1.4× as long as said"
    said = explained(a_row(a_command(state=CommandState.SETTLED), outcome=outcome, record=record))
    for part in (
        "  time to run again     forecast     95 s   as it came    2 min",
        "  GPU-h lost (measured) forecast      2.1   as it came      1.9",
        "  GPU-h expected, net   forecast        -   as it came     27.4",
        "  Net: expected over the horizon, after what it really cost.",
        "  seats as planned      forecast        2   as it came        1",
        record,
    ):
        assert part in said


def test_approve_shows_the_schedulers_own_words_too(served: Served) -> None:
    served.memory.stored[11] = a_command(recommendation=a_recommendation(steps=STEPS[:1]))
    lines = run("approve", "R11").stdout.splitlines()
    assert lines.index("    In the scheduler's own words:") + 1 == lines.index("      kubectl cordon gpu-01")
    assert "  - cordon gpu-01" in lines
