"""Where the daemon is: options and environment, then what a demo here left, a person's own file, a daemon's here."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import ClientError
from trimtab.show.keys import client_file

DAEMONS_OWN = Path("/var/lib/trimtab/client.toml")
"""What a daemon with the default state directory leaves for whoever may read it there."""

KEYS = ("url", "token", "token_file", "ca_file")


class OutOfReach(ClientError):
    """The daemon cannot be found or asked; trying again may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line and the environment say of the daemon."""

    url: str | None = None
    token: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    from_environment: frozenset[str] = frozenset()
    """Which of these the environment says, and no option."""

    def source(self, name: str) -> str:
        """What said it, as one would write it: `--url`, or `TRIMTAB_URL`."""
        if name in self.from_environment:
            return f"TRIMTAB_{name.upper()}"
        return f"--{name.replace('_', '-')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the daemon is, and which setting said so."""

    url: str
    token: str
    ca_file: str
    said_by: str
    token_said_by: str = ""


def own_file() -> Path:
    """What `trimtab login` writes: `${XDG_CONFIG_HOME:-~/.config}/trimtab/client.toml`."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "trimtab" / "client.toml"


def find(asked: Asked) -> Place:
    """The daemon's address and token. Raises ClientError that says what to set."""
    if asked.token and asked.token_file:
        raise ClientError(f"Give {asked.source('token')} or {asked.source('token_file')}, not both.")
    is_whole = asked.url and (asked.token or asked.token_file)
    path = next((one for one in _files() if os.access(one, os.R_OK)), None)
    kept = _read(path) if path is not None and not is_whole else {}
    url = asked.url or kept.get("url")
    if not url:
        raise OutOfReach(
            f"No daemon is known here: none of {', '.join(str(one) for one in _files())} can be read. Start `trimtab "
            "daemon` or `trimtab demo`, sign in to one elsewhere (trimtab login URL), or give --url and --token-file. "
            "Beside an installed daemon root may ask it: sudo trimtab …"
        )
    if not url.startswith(("http://", "https://")):
        raise ClientError(f"{url!r} is no address of a daemon: write https://HOST:9740 (or http:// on this host).")
    token, token_said_by = _token(asked, kept, path)
    ca_file = asked.ca_file or kept.get("ca_file") or ""
    if ca_file and not os.access(ca_file, os.R_OK):
        raise ClientError(
            f"The CA certificate {ca_file} cannot be read. Correct {asked.source('ca_file')}, or ca_file in {path}."
        )
    return Place(
        url=url.rstrip("/"),
        token=token,
        ca_file=ca_file,
        said_by=asked.source("url") if asked.url else str(path),
        token_said_by=token_said_by,
    )


def _files() -> tuple[Path, ...]:
    """A demo that runs here comes first: what it prints to try must never reach a daemon that one is signed in to."""
    return (client_file(), own_file(), DAEMONS_OWN)


def _token(asked: Asked, kept: Mapping[str, str], path: Path | None) -> tuple[str, str]:
    if asked.token:
        return asked.token, asked.source("token")
    if asked.token_file:
        named = f", which {asked.source('token_file')} names" if "token_file" in asked.from_environment else ""
        return _of_file(asked.token_file), asked.token_file + named
    if kept.get("token"):
        return kept["token"], str(path)
    if kept.get("token_file"):
        return _of_file(kept["token_file"]), kept["token_file"]
    raise OutOfReach("No token: give --token-file FILE or TRIMTAB_TOKEN, or sign in once: trimtab login URL.")


def _of_file(path: str) -> str:
    try:
        token = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ClientError(f"The token file {path} cannot be read: {why}.") from error
    if not token or len(token.split()) != 1:
        raise ClientError(f"The token file {path} holds no token: it must be the token alone, on one line.")
    return token


def _read(path: Path) -> Mapping[str, str]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        fix = "Correct it." if path == own_file() else "Delete it, and the daemon writes it anew when it starts."
        raise ClientError(f"{path}: {error}. {fix}") from error
    unknown = sorted(set(table) - set(KEYS))
    if unknown:
        raise ClientError(f"{path}: there is no setting {unknown[0]!r}. The settings are {', '.join(KEYS)}.")
    wrong = sorted(key for key, value in table.items() if not isinstance(value, str))
    if wrong:
        raise ClientError(f"{path}: {wrong[0]} must be text in quotation marks.")
    if "token" in table and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ClientError(f"{path} holds a token and can be read by others. Run: chmod 600 {path}")
    return table
