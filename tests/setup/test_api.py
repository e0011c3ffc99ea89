"""`trimtab setup --grafana-api`: by grafana-client in a process and environment of its own, against a stub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from tests.setup.conftest import ROOT, Host
from tests.setup.grafana_stub import TOKEN, Grafana, a_grafana

from trimtab.setup import push
from trimtab.setup.asking import NO_CLIENT

OWN_PLACE = ROOT / ".venv" / "grafana"
HISTORY = '[store]\nurl = "postgresql://trimtab@db.example/trimtab"\n'


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter of the environment that has grafana-client alone: made by `make test`, else here, once."""
    own = Path(os.environ.get("TRIMTAB_GRAFANA_PYTHON", OWN_PLACE / "bin" / "python"))
    if not own.exists():
        subprocess.run([sys.executable, "-m", "venv", str(OWN_PLACE)], check=True, timeout=120)
        install = [
            str(own),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-binary",
            "urllib3-future",
            "grafana-client>=5.1,<6",
            "urllib3",
        ]
        environment = {**os.environ, "URLLIB3_NO_OVERRIDE": "1"}
        done = subprocess.run(install, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    return str(own)


@pytest.fixture
def grafana() -> Iterator[Grafana]:
    with a_grafana() as stub:
        yield stub
    assert stub.wrong == []


@pytest.fixture
def asked(host: Host, grafana: Grafana, python: str) -> list[str]:
    """The options that name this Grafana."""
    token = host.write("grafana.token", TOKEN + "\n")
    return ["--grafana-api", grafana.url, "--grafana-token-file", str(token), "--grafana-python", python]


def test_everything_is_made_and_the_second_time_kept(host: Host, grafana: Grafana, asked: list[str]) -> None:
    said = host.setup(*asked)
    assert said.splitlines()[:2] == ["made     folder trimtab", "made     data source trimtab Prometheus"]
    assert len(grafana.dashboards) == 9
    assert {one["meta"]["folderUid"] for one in grafana.dashboards.values()} == {"trimtab"}
    assert grafana.asked[0] == ("GET", "/api/frontend/settings")
    before = len(grafana.writes)
    assert host.setup(*asked) == "Nothing to do: 11 files are as they should be.\n".replace("files", "things")
    assert len(grafana.writes) == before


def test_a_dry_run_writes_nothing(host: Host, grafana: Grafana, asked: list[str]) -> None:
    said = host.setup(*asked, "--dry-run")
    assert "made     dashboard trimtab: Fleet" in said
    assert grafana.writes == []


def test_what_somebody_saved_is_left_and_said(host: Host, grafana: Grafana, asked: list[str]) -> None:
    host.setup(*asked)
    grafana.edit("trimtab-fleet", title="Our fleet")
    said = host.setup(*asked)
    assert "left     dashboard trimtab: Fleet   (saved by somebody since; move or delete it to get ours)" in said
    assert grafana.dashboards["trimtab-fleet"]["dashboard"]["title"] == "Our fleet"


def test_an_older_one_of_ours_is_changed(host: Host, grafana: Grafana, asked: list[str]) -> None:
    host.setup(*asked)
    host.setup(*asked, "--prometheus-url", "http://elsewhere:9090")
    assert grafana.sources["trimtab-prometheus"]["url"] == "http://elsewhere:9090"
    held = grafana.dashboards["trimtab-node"]
    held["dashboard"] = {**held["dashboard"], "refresh": "5m"}
    said = host.setup(*asked)
    assert "changed  dashboard trimtab: Node" in said
    assert "changed  data source trimtab Prometheus" in said
    assert grafana.sources["trimtab-prometheus"]["url"] == "http://127.0.0.1:9090"


@pytest.mark.parametrize("edit", [{"url": "https://mimir:9090"}, {"jsonData": {"httpMethod": "GET"}}])
def test_a_data_source_that_somebody_edited_is_left_and_said(
    edit: dict[str, object], host: Host, grafana: Grafana, asked: list[str]
) -> None:
    host.setup(*asked)
    source = grafana.sources["trimtab-prometheus"]
    if "jsonData" in edit:  # Grafana's form keeps fields that it does not know
        edit = {"jsonData": {**source["jsonData"], "httpMethod": "GET"}}
    source.update(edit)
    as_edited = dict(source)
    said = host.setup(*asked)
    assert "left     data source trimtab Prometheus   (edited since; delete it to get ours)" in said
    assert grafana.sources["trimtab-prometheus"] == as_edited
    said = host.setup(*asked, "--remove")
    assert "left     data source trimtab Prometheus   (edited since; it is yours now)" in said
    assert grafana.sources["trimtab-prometheus"] == as_edited


def test_what_comes_from_a_file_of_grafanas_host_is_left(host: Host, grafana: Grafana, asked: list[str]) -> None:
    host.setup(*asked)
    held = grafana.dashboards["trimtab-gpu"]
    held["meta"]["provisioned"], held["dashboard"]["refresh"] = True, "5m"
    assert "left     dashboard trimtab: GPU   (comes from a file on Grafana's host)" in host.setup(*asked)


def test_the_password_of_the_history_goes_from_its_file_to_grafana_and_nowhere_else(
    host: Host, grafana: Grafana, asked: list[str]
) -> None:
    settings, password = host.write("daemon.toml", HISTORY), host.write("password", "s3cret\n")
    said = host.setup(*asked, "--settings", str(settings), "--postgresql-password-file", str(password))
    source = grafana.sources["trimtab-postgresql"]
    assert source["secureJsonData"] == {"password": "s3cret"}
    assert (source["type"], source["user"]) == ("grafana-postgresql-datasource", "trimtab_reader")
    assert len(grafana.dashboards) == 12
    assert "s3cret" not in said
    assert TOKEN not in said


def test_remove_takes_away_what_is_ours_and_leaves_the_rest(host: Host, grafana: Grafana, asked: list[str]) -> None:
    host.setup(*asked)
    grafana.edit("trimtab-fleet", title="Our fleet")
    said = host.setup(*asked, "--remove")
    assert list(grafana.dashboards) == ["trimtab-fleet"]
    assert grafana.sources == {}
    assert "left     folder trimtab   (1 dashboards are in it)" in said
    del grafana.dashboards["trimtab-fleet"]
    host.setup(*asked, "--remove")
    assert grafana.folders == {}


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_what_goes_wrong_is_said_in_a_line(
    arguments: list[str], host: Host, grafana: Grafana, asked: list[str]
) -> None:
    host.write("grafana.token", "glsa_wrong")
    assert "Unauthorized" in host.fails(*asked, *arguments)
    host.write("grafana.token", TOKEN)
    grafana.is_down = True
    assert grafana.url in host.fails(*asked, *arguments)
    assert grafana.writes == []


def test_nobody_there_is_said_in_a_line(host: Host, asked: list[str]) -> None:
    asked[1] = "http://127.0.0.1:9"
    assert "http://127.0.0.1:9" in host.fails(*asked)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [("grafana.example", "not an address"), ("https://admin:admin@grafana.example", "leave the password out")],
)
def test_an_address_that_is_none_is_refused(url: str, sentence: str, host: Host) -> None:
    token = host.write("grafana.token", TOKEN)
    assert sentence in host.fails("--grafana-api", url, "--grafana-token-file", str(token))


def test_a_token_must_be_in_a_file(host: Host) -> None:
    assert "--grafana-token-file" in host.fails("--grafana-api", "https://grafana.example")


def test_an_environment_without_the_client_is_told_how_to_make_one(host: Host) -> None:
    token = host.write("grafana.token", TOKEN)
    options = ["--grafana-api", "https://grafana.example", "--grafana-token-file", str(token)]
    said = host.fails(*options, "--grafana-python", sys.executable)
    assert "has no grafana-client" in said
    assert "URLLIB3_NO_OVERRIDE=1" in said


def test_the_daemons_environment_never_has_the_client() -> None:
    installed = {one.metadata["Name"].lower() for one in metadata.distributions()}
    assert not installed & {"grafana-client", "niquests", "urllib3-future"}


def test_the_process_of_its_own_imports_nothing_else_of_trimtab(python: str) -> None:
    code = (
        "import sys, json; sys.argv=['push']; import trimtab.setup.push as push; import grafana_client; "
        "print(json.dumps(sorted(name for name in sys.modules if name.startswith('trimtab'))))"
    )
    environment = {"PYTHONPATH": str(ROOT / "daemon"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [python, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["trimtab", "trimtab.setup", "trimtab.setup.push"]


def test_both_sides_mean_the_same_by_their_exit_code() -> None:
    assert push.NO_CLIENT == NO_CLIENT
