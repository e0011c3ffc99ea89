"""Who may come in: the operator's token, one-time links, page sessions, and the Host and Origin checks.

Knows nothing of HTTP libraries: headers come in as plain values. Used by the API, the daemon's root and the verbs.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import stat
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from trimtab.clock import Clock
from trimtab.errors import SettingsError
from trimtab.model.people import Role

LINK_SECONDS = 600.0
"""A one-time link that nobody opened is dead after this long."""

LINKS_MAX = 64
SESSIONS_MAX = 512
"""More of either: the oldest goes."""

_TOKEN_BYTES = 32
_WHO = re.compile(r"[^\w.@-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: as audited, what they may do, and whether they came with a token (else with the page's cookie)."""

    who: str
    has_token: bool
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class _Grant:
    """What a link or a session stands for, and until when (monotonic)."""

    who: str
    role: Role
    until_seconds: float


class Door:
    """Knows the token, links and sessions. Links and sessions are in memory: a restart ends them all."""

    def __init__(
        self,
        *,
        token: str,
        clock: Clock,
        listen_host: str = "127.0.0.1",
        public_url: str = "",
        session_seconds: float = 12 * 3600.0,
        metrics_token: str | None = None,
    ) -> None:
        """`clock` must be a real one: a simulated clock would end links and sessions early."""
        self.session_seconds = session_seconds
        self.public_url = public_url.rstrip("/")
        self._token = _digest(token)
        self._metrics_token = _digest(metrics_token) if metrics_token else None
        self._clock = clock
        self._listen_host = listen_host.strip("[]").lower()
        self._public_host = (urlsplit(self.public_url).hostname or "").lower()
        self._lock = threading.Lock()
        self._links: OrderedDict[bytes, _Grant] = OrderedDict()
        self._sessions: OrderedDict[bytes, _Grant] = OrderedDict()

    def new_link(self, *, who: str = "operator", role: Role = Role.OPERATOR) -> str:
        """A secret that opens the page once, within ten minutes, as `who`; used at `/open/{secret}`."""
        return self._grant(self._links, who, role, LINK_SECONDS, LINKS_MAX)

    def redeem(self, secret: str) -> str | None:
        """A session for a link's secret, which is used up by it; None when it is unknown, used or too old."""
        with self._lock:
            grant = self._links.pop(_digest(secret), None)
        if grant is None or grant.until_seconds <= self._clock.monotonic_seconds():
            return None
        return self._grant(self._sessions, grant.who, grant.role, self.session_seconds, SESSIONS_MAX)

    def caller(self, *, authorization: str | None, session: str | None, said_who: str | None = None) -> Caller | None:
        """Who the request is from; None when neither token nor session is good.

        `said_who` is the name that a verb gives for the audit line; it is a claim by whoever holds the token.
        """
        if self.is_token(authorization):
            name = _WHO.sub("", said_who or "")[:64]
            return Caller(who=f"operator:{name}" if name else "operator", has_token=True, role=Role.ADMIN)
        if session is None:
            return None
        with self._lock:
            grant = self._sessions.get(_digest(session))
        if grant is None or grant.until_seconds <= self._clock.monotonic_seconds():
            return None
        return Caller(who=f"{grant.who} (page)", has_token=False, role=grant.role)

    def is_token(self, authorization: str | None) -> bool:
        """Whether the Authorization header carries the operator's token; constant time."""
        return hmac.compare_digest(_digest(_bearer(authorization)), self._token)

    def may_read_metrics(self, *, authorization: str | None, host: str | None, peer: str | None) -> bool:
        """/metrics: with its own token, the operator's, or without any on loopback where none is set."""
        if self._metrics_token and hmac.compare_digest(_digest(_bearer(authorization)), self._metrics_token):
            return True
        if self.is_token(authorization):
            return True
        is_local = _is_loopback(_host_name(host)) and _is_loopback(peer or "") and _is_loopback(self._listen_host)
        return self._metrics_token is None and is_local

    def is_host_known(self, host: str | None) -> bool:
        """Whether the Host header names us: a page that rebinds its own name to our address ends here."""
        name = _host_name(host)
        if _is_loopback(name) or name in (self._listen_host, self._public_host):
            return bool(name)
        # On a wildcard address any literal address may be ours; a literal cannot be rebound.
        return self._listen_host in ("", "0.0.0.0", "::") and _is_address(name)

    def is_same_origin(self, *, origin: str | None, host: str | None) -> bool:
        """Whether the Origin header is this very page's."""
        if not origin:
            return False
        if self.public_url and origin.rstrip("/") == self.public_url:
            return True
        return urlsplit(origin).netloc.lower() == (host or "").lower()

    def _grant(self, table: OrderedDict[bytes, _Grant], who: str, role: Role, seconds: float, most: int) -> str:
        secret = secrets.token_urlsafe(_TOKEN_BYTES)
        now = self._clock.monotonic_seconds()
        with self._lock:
            for key in [key for key, grant in table.items() if grant.until_seconds <= now]:
                del table[key]
            while len(table) >= most:
                table.popitem(last=False)
            table[_digest(secret)] = _Grant(who, role, now + seconds)
        return secret


def cookie_name(host: str | None) -> str:
    """The session cookie's name: with the port, since browsers share cookies between the ports of one host."""
    port = (host or "").rpartition(":")[2]
    return f"trimtab_session_{port}" if port.isdigit() else "trimtab_session"


def operator_token(path: Path) -> str:
    """The operator's token; made at the first start (0600). Raises SettingsError when others can read the file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_secret(path)
    except OSError as error:
        raise SettingsError(f"{path}: cannot write the operator's token: {error.strerror}.") from error
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
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


def write_client_file(path: Path, *, url: str, token: str) -> None:
    """Leave address and token for the verbs (0600, replaced as a whole). Raises SettingsError."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f'url = "{url}"\ntoken = "{token}"\n')
        part.replace(path)
    except OSError as error:
        raise SettingsError(f"{path}: cannot leave the address for the verbs: {error.strerror}.") from error


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _host_name(host: str | None) -> str:
    """The name of a Host header, without its port."""
    try:
        return (urlsplit(f"//{host or ''}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)
