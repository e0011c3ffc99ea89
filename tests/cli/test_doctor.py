"""doctor: settings files read as agent and daemon do, this host, and the daemon; each failure with its fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trimtab.cli import _root
from trimtab.cli.doctor import node_checks


def doctor(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(_root, ["doctor", *words], env=environment)


@pytest.mark.parametrize(
    ("text", "whose", "shown"),
    [
        ('node = "gpu-07"\ninterval_seconds = 5\n', "an agent's", "interval_seconds = 5.0"),
        (
            'cluster = "hall-a"\n[people]\nlisten = "127.0.0.1:9999"\n',
            "the daemon's",
            'people.listen = "127.0.0.1:9999"',
        ),
        ('[issue]\nmode = "approve"\n', "the daemon's", 'issue.mode = "approve"'),
    ],
)
def test_a_good_file_is_printed_with_its_defaults(tmp_path: Path, text: str, whose: str, shown: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    result = doctor("--settings", str(path))
    assert result.exit_code == 0
    assert f"reads as {whose} settings." in " ".join(result.stdout.split())
    assert shown in result.stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("interval_second = 5\n", "unknown field `interval_second`"),
        ("interval_second = 5\n", "Did you mean interval_seconds"),
        ('[people]\nlissten = "127.0.0.1:1"\n', "at `$.people`. Did you mean listen"),
        (
            '[oncall.targets.good]\nkind = "webhook"\nurl = "https://a.example"\nkeys_file = "k"\n'
            '[oncall.targets.nights]\nkind = "webhook"\nurll = "https://a.example"\nkeys_file = "k"\nurl = "https://a.example"\n',
            "$.oncall.targets.nights`. Did you mean url",
        ),
        ('[ingest]\nmode = "approve"\n', "at `$.ingest`. mode belongs under [issue]."),
        (
            '[ingest]\ncluster = "hall-a"\n',
            "at `$.ingest`. cluster stands at the top of the file, above the first [table].",
        ),
        ("interval_seconds = -1\n", "`float` > 0.0 - at `$.interval_seconds`"),
        ('[issue]\nmode = "sometimes"\n', "$.issue.mode"),
        ("interval_seconds = \n", "not TOML"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    result = doctor("--settings", str(path), "--json")
    check = json.loads(result.stdout)["checks"][0]
    assert (result.exit_code, check["is_ok"]) == (1, False)
    assert str(path) in check["sentence"]
    assert said in check["sentence"]
    assert check["fix"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = doctor("--settings", str(tmp_path / "none.toml"))
    assert (result.exit_code, "No such file" in result.stdout) == (1, True)


def a_pci_device(directory: Path, vendor: str, kind: str) -> None:
    directory.mkdir(parents=True)
    (directory / "vendor").write_text(vendor + "\n")
    (directory / "class").write_text(kind + "\n")


def missing(name: str) -> object:
    raise OSError(f"{name}: cannot open shared object file")


def test_what_an_agent_needs_on_this_host_is_looked_at(tmp_path: Path) -> None:
    kernel_log = tmp_path / "kmsg"
    kernel_log.write_text("")
    a_pci_device(tmp_path / "pci" / "0000:3b:00.0", "0x10de", "0x030200")
    checks = list(
        node_checks(
            kernel_log=kernel_log, spool=tmp_path / "not" / "yet", pci=tmp_path / "pci", open_library=lambda name: name
        )
    )
    assert [(check.name, check.is_ok) for check in checks] == [("driver", True), ("kernel log", True), ("spool", True)]


def test_a_gpu_without_driver_an_unreadable_log_and_a_full_stop_are_each_told_with_a_fix(tmp_path: Path) -> None:
    a_pci_device(tmp_path / "pci" / "0000:3b:00.0", "0x10de", "0x030200")
    (tmp_path / "file").write_text("")
    checks = list(
        node_checks(
            kernel_log=tmp_path / "none",
            spool=tmp_path / "file" / "spool",
            pci=tmp_path / "pci",
            open_library=missing,
        )
    )
    assert [(check.name, check.is_ok) for check in checks] == [
        ("driver", False),
        ("kernel log", False),
        ("spool", False),
    ]
    assert all(check.fix for check in checks)


@pytest.mark.parametrize(("vendor", "kind"), [("0x8086", "0x030000"), ("0x10de", "0x040300")])
def test_a_host_without_an_nvidia_gpu_needs_no_driver(tmp_path: Path, vendor: str, kind: str) -> None:
    a_pci_device(tmp_path / "pci" / "0000:00:02.0", vendor, kind)
    first = next(iter(node_checks(pci=tmp_path / "pci", open_library=missing)))
    assert (first.is_ok, first.sentence) == (True, "There is no NVIDIA GPU on this host; no driver is needed.")


def test_no_daemon_is_a_failure_with_its_fix(tmp_path: Path) -> None:
    result = doctor("--url", "http://127.0.0.1:1", "--token", "x", "--json", XDG_STATE_HOME=str(tmp_path))
    last = json.loads(result.stdout)["checks"][-1]
    assert (result.exit_code, last["name"], last["is_ok"]) == (1, "daemon", False)
    assert "does not answer" in last["sentence"]
    assert last["fix"]


def test_a_rule_that_does_not_exist_is_named_with_those_that_do(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text('state_directory = "/tmp"\n[issue]\nmode = "approve"\n[issue.rules]\nevacuat = "act"\n')
    result = doctor("--settings", str(path))
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert "issue.rules has 'evacuat', which is no rule." in said
    assert "fix: The rules are evacuate, relocate, consolidate, restore." in said
