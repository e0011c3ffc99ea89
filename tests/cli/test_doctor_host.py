"""doctor on real hosts: each fault with its sentence and fix, each whole thing well, nothing hangs."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from tests.system.processes import Daemon

from trimtab import pki
from trimtab.cli.doctor import host_jobs
from trimtab.cli.doctor_daemon import database_checks, port_checks, setup_checks, state_checks
from trimtab.cli.doctor_node import device_checks, gpu_checks, reach_checks, spool_checks
from trimtab.cli.place import Asked
from trimtab.cli.together import Job, together
from trimtab.clock import SystemClock
from trimtab.settings import AgentSettings, DaemonSettings, from_table
from trimtab.show.api_types import Check


def agent(**keys: object) -> AgentSettings:
    return from_table(dict(keys), AgentSettings, where="test")


def by_name(checks) -> dict[str, Check]:
    found = {check.name: check for check in checks}
    assert all(check.fix for check in found.values() if not check.is_ok), found
    return found


def a_gpu(pci: Path, name: str) -> None:
    device = pci / name
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")


def test_what_hangs_costs_its_own_line_and_what_fails_too():
    ends = threading.Event()

    def fails():
        raise KeyError("unforeseen")

    jobs = [
        Job(name="slow", look=lambda: ends.wait(60) and (), fix="wait"),
        Job(name="broken", look=fails, fix="report it"),
        Job(name="well", look=lambda: (Check(name="well", is_ok=True, sentence="Well."),)),
    ]
    began = time.monotonic()
    found = list(together(jobs, seconds_max=0.5))
    assert time.monotonic() - began < 30
    ends.set()
    assert [(one.name, one.is_ok, one.fix) for one in found] == [
        ("slow", False, "wait"),
        ("broken", False, "report it"),
        ("well", True, ""),
    ]
    assert found[0].sentence == "Did not answer within 0.5 s."
    assert "unforeseen" in found[1].sentence


def test_devices_are_there_and_may_be_used(tmp_path: Path):
    pci, devices = tmp_path / "pci", tmp_path / "dev"
    devices.mkdir()
    assert list(device_checks(pci=pci, devices=devices)) == [], "no GPU needs no device"
    a_gpu(pci, "0000:3b:00.0")
    missing = by_name(device_checks(pci=pci, devices=devices))["devices"]
    assert (missing.is_ok, "has made no devices" in missing.sentence) == (False, True)
    (devices / "nvidia0").write_text("")
    (devices / "nvidiactl").write_text("")
    assert by_name(device_checks(pci=pci, devices=devices))["devices"].sentence.startswith("2 devices of the driver")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is taken on by root only: run the tests as root")
def test_devices_of_somebody_else_are_named(tmp_path: Path):
    pci, devices = tmp_path / "pci", tmp_path / "dev"
    a_gpu(pci, "0000:3b:00.0")
    devices.mkdir()
    (devices / "nvidia0").write_text("")
    (devices / "nvidia0").chmod(0o600)
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        found = by_name(device_checks(pci=pci, devices=devices))["devices"]
        os._exit(0 if not found.is_ok and "uid 65534" in found.sentence else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is taken on by root only: run the tests as root")
def test_the_wrong_user_is_told_which_is_the_right_one(tmp_path: Path):
    state = tmp_path / "private" / "state"
    state.mkdir(parents=True)
    state.parent.chmod(0o700)
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    settings = from_table({"state_directory": str(state)}, DaemonSettings, where="test")
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        found = by_name((*state_checks(state), *database_checks(settings)))
        is_told = all(not one.is_ok and "sudo -u trimtab" in one.fix for one in found.values())
        os._exit(0 if is_told and set(found) == {"state", "database"} else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_gpus_are_as_many_as_expected(tmp_path: Path):
    for slot in range(2):
        a_gpu(tmp_path, f"0000:{slot:02d}:00.0")
    assert by_name(gpu_checks(agent(gpus_expected=2), pci=tmp_path))["gpus"].is_ok
    short = by_name(gpu_checks(agent(gpus_expected=8), pci=tmp_path))["gpus"]
    assert (short.is_ok, short.sentence) == (False, "2 GPUs on the bus; gpus_expected says 8.")
    assert by_name(gpu_checks(agent(), pci=tmp_path))["gpus"].fix == "Set gpus_expected = 2, if that is all."


def test_a_spool_that_is_nearly_full_is_told(tmp_path: Path):
    settings = agent(spool_directory=str(tmp_path / "spool"), spool_bytes_max=1_000_000)
    assert by_name(spool_checks(settings))["spool room"].is_ok
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "segment").write_bytes(b"x" * 950_000)
    full = by_name(spool_checks(settings))["spool room"]
    assert not full.is_ok
    assert "Reports do not flow" in full.fix


@pytest.fixture
def daemon(tmp_path: Path):
    made = Daemon(tmp_path)
    yield made
    made.hang_up()
    made.close()


def test_a_daemon_is_reached_and_takes_the_credential_or_says_why_not(tmp_path: Path, daemon: Daemon):
    url = daemon.ingest_url
    (tmp_path / "token").write_text("trimtab_node_wrong-0123456789\n")
    settings = agent(daemon_urls=[url], token_file=str(tmp_path / "token"), credential_directory=str(tmp_path / "none"))
    down = by_name(reach_checks(settings, url))[f"daemon {url}"]
    assert (down.is_ok, down.sentence) == (False, f"{url} is not reached: nothing listens there.")
    daemon.up()
    wrong = by_name(reach_checks(settings, url))
    assert wrong[f"daemon {url}"].is_ok
    assert wrong["clock"].sentence == f"This host and {url} have the same time, to the second."
    assert not wrong[f"credential {url}"].is_ok
    assert "No node has this token" in wrong[f"credential {url}"].sentence
    (tmp_path / "token").write_text(daemon.token_of("gpu-00") + "\n")
    right = by_name(reach_checks(settings, url))
    assert all(check.is_ok for check in right.values()), right
    none = agent(daemon_urls=[url], credential_directory=str(tmp_path / "none"))
    assert "There is no credential" in by_name(reach_checks(none, url))[f"credential {url}"].sentence
    people = by_name(reach_checks(settings, daemon.url))
    assert (
        not people[f"credential {daemon.url}"].is_ok or "cannot say now" in people[f"credential {daemon.url}"].sentence
    )


def test_a_name_that_is_unknown_and_a_port_that_never_answers_are_told_apart(tmp_path: Path):
    unknown = "http://no-such-host.invalid:9741"
    found = by_name(reach_checks(agent(credential_directory=str(tmp_path)), unknown))[f"daemon {unknown}"]
    assert "there is no host no-such-host.invalid" in found.sentence
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        found = by_name(reach_checks(agent(credential_directory=str(tmp_path)), url))[f"daemon {url}"]
    assert "does not answer within 5 s" in found.sentence


def test_a_ca_that_did_not_sign_is_told(tmp_path: Path, daemon: Daemon):
    clock = SystemClock()
    ours = pki.Authority.create(tmp_path / "ca", cluster="hall-a", clock=clock)
    other = pki.Authority.create(tmp_path / "other", cluster="hall-b", clock=clock)
    made = ours.issue_server(names=["127.0.0.1"], days=2)
    (tmp_path / "cert.pem").write_bytes(made.certificate_pem)
    (tmp_path / "key.pem").write_bytes(made.key_pem)
    (tmp_path / "ca.pem").write_bytes(ours.certificate_pem)
    (tmp_path / "other.pem").write_bytes(other.certificate_pem)
    daemon.write_settings(
        f'[ingest]\nlisten = "127.0.0.1:{daemon.ingest_port}"\n'
        f'certificate_file = "{tmp_path / "cert.pem"}"\nkey_file = "{tmp_path / "key.pem"}"\n'
    )
    daemon.up()
    url = daemon.ingest_url.replace("http:", "https:")
    keys = {"credential_directory": str(tmp_path / "none")}
    wrong = by_name(reach_checks(agent(ca_file=str(tmp_path / "other.pem"), **keys), url))[f"daemon {url}"]
    assert not wrong.is_ok
    assert "ca_file" in wrong.sentence
    right = by_name(reach_checks(agent(ca_file=str(tmp_path / "ca.pem"), **keys), url))[f"daemon {url}"]
    assert right.sentence == f"{url} answers and its certificate is trusted."


def test_database_state_and_ports_are_looked_at_with_and_without_a_daemon(tmp_path: Path, daemon: Daemon):
    settings = from_table(
        {
            "state_directory": str(daemon.state_directory),
            "people": {"listen": f"127.0.0.1:{daemon.people_port}"},
            "ingest": {"listen": f"127.0.0.1:{daemon.ingest_port}"},
        },
        DaemonSettings,
        where="test",
    )
    before = by_name((*state_checks(daemon.state_directory), *database_checks(settings), *port_checks(settings)))
    assert before["state"].sentence.endswith("the daemon makes it at its first start.")
    assert "there is no database yet" in before["database"].sentence
    assert not before["port people"].is_ok
    daemon.up()
    running = by_name((*state_checks(daemon.state_directory), *database_checks(settings), *port_checks(settings)))
    assert all(check.is_ok for check in running.values()), running
    assert "of this version's schema" in running["database"].sentence
    assert daemon.stop() == 0
    (daemon.state_directory / "trimtab.db").write_bytes(b"this is no database" * 100)
    broken = by_name(database_checks(settings))["database"]
    assert not broken.is_ok
    daemon.state_directory.chmod(0o755)
    assert by_name(state_checks(daemon.state_directory))["state"].fix.startswith("chmod o-rwx")


def test_what_setup_puts_in_place_is_missed_and_then_found(tmp_path: Path):
    from trimtab.cli.setup import setup as verb

    root = tmp_path / "root"
    (root / "etc" / "grafana" / "provisioning").mkdir(parents=True)
    path = tmp_path / "daemon.toml"
    path.write_text("")
    missing = by_name(setup_checks(path, root))["setup"]
    assert (missing.is_ok, missing.fix) == (False, "sudo trimtab setup")
    from click.testing import CliRunner

    assert CliRunner().invoke(verb, ["--root", str(root)]).exit_code == 0
    assert by_name(setup_checks(path, root))["setup"].is_ok


def test_a_host_is_what_its_settings_files_say(tmp_path: Path):
    places = {"daemon": tmp_path / "daemon.toml", "agent": tmp_path / "agent.toml"}
    asked = Asked(url="http://127.0.0.1:1", token="x")
    assert [job.name for job in host_jobs(asked, places)] == ["node", "daemon"]
    places["agent"].write_text('daemon_urls = ["https://a:1", "https://b:1"]\n')
    names = [job.name for job in host_jobs(asked, places)]
    urls = ["daemon https://a:1", "daemon https://b:1"]
    assert names == ["settings", "node", "devices", "gpus", "spool room", "enrolment", *urls, "daemon"]
    places["agent"].unlink()
    places["daemon"].write_text("broken")
    assert [job.name for job in host_jobs(asked, places)] == ["settings", "daemon"]
    places["daemon"].write_text("")
    names = [job.name for job in host_jobs(asked, places)]
    assert names[:4] == ["settings", "state", "database", "ports"]
