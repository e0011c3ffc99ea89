"""What `trimtab doctor` says of a node: devices, GPUs, spool, and each daemon with trust, credential and clock."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from trimtab import handshakes
from trimtab.cli.doctor_enrolment import enrolment_checks
from trimtab.cli.together import Job
from trimtab.clock import SystemClock, age_text, count_text
from trimtab.errors import SettingsError
from trimtab.outbound import OutboundError, session
from trimtab.settings import AgentSettings, read_token
from trimtab.ship.keyring import Keyring
from trimtab.ship.sender import TOKEN_ENVIRONMENT
from trimtab.show.api_types import Check
from trimtab.trust import Trust, TrustFiles

DEVICES = Path("/dev")
TIMEOUT_SECONDS = 5.0
SKEW_SECONDS_MAX = 30.0
"""HTTP tells whole seconds; from 5 minutes on windows go by our receipt time."""
FREE_BYTES_MIN = 64 * 1024 * 1024
KEYS = handshakes.Keys(address="daemon_urls", ca="ca_file", plaintext="allow_plaintext", is_daemon=True)


def node_jobs(settings: AgentSettings, *, pci: Path, devices: Path = DEVICES) -> tuple[Job, ...]:
    """All that an agent with these settings needs, beside driver, kernel log and a spool that can be written."""
    return (
        Job(name="devices", look=lambda: device_checks(pci=pci, devices=devices)),
        Job(name="gpus", look=lambda: gpu_checks(settings, pci=pci), fix="nvidia-smi hangs too? Then reboot the node."),
        Job(name="spool room", look=lambda: spool_checks(settings)),
        Job(name="enrolment", look=partial(enrolment_checks, settings, is_note=False)),
        *(Job(name=f"daemon {url}", look=partial(reach_checks, settings, url)) for url in _urls(settings)),
        *(() if _urls(settings) else (Job(name="daemon_urls", look=_nowhere),)),
    )


def _nowhere() -> Iterable[Check]:
    said = "No daemon_urls are set: reports are kept in the spool and /metrics is served, and nothing is sent."
    yield Check(name="daemon_urls", is_ok=True, sentence=said, fix="Set daemon_urls where there is a daemon.")


def device_checks(*, pci: Path, devices: Path = DEVICES) -> Iterable[Check]:
    """Whether this user may use the driver's devices."""
    if not gpus_on_bus(pci):
        return
    found = sorted(one for one in devices.glob("nvidia*") if not one.is_dir())
    if not found:
        said = f"There is no {devices}/nvidia*: the driver has made no devices."
        yield Check(name="devices", is_ok=False, sentence=said, fix="modprobe nvidia, or nvidia-smi once as root.")
        return
    shut = [str(one) for one in found if not os.access(one, os.R_OK | os.W_OK)]
    if shut:
        said = f"{', '.join(shut[:4])} may not be used by {_user()}."
        fix = "Run the agent as a user of their group; in the unit, DeviceAllow=char-nvidia* rw (as it ships)."
        yield Check(name="devices", is_ok=False, sentence=said, fix=fix)
    else:
        yield Check(
            name="devices", is_ok=True, sentence=f"{count_text(len(found), 'device')} of the driver can be used."
        )


def gpu_checks(settings: AgentSettings, *, pci: Path) -> Iterable[Check]:
    """Whether as many GPUs are on the bus as there should be."""
    found, expected = len(gpus_on_bus(pci)), settings.gpus_expected
    if expected is None:
        if found:
            said = f"{count_text(found, 'GPU')} on the bus; how many there should be is not set."
            yield Check(name="gpus", is_ok=True, sentence=said, fix=f"Set gpus_expected = {found}, if that is all.")
    elif found == expected:
        yield Check(name="gpus", is_ok=True, sentence=f"{count_text(found, 'GPU')} on the bus, as gpus_expected says.")
    else:
        said = f"{count_text(found, 'GPU')} on the bus; gpus_expected says {expected}."
        fix = "A GPU that fell off comes back by a reboot, or not at all; else correct gpus_expected."
        yield Check(name="gpus", is_ok=False, sentence=said, fix=fix)


def gpus_on_bus(pci: Path) -> tuple[Path, ...]:
    """NVIDIA's display and 3D controllers."""
    found = []
    for device in sorted(pci.glob("*")):
        try:
            vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text()
        except OSError:
            continue
        if vendor == "0x10de" and kind.startswith("0x03"):
            found.append(device)
    return tuple(found)


def spool_checks(settings: AgentSettings) -> Iterable[Check]:
    """Room on the spool's disk, and how much waits in it."""
    directory = Path(settings.spool_directory)
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    held = sum(one.stat().st_size for one in directory.rglob("*") if one.is_file()) if directory.is_dir() else 0
    said = f"{_mib(held)} of at most {_mib(settings.spool_bytes_max)} wait in {directory}; {_mib(free)} are free."
    left = max(settings.spool_bytes_max - held, 0)
    if free < FREE_BYTES_MIN:
        yield Check(name="spool room", is_ok=False, sentence=said, fix=f"Make room on the disk of {existing}.")
    elif held > settings.spool_bytes_max * 0.9:
        fix = "Reports do not flow: see the daemon above; beyond the bound the oldest are dropped, counted."
        yield Check(name="spool room", is_ok=False, sentence=said, fix=fix)
    elif free < left:
        fix = f"The disk is full before the spool is: lower spool_bytes_max below {_mib(held + free)}."
        yield Check(name="spool room", is_ok=True, sentence=said, fix=fix)
    else:
        yield Check(name="spool room", is_ok=True, sentence=said)


def reach_checks(settings: AgentSettings, url: str) -> Iterator[Check]:
    """Whether a daemon is reached, trusted, takes this node's credential, and has the same time."""
    name = f"daemon {url}"
    trust, token, whose = _credential(settings)
    clock, ca_file = SystemClock(), trust.ca_file
    try:
        with session(timeout_seconds=TIMEOUT_SECONDS, token=token, trust=Trust(trust)) as asking:
            healthy = asking.get(f"{url.rstrip('/')}/healthz", allow_redirects=False)
            now = clock.now()
            who = asking.get(f"{url.rstrip('/')}/v1/node", allow_redirects=False) if token else None
    except (OutboundError, OSError) as error:
        yield _unreached(error, url, ca_file, clock)
        return
    if healthy.status_code not in (200, 503):
        said = f"{url} answered {healthy.status_code}, and not as a daemon's port for agents does."
        yield Check(name=name, is_ok=False, sentence=said, fix="daemon_urls is the daemon's ingest.listen (port 9741).")
        return
    trusted = " and its certificate is trusted" if urlsplit(url).scheme == "https" else ""
    yield Check(name=name, is_ok=True, sentence=f"{url} answers{trusted}.")
    yield from _clock_check(url, healthy.headers.get("Date"), now)
    if who is None:
        said = f"There is no credential for {url} yet."
        fix = "Make one beside the daemon: `trimtab enroll NODE` (or `trimtab token node NAME`)."
        yield Check(name=f"credential {url}", is_ok=False, sentence=said, fix=fix)
    else:
        yield _credential_check(url, who.status_code, who.content, whose)


def _credential_check(url: str, status: int, body: bytes, whose: str) -> Check:
    name = f"credential {url}"
    said = body.decode(errors="replace")[:300]
    if status == 200:
        return Check(name=name, is_ok=True, sentence=f"{url} takes the credential from {whose}.")
    if status in (404, 503):
        note = f"{url} cannot say now whether it takes the credential: it stands by, or is of an earlier version."
        return Check(name=name, is_ok=True, sentence=note, fix="Ask the active daemon, also in daemon_urls.")
    fix = "Enrol the node again: `trimtab enroll NODE` beside the daemon, or correct token_file."
    return Check(name=name, is_ok=False, sentence=f"{url} refuses the credential from {whose}: {said}", fix=fix)


def _clock_check(url: str, date: str | None, now: datetime) -> Iterator[Check]:
    """The daemon's Date header against this host's clock; whole seconds, which is enough."""
    try:
        there = parsedate_to_datetime(date or "")
    except ValueError:
        return
    offset = (now - there).total_seconds()
    said = f"This host's clock is {age_text(abs(offset))} {'ahead of' if offset > 0 else 'behind'} {url}."
    if abs(offset) <= SKEW_SECONDS_MAX:
        yield Check(name="clock", is_ok=True, sentence=f"This host and {url} have the same time, to the second.")
    else:
        yield Check(name="clock", is_ok=False, sentence=said, fix="Start chrony or systemd-timesyncd on both.")


def _unreached(error: Exception, url: str, ca_file: str, clock: SystemClock) -> Check:
    host = urlsplit(url).hostname
    said = handshakes.sentence_of(error, url=url, keys=KEYS, ca_file=ca_file, now=clock.now())
    fix = "See ca_file, the daemon's certificate, and both clocks."
    if said is None:
        text = str(error)
        fix = "Is the daemon running (systemctl status trimtab-daemon), and its port open from here?"
        said = f"{url} is not reached: {type(error).__name__}."
        if any(sign in text for sign in ("Name or service not known", "NameResolution", "name resolution")):
            said, fix = f"{url} is not reached: there is no host {host}.", "Correct daemon_urls, or the name service."
        elif "refused" in text:
            said = f"{url} is not reached: nothing listens there."
        elif "timed out" in text:
            said = f"{url} does not answer within {TIMEOUT_SECONDS:g} s."
    return Check(name=f"daemon {url}", is_ok=False, sentence=said, fix=fix)


def _credential(settings: AgentSettings) -> tuple[TrustFiles, str | None, str]:
    """Whom it trusts, its token, and where that is from; read only, and nothing is asked for."""
    given = TrustFiles(ca_file=settings.ca_file)
    token = read_token(settings.token_file, environment_name=TOKEN_ENVIRONMENT)
    if token:
        return given, token, settings.token_file or f"${TOKEN_ENVIRONMENT}"
    try:
        keyring = Keyring(Path(settings.credential_directory))
    except SettingsError:
        return given, None, ""
    kept = keyring.kept
    token = kept.token if kept is not None else None
    trust = TrustFiles(ca_file=settings.ca_file or keyring.ca_file, certificate_file=keyring.client_file)
    return trust, token, settings.credential_directory


def _urls(settings: AgentSettings) -> tuple[str, ...]:
    if settings.daemon_urls:
        return settings.daemon_urls
    try:
        kept = Keyring(Path(settings.credential_directory)).kept
    except SettingsError:
        return ()
    return tuple(kept.urls) if kept is not None else ()


def _user() -> str:
    return f"this user (uid {os.geteuid()})"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:.0f} MiB" if size_bytes < 10 * 1024**3 else f"{size_bytes / 1024**3:.0f} GiB"
