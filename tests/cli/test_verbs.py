"""The operator's verbs against the real API: what they print, what they change, how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.fakes.people import NOW, TOKEN, Served, a_board, a_fault, serving

from trimtab.cli import _root
from trimtab.model.advice import Evidence
from trimtab.model.board import Board, GpuHistory
from trimtab.model.command import AuditLine, CommandState
from trimtab.model.people import Role
from trimtab.show.keys import write_client_file

Verb = Callable[..., Result]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    web = tmp_path / "web"
    web.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("TRIMTAB_URL", "TRIMTAB_TOKEN", "TRIMTAB_CA_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOGNAME", "anna")
    with serving(board=a_board(), web=web) as running:
        write_client_file(tmp_path / "trimtab" / "client.toml", url=running.url, token=TOKEN)
        yield running


@pytest.fixture
def verb(served: Served) -> Verb:
    """Runs a verb in a pipe of 120 columns (or as many as asked)."""

    def run(*words: str, columns: int = 120, text: str | None = None) -> Result:
        return CliRunner().invoke(_root, words, input=text, env={"COLUMNS": str(columns)})

    return run


def test_status_says_what_is_wrong_who_waits_and_what_to_do(verb: Verb) -> None:
    result = verb("status")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "hall-a   32 GPUs   20 working   3 stranded for an 8-GPU job   8 spare   1 out of service"
    )
    assert "wrong    F31  gpu-01 GPU 3 fell off the bus (XID 79), 10 min" in result.stdout
    assert "waiting  eval-9  1 × 8 GPUs  10 min   room: 3 GPUs free, 8 needed (1 spare kept for faults)" in lines
    assert any(
        line.startswith("do       R11  Cordon gpu-01, bring llama-70b back with spare gpu-03.") for line in lines
    )
    assert "gain 31.4 GPU-h  cost 2.1 GPU-h  expires 09:15 UTC" in result.stdout
    assert "not done Not moved: 2 of 2 allowed moves in queue research are under way." in lines
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("columns", [120, 80, 60])
@pytest.mark.parametrize("words", [("status",), ("explain", "R11"), ("explain", "F31"), ("plan",), ("findings",)])
def test_nothing_runs_over_the_edge(verb: Verb, words: tuple[str, ...], columns: int) -> None:
    lines = verb(*words, columns=columns).stdout.splitlines()
    assert [line for line in lines if len(line) > columns] == []


def test_when_nothing_is_wrong_it_says_so(served: Served, verb: Verb) -> None:
    served.box.publish(a_board(findings=(), commands=(), refusals=(), last_finding_at=NOW.replace(hour=6)))
    assert "Nothing is wrong. Last finding 3 h ago. 31 of 32 GPUs report." in verb("status").stdout


def test_one_gpu_is_no_plural(served: Served, verb: Verb) -> None:
    board = a_board(findings=(), commands=(), refusals=())
    served.box.publish(replace(board, strip=replace(board.strip, gpus_total=1, gpus_reporting=1)))
    said = verb("status").stdout
    assert "hall-a   1 GPU   " in said
    assert "1 of 1 GPU reports." in said
    assert "1 GPUs" not in said


def test_json_is_the_same_data(verb: Verb) -> None:
    result = verb("status", "--json")
    assert msgspec.json.decode(result.stdout, type=Board) == a_board()
    assert json.loads(verb("findings", "--json").stdout)["findings"][0]["id"] == 31
    assert json.loads(verb("plan", "--json").stdout)["recommendations"][0]["name"] == "R11"
    assert json.loads(verb("explain", "F31", "--json").stdout)["finding"]["rule"] == "device_fault"
    assert json.loads(verb("doctor", "--json").stdout)["checks"][-1]["name"] == "beat judge"


def test_findings_by_state(verb: Verb) -> None:
    assert "F31" in verb("findings").stdout
    closed = verb("findings", "--state", "closed", "--since", "2h").stdout
    assert "F7" in closed
    assert "closed 09:10 UTC: the GPU answers again" in closed
    assert "F31" not in closed


def test_explain_a_recommendation_tells_everything_that_it_rests_on(served: Served, verb: Verb) -> None:
    evidence = Evidence(source="nvml", text="power over its limit", at=NOW, value=710.5, threshold=700.0, unit="W")
    against = Evidence(source="nvml", text="PCIe replays are flat")
    fault = served.memory.kept[31] = a_fault(evidence=(evidence,), against=(against,))
    served.box.publish(a_board(findings=(fault,)))
    said = verb("explain", "R11").stdout
    for part in (
        "Cordon gpu-01, bring llama-70b back with spare gpu-03.",
        "F31 gpu-01 GPU 3 fell off the bus (XID 79)",
        "nvml 2026-11-02T09:10:00Z: power over its limit [710.5 W, threshold 700 W]",
        "gpu-03 is the only spare.",
        "nvml: PCIe replays are flat",
        "1. cordon gpu-01  (waiting)",
        "2. reserve research/llama-70b: 8 GPUs on gpu-03 for llama-70b-1  (waiting)",
        "gain 31.4 GPU-h over 24 h, 16 GPUs unlocked",
        "16 GPUs × 1.96 h",
        "cost 2.1 GPU-h, 2 pods disturbed (research/llama-70b)",
        "llama-70b stands still: 16 GPU-hours are lost each hour.",
        "right in 46 of 49, last wrong on 12 Nov",
        "trimtab approve R11",
    ):
        assert part in said


def test_explain_a_finding_names_what_is_recommended_for_it(verb: Verb) -> None:
    said = verb("explain", "f31").stdout
    assert "F31  critical  device_fault  action: cordon reboot" in said
    assert "kernel: Xid 79" in said
    assert "R11 Cordon gpu-01" in said


def test_a_doubtful_finding_says_that_no_move_rests_on_it(served: Served, verb: Verb) -> None:
    fault = served.memory.kept[31] = a_fault(**{"is_corroborated": False})
    served.box.publish(a_board(findings=(fault,)))
    assert "no move rests on this alone" in verb("explain", "F31").stdout


def test_approve_prints_the_writes_and_approves_exactly_those(served: Served, verb: Verb) -> None:
    result = verb("approve", "R11")
    assert result.exit_code == 0
    assert "  - cordon gpu-01" in result.stdout.splitlines()
    assert "R11 approved; the next beat begins (approved by operator:anna" in result.stdout
    command = served.memory.stored[11]
    assert (command.state, command.approved_fingerprint) == (
        CommandState.APPROVED,
        command.recommendation.fingerprint,
    )


def test_what_cannot_be_approved_is_refused_before_its_writes_are_shown(served: Served, verb: Verb) -> None:
    assert verb("approve", "R11").exit_code == 0
    again = verb("approve", "R11")
    assert (again.exit_code, again.stdout) == (4, "")
    assert "Not done: R11 is approved; only what is proposed can be approved." in again.stderr


def test_a_viewer_is_told_so_before_the_writes(served: Served, verb: Verb) -> None:
    token = served.door.passes.give_token(name="vera", role=Role.VIEWER, lasts_seconds=None, by="operator")[1]
    no = verb("approve", "R11", "--token", token)
    assert (no.exit_code, no.stdout) == (4, "")
    assert "this needs the role operator; vera is a viewer." in no.stderr
    assert served.memory.stored[11].state is CommandState.PROPOSED


def test_where_no_gpu_reports_nothing_is_called_well(served: Served, verb: Verb) -> None:
    board = a_board(findings=(), commands=())
    served.box.publish(replace(board, strip=replace(board.strip, gpus_reporting=0)))
    assert verb("findings").stdout == "Nothing is seen: no GPU reports. `trimtab doctor` says why.\n"
    served.box.publish(replace(board, blind=("gpu-07 is not seen.",)))
    assert "Nothing is wrong with what is seen" in verb("findings").stdout


def test_approve_with_a_fingerprint_of_other_writes_changes_nothing(served: Served, verb: Verb) -> None:
    result = verb("approve", "R11", "--fingerprint", "0" * 16)
    assert (result.exit_code, served.memory.stored[11].state) == (4, CommandState.PROPOSED)
    assert "trimtab: Not done: The steps of R11 have changed since you saw them." in result.stderr


def test_the_other_decisions(served: Served, verb: Verb) -> None:
    assert "R11 snoozed (snoozed until 09:40 UTC" in verb("snooze", "11", "30m").stdout
    verb("approve", "R11")
    assert verb("undo", "R11", "--reason", "too early").exit_code == 0
    assert (
        "R11 rejected (rejected: the spare is needed" in verb("reject", "R11", "--reason", "the spare is needed").stdout
    )
    again = verb("reject", "R11", "--reason", "x")
    assert (again.exit_code, again.stderr) == (4, "trimtab: Not done: R11 is rejected already.\n")


def test_pause_and_resume(served: Served, verb: Verb) -> None:
    assert verb("pause", "--reason", "driver upgrade").exit_code == 0
    assert served.memory.paused
    assert verb("resume").stdout == "Resumed.\n"
    assert not served.memory.paused


def test_link_prints_an_address_that_opens_the_page(served: Served, verb: Verb) -> None:
    secret = verb("link").stdout.strip().removeprefix(f"{served.url}/open/")
    assert served.door.redeem(secret) is not None


def test_history_is_one_timeline_and_ends_where_it_was_asked_to(served: Served, verb: Verb) -> None:
    old = AuditLine(at=NOW.replace(hour=1), who="bob", what="paused", why="last night")
    served.memory.lines += [old, AuditLine(at=NOW, who="anna", what="R11 proposed → approved", why="approved")]
    assert verb("history", "--since", "1h").stdout.splitlines() == [
        "2026-11-02T09:00:00Z  F31 opened: gpu-01 GPU 3 fell off the bus (XID 79).",
        "2026-11-02T09:00:00Z  F7 opened: gpu-02 GPU 3 fell off the bus (XID 79).",
        "2026-11-02T09:10:00Z  F7 closed: the GPU answers again",
        "2026-11-02T09:10:00Z  R11 proposed → approved by anna: approved",
    ]


def test_history_of_a_gpu_by_its_index(served: Served, verb: Verb) -> None:
    said = verb("history", "gpu-01", "3", "--metric", "power_watts", "--since", "2h").stdout
    assert said.startswith("gpu-01 GPU-gpu-01-3\npower_watts")
    assert "least 0.5 mean 0.5 most 0.5" in said
    raw = verb("history", "gpu-01", "GPU-gpu-01-3", "--json").stdout
    assert msgspec.json.decode(raw, type=GpuHistory).gpu == "GPU-gpu-01-3"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("explain", "R99"), 4, "There is no recommendation R99."),
        (("explain", "F99"), 4, "There is no finding F99."),
        (("explain", "X1"), 2, "'X1' is no id; write R11 for a recommendation, F31 for a finding."),
        (("approve", "F31"), 2, "F31 is a finding; decisions are about recommendations (R11)"),
        (("snooze", "R11", "soon"), 2, "'soon' is no span of time; write 90s, 30m, 2h or 1d."),
        (("snooze", "R11", "30d"), 4, "The body is not right"),
        (("reject", "R11"), 2, "Missing option '--reason'"),
        (("history", "gpu-01"), 2, "Give the GPU too"),
        (("statsu",), 2, "There is no verb 'statsu'. Did you mean status?"),
        (("drill", "xid12345", "gpu-01"), 2, "'xid12345' is no kind of drill; write xid79"),
        (("ack",), 2, "Missing argument 'ID...'"),
        (("history", "gpu-77", "0"), 4, "There is no node gpu-77."),
        (("history", "gpu-01", "8"), 4, "gpu-01 has no GPU 8; it has 8, counted from 0."),
        (("status", "--token", "wrong"), 4, "does not take this token"),
        (
            ("status", "--url", "http://127.0.0.1:1"),
            3,
            "The daemon at http://127.0.0.1:1 does not answer. Is it running?",
        ),
    ],
)
def test_every_no_is_a_sentence_and_an_exit_code(verb: Verb, words: tuple[str, ...], code: int, said: str) -> None:
    result = verb(*words)
    assert result.exit_code == code
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_without_any_daemon_the_way_to_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("TRIMTAB_URL", raising=False)
    result = CliRunner().invoke(_root, ["status"])
    assert result.exit_code == 3
    assert "Start `trimtab daemon` or `trimtab demo`" in result.stderr


def test_a_broken_client_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "trimtab").mkdir()
    (tmp_path / "trimtab" / "client.toml").write_text("url = [")
    result = CliRunner().invoke(_root, ["status"])
    assert (result.exit_code, "client.toml" in result.stderr) == (2, True)


def test_an_answer_that_is_not_the_daemons_is_called_so(served: Served, verb: Verb) -> None:
    result = verb("status", "--url", f"{served.url}/static/app.js?")
    assert result.exit_code == 3
    assert "Are the verbs and the daemon of the same version?" in result.stderr


def test_as_a_process_the_verb_ends_with_its_code_and_colours_nothing_in_a_pipe(served: Served, tmp_path: Path) -> None:
    code = "import sys; from trimtab.cli import main; sys.argv = ['trimtab', *sys.argv[1:]]; main()"
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": "daemon"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
            check=False,
            cwd=Path(__file__).parent.parent.parent,
        )

    good, bad = run("status"), run("explain", "R99")
    assert (good.returncode, "\x1b" in good.stdout, good.stderr) == (0, False, "")
    assert (bad.returncode, bad.stdout, bad.stderr) == (4, "", "trimtab: There is no recommendation R99.\n")


def test_the_verbs_need_no_web_server_and_no_numpy() -> None:
    modules = "trimtab.cli.watch, trimtab.cli.decide, trimtab.cli.release, trimtab.cli.doctor, trimtab.issue.decisions"
    code = f"import sys, {modules}; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": "daemon"},
        cwd=Path(__file__).parent.parent.parent,
    )
    assert not set(done.stdout.split()) & {"starlette", "uvicorn", "numpy", "sqlalchemy", "prometheus_client"}


@pytest.mark.parametrize(
    "name", ["status", "findings", "plan", "explain", "history", "approve", "undo", "pause", "release", "allow", "link"]
)
def test_help_is_worth_reading(name: str) -> None:
    said = CliRunner().invoke(_root, [name, "--help"]).stdout
    for part in ("Exit codes:", "--json", "TRIMTAB_URL", "TRIMTAB_TOKEN"):
        assert part in said


def test_a_paused_and_blind_cluster_says_both_first(served: Served, verb: Verb) -> None:
    board = replace(a_board(is_paused=True), blind=("No report from rack r3 (8 nodes) for 4 min.",))
    served.box.publish(board)
    lines = verb("status").stdout.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")][1:4] == ["paused", "blind", "wrong"]
