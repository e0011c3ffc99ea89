"""What an agent's settings say of its enrolment; used by the agent, and by `trimtab join` before there is one."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trimtab.clock import Clock
from trimtab.collect.host import host_name
from trimtab.errors import SettingsError
from trimtab.settings import AgentSettings, read_token
from trimtab.ship.join_token import is_join_token
from trimtab.ship.keyring import CREDENTIAL_FILE, TROUBLE_FILE, Kept, Keyring
from trimtab.ship.membership import Membership, Whereabouts
from trimtab.ship.sender import TOKEN_ENVIRONMENT, check_url

JOIN_TOKEN_ENVIRONMENT = "TRIMTAB_JOIN_TOKEN"
CREDENTIALS_DIRECTORY = "CREDENTIALS_DIRECTORY"
CREDENTIAL_NAMES = ("join-token", "credentials_join-token")
"""Under these names systemd may hand the token over: LoadCredential=join-token:FILE, or the units' own folder."""
ANY_CLUSTER = AgentSettings().cluster
"""What nobody has set: the agent then takes the daemon's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """An agent's settings with what its enrolment adds to them."""

    settings: AgentSettings
    membership: Membership | None = None
    """None where an operator's token file is used, or no daemon at all."""


def joined(settings: AgentSettings, *, clock: Clock) -> Joined:
    """The credential that there is, or the means to get one. Raises SettingsError."""
    if settings.token_file and settings.join_token_file:
        raise SettingsError(
            "token_file and join_token_file are both set: the first is for a token that an operator made, the second "
            "for enrolment. Leave one of them out."
        )
    if settings.token_file or TOKEN_ENVIRONMENT in os.environ or not _is_wanted(settings):
        return Joined(settings=settings)
    keyring = Keyring(Path(settings.credential_directory))
    kept = keyring.kept
    if kept is not None:
        adopted = msgspec.structs.replace(
            settings,
            daemon_urls=settings.daemon_urls or kept.urls,
            cluster=kept.cluster if settings.cluster == ANY_CLUSTER else settings.cluster,
        )
        settings = adopted
    where = Whereabouts(
        urls=settings.daemon_urls,
        node=settings.node or host_name(),
        cluster=settings.cluster,
        ca_file=settings.ca_file,
        certificate_file=settings.client_certificate_file,
        key_file=settings.client_key_file,
    )
    return Joined(
        settings=settings,
        membership=Membership(
            keyring,
            where,
            clock=clock,
            join_token=lambda: join_token(settings),
            used_up=lambda: _remove(settings.join_token_file),
        ),
    )


def join_once(settings: AgentSettings, *, token: str, clock: Clock) -> Kept:
    """Join now with this token, and keep what comes of it. Raises NotAdmitted and SettingsError."""
    if not is_join_token(token):
        raise SettingsError("This is no join token: one begins with trimtab_join_. Ask for one: `trimtab enroll NODE`.")
    where = Whereabouts(
        urls=settings.daemon_urls,
        node=settings.node or host_name(),
        cluster="" if settings.cluster == ANY_CLUSTER else settings.cluster,
        ca_file=settings.ca_file,
    )
    for url in settings.daemon_urls:
        check_url(url, allow_plaintext=settings.allow_plaintext)
    keyring = Keyring(Path(settings.credential_directory))
    return Membership(keyring, where, clock=clock, join_token=lambda: token).join_now(token)


def join_token(settings: AgentSettings) -> str | None:
    """The join token that is there now: environment, file, or a credential of systemd's. Raises SettingsError."""
    file = Path(settings.join_token_file) if settings.join_token_file else _handed_over()
    is_there = file is not None and file.exists()  # it may go once it was used
    return read_token(str(file) if is_there else "", environment_name=JOIN_TOKEN_ENVIRONMENT)


def membership_facts(membership: Membership) -> dict[str, Any]:
    """Of the agent's facts for /metrics, those about its enrolment."""
    kept, counts = membership.kept, membership.counts
    return {
        "is_enrolled": kept is not None,
        "credential_expires_at": kept.expires_at if kept is not None else None,
        "credentials_received_total": counts.joined_total + counts.renewed_total,
        "enrolment_refusals_total": dict(membership.refusals_total),
    }


def enrolment_of(settings: AgentSettings) -> tuple[Kept | None, str] | None:
    """The credential on disk, and the trouble that the agent left word of; None where none is wanted. SettingsError."""
    if settings.token_file or TOKEN_ENVIRONMENT in os.environ or not _is_wanted(settings):
        return None
    directory = Path(settings.credential_directory)
    try:
        trouble = (directory / TROUBLE_FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        trouble = ""
    except OSError as error:
        raise SettingsError(f"{directory}: {error.strerror}: whether this node is enrolled cannot be seen.") from error
    return Keyring(directory).kept, trouble


def _remove(file: str) -> None:
    """What is used up need not lie about; where it may not be removed, the credential says that it was used."""
    if file:
        with suppress(OSError):
            Path(file).unlink(missing_ok=True)


def _is_wanted(settings: AgentSettings) -> bool:
    try:
        has_credential = (Path(settings.credential_directory) / CREDENTIAL_FILE).exists()
    except PermissionError:
        has_credential = True  # there is a directory that is not ours to look into: whoever reads it says so
    has_token = bool(settings.join_token_file) or _handed_over() is not None or JOIN_TOKEN_ENVIRONMENT in os.environ
    return has_credential or has_token


def _handed_over() -> Path | None:
    directory = os.environ.get(CREDENTIALS_DIRECTORY, "")
    places = [Path(directory) / name for name in CREDENTIAL_NAMES] if directory else []
    return next((place for place in places if place.exists()), None)
