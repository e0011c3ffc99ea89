"""The agent's own credential on disk: what it has, and what it is about to get, whole after a crash at any instant.

The secret is made here and written down before the daemon hears of it, and the daemon hears its hash alone: whatever is
lost on the way is asked for again with the same secret, and gets the same answer.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from trimtab.durable import write_whole
from trimtab.errors import SettingsError
from trimtab.ship.join_token import digest_of
from trimtab.ship.tokens import new_token

CREDENTIAL_FILE = "credential.json"
PENDING_FILE = "pending.json"
CA_FILE, JOIN_CA_FILE = "ca.pem", "join-ca.pem"
TROUBLE_FILE = "trouble"
"""Why the node is not let in, for `trimtab doctor`."""
RENEWAL = "renewal"
T = TypeVar("T")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent reports with."""

    node: str
    cluster: str
    token: str
    join_sha256: str
    """Hash of the join token that it came of, which is used up."""
    received_at: datetime
    expires_at: datetime
    lasts_seconds: float
    urls: tuple[str, ...] = ()
    """Where it was joined, for an agent whose settings name no daemon."""
    ca_pem: str = ""
    certificate_pem: str = ""
    key_pem: str = ""
    previous_token: str = ""
    """What it had before, until this one was taken once."""

    def __repr__(self) -> str:
        return f"Kept(node={self.node!r}, cluster={self.cluster!r}, expires_at={self.expires_at!r})"


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A secret that the daemon is about to hear of, or has heard of already."""

    purpose: str
    """Hash of the join token that it is for, or `renewal`."""
    token: str
    key_pem: str = ""
    csr_pem: str = ""

    def __repr__(self) -> str:
        return f"Pending(purpose={self.purpose!r})"


class Keyring:
    """One directory with one credential; used by one process at a time."""

    def __init__(self, directory: Path) -> None:
        """Read what is there. Raises SettingsError when it cannot be."""
        self.directory = directory
        self.kept = self._read(CREDENTIAL_FILE, Kept)
        pending = self._read(PENDING_FILE, Pending)
        # Killed between the two writes: what was pending is what is kept.
        is_kept = pending is not None and self.kept is not None and pending.token == self.kept.token
        self._pending = None if is_kept else pending

    @property
    def ca_file(self) -> str:
        """The daemon's CA as it was told at the join; empty where there was none."""
        return str(self.directory / CA_FILE) if self.kept is not None and self.kept.ca_pem else ""

    @property
    def client_file(self) -> str:
        """This node's client certificate with its key; empty where there is none."""
        kept = self.kept
        return str(self.directory / _client_name(kept)) if kept is not None and kept.certificate_pem else ""

    @property
    def pending(self) -> Pending | None:
        """What the daemon may have heard of."""
        return self._pending

    def begin(self, purpose: str, *, node: str, is_certified: bool) -> Pending:
        """The secret for this purpose: made once, and on disk when this returns. Raises SettingsError."""
        if self._pending is not None and self._pending.purpose == purpose:
            return self._pending
        key_pem, csr_pem = _key_and_request(node) if is_certified else ("", "")
        self._pending = Pending(purpose=purpose, token=new_token(), key_pem=key_pem, csr_pem=csr_pem)
        self._write(PENDING_FILE, msgspec.json.encode(self._pending))
        return self._pending

    def keep(self, kept: Kept) -> None:
        """From now on this one; on disk when this returns. Raises SettingsError."""
        former = self.client_file
        self._write_derived(kept)
        self._write(CREDENTIAL_FILE, msgspec.json.encode(kept))
        self.kept, self._pending = kept, None
        (self.directory / PENDING_FILE).unlink(missing_ok=True)
        if former and former != self.client_file:
            Path(former).unlink(missing_ok=True)
        self.say("")

    def note_ca(self, ca_pem: str) -> str:
        """The file of a CA that a join token vouches for; empty where there is none. Raises SettingsError."""
        if not ca_pem:
            return ""
        # Not in the place of the one in use: this join may be refused.
        self._write(JOIN_CA_FILE, ca_pem.encode())
        return str(self.directory / JOIN_CA_FILE)

    def mend(self) -> None:
        """Write again what is made from the credential, should it be missing. Raises SettingsError."""
        files = [Path(name) for name in (self.ca_file, self.client_file) if name]
        if self.kept is not None and not all(file.exists() for file in files):
            self._write_derived(self.kept)

    def forget_previous(self) -> None:
        """The daemon has taken the newest: what was before it is over. Raises SettingsError."""
        if self.kept is not None and self.kept.previous_token:
            self.kept = msgspec.structs.replace(self.kept, previous_token="")
            self._write(CREDENTIAL_FILE, msgspec.json.encode(self.kept))

    def say(self, trouble: str) -> None:
        """Leave word for `trimtab doctor`, or take it away; a full disk keeps nobody from reporting."""
        file = self.directory / TROUBLE_FILE
        with suppress(OSError, SettingsError):
            if trouble:
                self._write(TROUBLE_FILE, trouble.encode())
            else:
                file.unlink(missing_ok=True)

    def _read(self, name: str, kind: type[T]) -> T | None:
        path = self.directory / name
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror}. The agent must be able to read its credential.") from error
        except msgspec.MsgspecError as error:
            raise SettingsError(
                f"{path} is damaged ({error}). Delete it and enrol the node anew: `trimtab enroll NODE --again`."
            ) from error

    def _write_derived(self, kept: Kept) -> None:
        if kept.ca_pem:
            self._write(CA_FILE, kept.ca_pem.encode())
        if kept.certificate_pem:
            self._write(_client_name(kept), (kept.certificate_pem + kept.key_pem).encode())

    def _write(self, name: str, content: bytes) -> None:
        """Whole or not at all, readable by the agent alone from the first byte on. Raises SettingsError."""
        path = self.directory / name
        try:
            owner = self._made_directory()
            write_whole(path, content, mode=0o600, owner=owner if os.geteuid() == 0 else None)
        except OSError as error:
            raise SettingsError(
                f"{path}: {error.strerror}. credential_directory must be the agent's own and writable by it."
            ) from error

    def _made_directory(self) -> tuple[int, int]:
        """User and group that the directory belongs to; made by root for an agent that is not, it is that agent's."""
        if not self.directory.exists():
            parent = next(one for one in self.directory.parents if one.exists())
            self.directory.mkdir(mode=0o700, parents=True)
            if os.geteuid() == 0:
                above = parent.stat()
                made = [self.directory, *self.directory.parents]
                for one in made[: made.index(parent)]:
                    os.chown(one, above.st_uid, above.st_gid, follow_symlinks=False)
        found = self.directory.stat()
        return found.st_uid, found.st_gid


def _client_name(kept: Kept) -> str:
    return f"client-{digest_of(kept.certificate_pem)[:16]}.pem"


def _key_and_request(node: str) -> tuple[str, str]:
    from trimtab import pki  # noqa: PLC0415 - 10 MB that only a certificate of one's own needs

    key = pki.new_key()
    return pki.key_pem(key).decode(), pki.request_for(key, node).decode()
