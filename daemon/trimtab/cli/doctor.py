"""`trimtab doctor`: is everything here as it should be? Each failure is printed with its fix."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from trimtab.cli.client import Client, DaemonSaysNo, asked_of, say_json
from trimtab.cli.doctor_enrolment import AGENT_SETTINGS, enrolment_checks
from trimtab.cli.exits import Exit
from trimtab.cli.place import Asked, find
from trimtab.cli.text import paragraph, say, width
from trimtab.errors import ClientError, SettingsError
from trimtab.plan.planner import RULE_NAMES
from trimtab.settings import AgentSettings, DaemonSettings, load
from trimtab.show.api_types import Check, Doctor

KERNEL_LOG = Path("/dev/kmsg")
PCI_DEVICES = Path("/sys/bus/pci/devices")
SPOOL = Path(AgentSettings().spool_directory)

_DAEMON_KEYS = tuple(name for name in DaemonSettings.__struct_fields__ if name not in AgentSettings.__struct_fields__)
_AGENT_KEYS = tuple(name for name in AgentSettings.__struct_fields__ if name not in DaemonSettings.__struct_fields__)


@click.command()
@click.option("--settings", "settings_file", type=click.Path(dir_okay=False, path_type=Path),
              help="Read this file (agent's or daemon's), print what it comes to, and no more.")  # fmt: skip
@click.option(
    "--cluster",
    "is_cluster",
    is_flag=True,
    help="Look at the Kubernetes cluster instead: permissions, kinds, labels, and what each missing one costs.",
)
@click.option("--url", envvar="TRIMTAB_URL", help="The daemon's address [TRIMTAB_URL, else the client file].")
@click.option("--token", envvar="TRIMTAB_TOKEN", help="Your token itself [TRIMTAB_TOKEN, else the client file].")
@click.option("--token-file", envvar="TRIMTAB_TOKEN_FILE", metavar="FILE", help="File with your token.")
@click.option(
    "--ca-file", envvar="TRIMTAB_CA_FILE", metavar="FILE", help="CA certificate, where the daemon speaks TLS."
)
@click.option("--json", "is_json", is_flag=True, help="The same data as JSON.")
@click.option("--quiet", "-q", "is_quiet", is_flag=True, help="Say only what is not well: for scripts and units.")
def doctor(
    *,
    settings_file: Path | None,
    is_cluster: bool,
    is_json: bool,
    is_quiet: bool,
    **asked: str | None,
) -> None:
    """Look at this host and at the daemon, and say what is not as it should be, with the fix.

    With --settings FILE: read the file as the agent or the daemon would, and print every setting, defaults included;
    a mistake is named with file, key and fix. Needs no daemon.

    With --cluster: look at the cluster with the account that [kubernetes] of --settings (or $KUBECONFIG) names, and
    say what the daemon may do there in its mode. Run it where the daemon runs. Nothing is changed.

    \b
    Examples: trimtab doctor
              trimtab doctor --settings /etc/trimtab/daemon.toml
              trimtab doctor --cluster

    \b
    Exit codes: 0 all is well; 1 something is not (each with its fix); 2 the command line is wrong.
    """
    checks = [*_checks(settings_file, asked_of(asked), is_cluster=is_cluster)]
    if is_json:
        say_json(msgspec.json.encode(Doctor(checks=tuple(checks))))
    elif is_quiet:
        say(line for check in checks if not check.is_ok for line in _lines(check))
    else:
        say(line for check in checks for line in _lines(check))
        if settings_file and not is_cluster and all(check.is_ok for check in checks):
            say(_settings_lines(settings_file))
    if not all(check.is_ok for check in checks):
        raise click.exceptions.Exit(Exit.NOT_WELL)


def _checks(settings_file: Path | None, asked: Asked, *, is_cluster: bool) -> Iterable[Check]:
    if is_cluster:
        from trimtab.cli.doctor_cluster import cluster_checks  # noqa: PLC0415 - the daemon's half, for this alone

        return cluster_checks(settings_file)
    if settings_file:
        return (*settings_checks(settings_file), *_enrolment(settings_file, is_note=True))
    return (*node_checks(), *_enrolment(AGENT_SETTINGS, is_note=False), *daemon_checks(asked))


def _enrolment(path: Path, *, is_note: bool) -> Iterable[Check]:
    """Of an agent's settings file; one that is not there or cannot be read is another check's."""
    with contextlib.suppress(SettingsError):
        settings = _read(path)[1]
        if path.exists() and isinstance(settings, AgentSettings):
            return tuple(enrolment_checks(settings, is_note=is_note))
    return ()


def settings_checks(path: Path) -> Iterable[Check]:
    """Whether a settings file can be read, by the one of agent and daemon whose keys it has."""
    try:
        whose = _read(path)[0]
    except SettingsError as error:
        yield Check(name="settings", is_ok=False, sentence=str(error), fix=f"Correct {path}, then look again.")
        return
    unknown = [*_rules_check(path)]
    yield from unknown or [Check(name="settings", is_ok=True, sentence=f"{path} reads as {whose} settings.")]


def _rules_check(path: Path) -> Iterable[Check]:
    """A misspelt rule would keep the daemon's own mode: the daemon refuses to start with one."""
    settings = _read(path)[1]
    rules = settings.issue.rules if isinstance(settings, DaemonSettings) else {}
    for unknown in sorted(set(rules) - set(RULE_NAMES)):
        known = ", ".join(RULE_NAMES)
        said = f"{path}: issue.rules has {unknown!r}, which is no rule."
        yield Check(name="settings", is_ok=False, sentence=said, fix=f"The rules are {known}.")


def _read(path: Path) -> tuple[str, AgentSettings | DaemonSettings]:
    """Whose settings they are, and what they come to. The daemon's where its keys say so, else an agent's."""
    try:
        keys = set(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        keys = set()  # `load` says it better
    if len(keys & set(_DAEMON_KEYS)) > len(keys & set(_AGENT_KEYS)):
        return "the daemon's", load(path, DaemonSettings)
    return "an agent's", load(path, AgentSettings)


def _settings_lines(path: Path) -> list[str]:
    return list(_flat(msgspec.to_builtins(_read(path)[1]), ""))


def _flat(values: dict[str, Any], prefix: str) -> Iterable[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key} = {msgspec.json.encode(value).decode()}"


def node_checks(
    *,
    kernel_log: Path = KERNEL_LOG,
    spool: Path = SPOOL,
    pci: Path = PCI_DEVICES,
    open_library: Callable[[str], object] = ctypes.CDLL,
) -> Iterable[Check]:
    """What an agent needs on this host: the driver's library, the kernel log, a place for its spool."""
    yield _driver(open_library, pci)
    yield _kernel_log(kernel_log)
    yield _spool(spool)


def _driver(open_library: Callable[[str], object], pci: Path) -> Check:
    try:
        open_library("libnvidia-ml.so.1")
    except OSError as error:
        if not _has_nvidia_gpu(pci):
            return Check(
                name="driver", is_ok=True, sentence="There is no NVIDIA GPU on this host; no driver is needed."
            )
        return Check(
            name="driver",
            is_ok=False,
            sentence=f"The NVIDIA driver's library cannot be loaded: {error}.",
            fix="Install the driver, or set nvml_library to where its libnvidia-ml.so.1 is.",
        )
    return Check(name="driver", is_ok=True, sentence="The NVIDIA driver's library can be loaded.")


def _has_nvidia_gpu(pci: Path) -> bool:
    """Whether a PCI device is NVIDIA's display or 3D controller."""
    for device in pci.glob("*"):
        with contextlib.suppress(OSError):
            vendor, kind = (device / "vendor").read_text(), (device / "class").read_text()
            if vendor.strip() == "0x10de" and kind.startswith("0x03"):
                return True
    return False


def _kernel_log(path: Path) -> Check:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        return Check(
            name="kernel log",
            is_ok=False,
            sentence=f"{path} cannot be read: {error.strerror}. XID lines are then not seen.",
            fix="Run the agent with CAP_SYSLOG and DeviceAllow=/dev/kmsg r, or as root; in a container, whose device "
            "cgroup refuses it, with privileged: true.",
        )
    return Check(name="kernel log", is_ok=True, sentence=f"{path} can be read.")


def _spool(directory: Path) -> Check:
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Check(
            name="spool",
            is_ok=False,
            sentence=f"{directory} cannot be written ({existing}: {error.strerror}).",
            fix="Run the agent as its own user with StateDirectory=trimtab-agent, or set spool_directory.",
        )
    return Check(name="spool", is_ok=True, sentence=f"{directory} can be written.")


def daemon_checks(asked: Asked) -> Iterable[Check]:
    """Whether the daemon answers and takes our token, and what it says of itself."""
    try:
        client = Client(find(asked))
        found = client.get("/api/v1/doctor", Doctor)
    except DaemonSaysNo as no:
        yield Check(name="daemon", is_ok=False, sentence=str(no), fix="See the daemon's log.")
    except ClientError as error:
        yield Check(name="daemon", is_ok=False, sentence=str(error), fix="journalctl -u trimtab-daemon says why.")
    else:
        yield Check(
            name="daemon", is_ok=True, sentence=f"The daemon at {client.place.url} answers and takes the token."
        )
        yield from found.checks


def _lines(check: Check) -> list[str]:
    mark = click.style("ok  ", fg="green") if check.is_ok else click.style("not ", fg="red", bold=True)
    if check.is_ok and check.fix:  # it is as somebody wants it or has not come to yet: neither well nor ill
        mark = click.style("note", fg="yellow") + " "
    first, *rest = paragraph(f"{check.name}: {check.sentence}", width() - 4)
    lines = [mark + first, *(f"    {line}" for line in rest)]
    return lines + [f"    {line}" for line in paragraph(f"fix: {check.fix}", width() - 4)] if check.fix else lines
