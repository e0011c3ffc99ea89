"""What `trimtab doctor` says of a daemon's host, also where the daemon is down: database, disk, ports, the programs
around it."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from trimtab.cli.together import Job
from trimtab.clock import count_text
from trimtab.errors import ClientError, SettingsError, StoreError
from trimtab.outbound import OutboundError, is_loopback, session
from trimtab.settings import DaemonSettings, load
from trimtab.settings.secrets import database_url
from trimtab.show.api_types import Check

ROOT = Path("/")
FREE_BYTES_MIN = 1024**3
AS_ITS_USER = "Run it as the daemon's user: sudo -u trimtab trimtab doctor"
TIMEOUT_SECONDS = 4.0
PROMETHEUS_CONFIG, GRAFANA_PROVISIONING = "etc/prometheus/prometheus.yml", "etc/grafana/provisioning"
GRAFANA_URL = "http://127.0.0.1:3000"


def daemon_jobs(path: Path, *, root: Path = ROOT) -> tuple[Job, ...]:
    """What is to be looked at on the host of the daemon that these settings describe."""
    try:
        settings = load(path, DaemonSettings)
    except SettingsError:
        return ()  # the settings' own check says so
    state = Path(settings.state_directory)
    return (
        Job(name="state", look=lambda: state_checks(state)),
        Job(
            name="database", look=lambda: database_checks(settings), fix="See store.url, and whether it can be reached."
        ),
        Job(name="ports", look=lambda: port_checks(settings)),
        *around_jobs(path, root=root),
    )


def around_jobs(path: Path, *, root: Path = ROOT) -> tuple[Job, ...]:
    """Prometheus and Grafana, where they are installed on this host."""
    jobs = []
    if (root / PROMETHEUS_CONFIG).exists():
        jobs.append(Job(name="Prometheus", look=lambda: prometheus_checks("http://127.0.0.1:9090")))
    if (root / GRAFANA_PROVISIONING).is_dir():
        jobs.append(Job(name="Grafana", look=lambda: grafana_checks(GRAFANA_URL)))
    if jobs:
        jobs.append(Job(name="setup", look=lambda: setup_checks(path, root)))
    return tuple(jobs)


def state_checks(state: Path) -> Iterable[Check]:
    """Whether the state directory is there, for whom, and with how much room."""
    try:
        status = state.stat()
    except FileNotFoundError:
        said = f"{state} is not there yet; the daemon makes it at its first start."
        yield Check(name="state", is_ok=True, sentence=said)
        return
    except PermissionError:
        said = f"{state} may not be looked at by this user (uid {os.geteuid()})."
        yield Check(name="state", is_ok=False, sentence=said, fix=AS_ITS_USER)
        return
    open_to_all = status.st_mode & 0o007
    if open_to_all:
        said = f"{state} can be read by every user of this host; it holds tokens."
        yield Check(name="state", is_ok=False, sentence=said, fix=f"chmod o-rwx {state}")
    free = shutil.disk_usage(state).free
    said = f"{free / 1024**3:.1f} GiB are free on the disk of {state}."
    is_ok = free >= FREE_BYTES_MIN
    fix = (
        "" if is_ok else "Make room, or let the database have less of it: disk.database_bytes_max, store.journal_days."
    )
    yield Check(name="disk", is_ok=is_ok, sentence=said, fix=fix)


def database_checks(settings: DaemonSettings) -> Iterable[Check]:
    """Whether the database is reached, is of this version, and how large it is. Changes nothing."""
    try:
        from trimtab.store.database import open_database  # noqa: PLC0415 - the daemon's half, for this alone
    except ModuleNotFoundError as error:
        said = f"{error.name} is not installed here, so the database cannot be looked at."
        yield Check(name="database", is_ok=True, sentence=said, fix="pip install 'trimtab[daemon]'")
        return
    state = Path(settings.state_directory)
    try:
        database = open_database(database_url(settings.store), state_directory=state, is_left_as_it_is=True)
    except PermissionError as error:
        said = f"{error.filename or state} may not be looked at by this user (uid {os.geteuid()})."
        yield Check(name="database", is_ok=False, sentence=said, fix=AS_ITS_USER)
        return
    except (StoreError, SettingsError) as error:
        is_new = "there is no database yet" in str(error)
        fix = "" if is_new else _database_fix(str(error))
        yield Check(name="database", is_ok=is_new, sentence=str(error), fix=fix)
        return
    try:
        size_bytes = database.size_bytes()
    finally:
        database.close()
    said = f"{database.place} is reached and of this version's schema; it takes {size_bytes / 1024**2:.0f} MiB."
    yield Check(name="database", is_ok=True, sentence=said)


def _database_fix(said: str) -> str:
    if "newer trimtab" in said:
        return "Install the newer trimtab again, or restore a backup from before it."
    if "permission" in said.lower() or "unable to open" in said:
        return AS_ITS_USER
    return "Correct store.url, or start PostgreSQL; `trimtab db check` looks further."


def port_checks(settings: DaemonSettings) -> Iterable[Check]:
    """Whether something listens where the daemon should."""
    for name, listen in (("people", settings.people.listen), ("ingest", settings.ingest.listen)):
        host, _, port = listen.rpartition(":")
        host = host.strip("[]")
        where = "127.0.0.1" if host in ("", "0.0.0.0") else "::1" if host == "::" else host
        try:
            socket.create_connection((where, int(port)), timeout=TIMEOUT_SECONDS).close()
        except (OSError, ValueError) as error:
            said = f"Nothing answers at {name}.listen = {listen}: {error}."
            yield Check(name=f"port {name}", is_ok=False, sentence=said, fix="systemctl status trimtab-daemon")
            continue
        reach = "" if is_loopback(where) and host not in ("", "0.0.0.0", "::") else ", from other hosts too"
        yield Check(name=f"port {name}", is_ok=True, sentence=f"Something listens at {name}.listen = {listen}{reach}.")


def prometheus_checks(url: str) -> Iterable[Check]:
    """Whether this host's Prometheus is up, has our rules, and reads the daemon."""
    rules = _asked(f"{url}/api/v1/rules")
    if isinstance(rules, Exception):
        said = f"Prometheus is installed here and does not answer at {url}: {type(rules).__name__}."
        yield Check(name="Prometheus", is_ok=False, sentence=said, fix="systemctl status prometheus")
        return
    groups = [one["name"] for one in rules["data"]["groups"] if "trimtab" in one.get("file", "")]
    said = f"Prometheus has {count_text(len(groups), 'group')} of trimtab's rules."
    fix = "" if groups else "sudo trimtab setup, then systemctl reload prometheus"
    yield Check(name="Prometheus rules", is_ok=bool(groups), sentence=said, fix=fix)
    targets = _asked(f"{url}/api/v1/targets?state=active")
    if isinstance(targets, Exception):
        return
    ours = [one for one in targets["data"]["activeTargets"] if "trimtab" in one["labels"].get("job", "")]
    down = [one for one in ours if one["health"] == "down"]
    if not ours:
        said, fix = "Prometheus reads nothing of trimtab.", "sudo trimtab setup puts a scrape file in place."
    elif down:
        said = f"{len(down)} of {count_text(len(ours), 'target')} cannot be read; first: {down[0]['lastError'][:200]}"
        fix = "See the token and the address in the scrape file: trimtab setup --dry-run."
    else:
        said, fix = f"Prometheus reads {count_text(len(ours), 'target')} of trimtab.", ""
    yield Check(name="Prometheus targets", is_ok=bool(ours) and not down, sentence=said, fix=fix)


def grafana_checks(url: str) -> Iterable[Check]:
    """Whether this host's Grafana is up."""
    health = _asked(f"{url}/api/health")
    if isinstance(health, Exception):
        said = f"Grafana is installed here and does not answer at {url}: {type(health).__name__}."
        yield Check(name="Grafana", is_ok=False, sentence=said, fix="systemctl status grafana-server")
    else:
        yield Check(name="Grafana", is_ok=True, sentence=f"Grafana {health.get('version', '')} answers at {url}.")


def setup_checks(path: Path, root: Path) -> Iterable[Check]:
    """Whether what `trimtab setup` puts in place is there and of this version."""
    from trimtab.setup import around, history  # noqa: PLC0415 - for this check alone
    from trimtab.setup.files import Act, Ground  # noqa: PLC0415
    from trimtab.setup.shipped import shipped  # noqa: PLC0415

    try:
        settings, asked = load(path, DaemonSettings), Ground(root).asked
        password = asked.postgresql_password_file
        wishes = around.Wishes(
            root=root,
            is_dry=True,
            asked=asked,
            prometheus_url=asked.prometheus_url or around.PROMETHEUS_URL,
            postgres=history.postgres_of(
                settings.store.url,
                user=asked.postgresql_user or history.READER,
                password_file=history.PASSWORD_FILE if password is None else password,
            ),
            is_optional_wanted=bool(asked.is_optional_wanted),
            prometheus_version=around.installed_prometheus(root),
        )
        done = around.set_up(wishes, settings, shipped())
    except (SettingsError, ClientError) as error:
        yield Check(name="setup", is_ok=False, sentence=str(error), fix="trimtab setup --dry-run says more.")
        return
    missing = [one.path for one in done.changes if one.act in (Act.MADE, Act.CHANGED, Act.REMOVED)]
    if missing:
        more = f" and {len(missing) - 2} more" if len(missing) > 2 else ""
        said = f"Not in place for {' and '.join(done.found)}, or of another version: {', '.join(missing[:2])}{more}."
        yield Check(name="setup", is_ok=False, sentence=said, fix="sudo trimtab setup")
    else:
        yield Check(name="setup", is_ok=True, sentence=f"In place for {' and '.join(done.found)}, of this version.")


def _asked(url: str) -> dict[str, Any] | Exception:
    try:
        with session(timeout_seconds=TIMEOUT_SECONDS) as asking:
            answer = asking.get(url, allow_redirects=False)
            return msgspec.json.decode(answer.content, type=dict[str, Any])
    except (OutboundError, OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        return error
