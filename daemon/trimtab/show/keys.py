"""The operator's token and the client file: what the daemon leaves for its operator, and where verbs look for it."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from trimtab.durable import write_whole
from trimtab.errors import SettingsError

_TOKEN_BYTES = 32


def operator_token(path: Path) -> str:
    """The operator's token; made at the first start (0600), and on disk when this returns. One process a folder.

    Raises SettingsError when others can read the file.
    """
    if os.path.lexists(path):
        return _read_secret(path)
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        # Whole or not at all: an empty file after a power cut would keep the daemon from starting.
        write_whole(path, f"{token}\n".encode("ascii"), mode=0o600)
    except OSError as error:
        raise SettingsError(f"{path}: cannot write the operator's token: {error.strerror}.") from error
    return token


def _read_secret(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot read the operator's token: {error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(f"{path} can be read by others. Run: chmod 600 {path}")
    if len(token) < 32:
        raise SettingsError(f"{path} holds no token. Delete it, and the daemon makes a new one at its next start.")
    return token


def client_file() -> Path:
    """Where the verbs find the daemon's address and token: `${XDG_STATE_HOME:-~/.local/state}/trimtab/client.toml`."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "trimtab" / "client.toml"


def write_client_file(path: Path, *, url: str, token: str, ca_file: str = "") -> None:
    """Leave address, token and CA for the verbs (0600, replaced as a whole). Raises SettingsError."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            trusted = f'ca_file = "{ca_file}"\n' if ca_file else ""
            file.write(f'url = "{url}"\ntoken = "{token}"\n{trusted}')
        part.replace(path)
    except OSError as error:
        raise SettingsError(f"{path}: cannot leave the address for the verbs: {error.strerror}.") from error
