"""The verb: exit codes, one object per file, sentences for what cannot be read, nothing but the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.field_cases import case
from tests.test_architecture import modules_after

from trimtab.cli.inspect import inspect


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(inspect, list(arguments), input=stdin)


@pytest.mark.parametrize(
    ("id_", "code"),
    [
        ("A24", 0),
        ("A26", 0),
        ("B07", 0),
        ("B39", 0),
        ("B11", 1),
        ("B50", 1),
        ("C07", 1),
        ("E05", 0),
        ("F05", 2),
        ("F08", 2),
    ],
)
def test_the_exit_code_says_whether_something_must_go_out_of_service(id_: str, code: int) -> None:
    assert run(str(case(id_).path)).exit_code == code
    assert run("--json", str(case(id_).path)).exit_code == code


def test_json_is_one_object_with_five_keys() -> None:
    said = json.loads(run("--json", str(case("B12").path)).stdout)
    assert list(said) == ["kind", "verdict", "reading", "findings", "errors"]
    assert (said["kind"], said["verdict"], said["errors"]) == ("kernel log", "cordon_reboot", 0)
    assert said["reading"] == case("B12").expected
    (finding,) = said["findings"]
    assert finding.keys() == {"rule", "subject", "action", "text"}
    assert (finding["rule"], finding["action"]) == ("device_fault", "cordon_reboot")
    assert finding["subject"] == "kestrel-08 GPU c1:00.0"


def test_several_files_give_one_object_a_line_and_the_worst_code() -> None:
    done = run("--json", str(case("A24").path), str(case("B11").path), str(case("F08").path))
    assert done.exit_code == 2
    first, second, third = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["verdict"], second["verdict"]) == ("none", "cordon_reboot")
    assert "DS_HALLPROM" in third["error"]
    assert third["reading"]["occurrences"] == 12


def test_standard_input_is_read() -> None:
    done = run("-", "--json", stdin=case("B11").path.read_bytes())
    assert json.loads(done.stdout)["verdict"] == "cordon_reboot"


def test_people_get_the_verdict_the_cause_and_the_advice() -> None:
    text = run(str(case("B12").path)).stdout
    assert "verdict   cordon_reboot" in text
    assert "found     kestrel-08 GPU c1:00.0 fell off the bus (XID 79)." in text
    assert "do: Cordon the node" in text
    assert "\x1b[" not in text


def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path) -> None:
    junk = tmp_path / "notes.txt"
    junk.write_text("dear diary\n")
    done = run(str(junk))
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"trimtab: {junk} is nothing that trimtab knows. Known are:")
    assert json.loads(run("--json", str(junk)).stdout).keys() == {"error"}


def test_a_directory_and_a_missing_file_are_named(tmp_path: Path) -> None:
    assert "is a directory" in run(str(tmp_path)).stderr
    assert "No such file" in run(str(tmp_path / "gone")).stderr
    assert json.loads(run("--json", str(tmp_path)).stdout)["error"].startswith(str(tmp_path))


def test_inspect_of_logs_and_pages_needs_the_base_install_alone() -> None:
    loaded = modules_after("import trimtab.cli.inspect")
    heavy = {"numpy", "sqlalchemy", "starlette", "uvicorn", "yaml", "requests", "highspy", "alembic", "apscheduler"}
    assert not loaded & heavy


def test_yaml_without_its_package_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['yaml'] = None; sys.argv = ['trimtab', 'inspect', sys.argv[1]]; "
        "from trimtab.cli import main; main()"
    )
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(case("E01").path)],
        capture_output=True, text=True, check=False, cwd=root, env={"PYTHONPATH": "daemon"},
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'trimtab[inspect]'" in done.stderr
