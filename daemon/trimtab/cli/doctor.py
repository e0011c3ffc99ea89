"""`trimtab doctor`: is everything here as it should be? Each failure is printed with its fix."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click
import msgspec

from trimtab.cli.client import Client, DaemonSaysNo, asked_of, say_json
from trimtab.cli.doctor_daemon import daemon_jobs
from trimtab.cli.doctor_enrolment import enrolment_checks
from trimtab.cli.doctor_node import gpus_on_bus, node_jobs
from trimtab.cli.exits import Exit
from trimtab.cli.place import Asked, find
from trimtab.cli.settings import PLACES, checks_of, read, rows_of
from trimtab.cli.text import paragraph, say, width
from trimtab.cli.together import Job, together
from trimtab.errors import ClientError, SettingsError
from trimtab.settings import AgentSettings, load
from trimtab.show.api_types import Check, Doctor

KERNEL_LOG = Path("/dev/kmsg")
PCI_DEVICES = Path("/sys/bus/pci/devices")
SPOOL = Path(AgentSettings().spool_directory)

LIBRARY = "libnvidia-ml.so.1"


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

    On a node: driver, devices, GPUs, kernel log, spool, and each daemon with its certificate, this node's credential
    and the two clocks. Beside the daemon: settings, database, disk, ports, Prometheus and Grafana, also while it is
    down. And what the daemon says of itself, where it answers. All at once, each within its time.

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
        return (*checks_of(settings_file), *_enrolment(settings_file))
    return (*_notes(asked), *together(host_jobs(asked, PLACES)))


def _enrolment(path: Path) -> Iterable[Check]:
    """Of an agent's settings file, as a note; one that cannot be read is the other check's."""
    with contextlib.suppress(SettingsError):
        settings = read(path)[1].settings
        if isinstance(settings, AgentSettings):
            return tuple(enrolment_checks(settings, is_note=True))
    return ()


def _notes(asked: Asked) -> Iterable[Check]:
    """What a reader should know of the answers: with whose eyes it was looked."""
    if os.geteuid() != 0 and not asked.url and any(path.exists() for path in PLACES.values()):
        said = "Looked with the rights of this user; what only root or the units' users may see is said where it is so."
        yield Check(name="user", is_ok=True, sentence=said)


def host_jobs(asked: Asked, places: Mapping[str, Path]) -> tuple[Job, ...]:
    """Of this host: what its settings files say that it is; a node's checks where there is none."""
    is_daemons, is_nodes = places["daemon"].exists(), places["agent"].exists()
    jobs: list[Job] = []
    if is_nodes or not is_daemons:
        jobs += _nodes_jobs(places["agent"] if is_nodes else None)
    if is_daemons:
        jobs.append(Job(name="settings", look=lambda: checks_of(places["daemon"], "daemon")))
        jobs += daemon_jobs(places["daemon"])
    jobs.append(Job(name="daemon", look=lambda: daemon_checks(asked)))
    return tuple(jobs)


def _nodes_jobs(path: Path | None) -> list[Job]:
    try:
        settings = load(path, AgentSettings)
    except SettingsError:
        settings = AgentSettings()
    jobs = [Job(name="settings", look=lambda: checks_of(path, "agent"))] if path is not None else []
    spool = Path(settings.spool_directory)
    library = settings.nvml_library or LIBRARY
    jobs.append(Job(name="node", look=lambda: node_checks(spool=spool, library=library)))
    return jobs + (list(node_jobs(settings, pci=PCI_DEVICES)) if path is not None else [])


def _settings_lines(path: Path) -> list[str]:
    return [f"{row.key} = {msgspec.json.encode(row.value).decode()}" for row in rows_of(read(path)[1])]


def node_checks(
    *,
    kernel_log: Path = KERNEL_LOG,
    spool: Path = SPOOL,
    pci: Path = PCI_DEVICES,
    open_library: Callable[[str], object] = ctypes.CDLL,
    library: str = LIBRARY,
) -> Iterable[Check]:
    """What an agent needs on this host: the driver's library, the kernel log, a place for its spool."""
    yield _driver(open_library, pci, library)
    yield _kernel_log(kernel_log)
    yield _spool(spool)


def _driver(open_library: Callable[[str], object], pci: Path, library: str) -> Check:
    try:
        open_library(library)
    except OSError as error:
        if not gpus_on_bus(pci):
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
