"""Where the history lies, as Grafana must be told: PostgreSQL's address, read from the daemon's settings."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from trimtab.errors import SettingsError

READER = "trimtab_reader"
"""The role that Grafana signs in as: it reads, and may do nothing else."""
PASSWORD_FILE = "/etc/trimtab/grafana-postgresql.password"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A PostgreSQL database to read from."""

    address: str
    """HOST:PORT, or the folder of its socket."""
    database: str
    user: str = READER
    password_file: str = PASSWORD_FILE
    ssl_mode: str = "require"
    schema: str = "public"

    @property
    def grants(self) -> tuple[str, ...]:
        """What makes the reader, as lines for psql: done once, by whoever owns the database."""
        return (
            f"CREATE ROLE {self.user} LOGIN PASSWORD '…';   -- the one in {self.password_file}",
            f"GRANT USAGE ON SCHEMA {self.schema} TO {self.user};",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {self.schema} TO {self.user};",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {self.schema} GRANT SELECT ON TABLES TO {self.user};",
            f"REVOKE ALL ON people_tokens, people_sessions, join_tokens, node_credentials FROM {self.user};",
        )


def postgres_of(url: str, *, user: str = READER, password_file: str = PASSWORD_FILE) -> Postgres | None:
    """From the daemon's `store.url`; None where the history is in SQLite. Raises SettingsError."""
    if not url.startswith("postgres"):
        return None
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    host = query.get("host", [parts.hostname or "localhost"])[0]
    try:
        port = parts.port or 5432
    except ValueError as error:
        raise SettingsError(f"store.url: {error}. Write postgresql://USER@HOST:PORT/NAME.") from error
    name = unquote(parts.path.removeprefix("/"))
    if not name:
        raise SettingsError("store.url names no database. Write postgresql://USER@HOST:PORT/NAME.")
    is_local = host.startswith("/") or host in _LOOPBACK
    return Postgres(
        address=host if host.startswith("/") else f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        database=name,
        user=user,
        password_file=password_file,
        ssl_mode=query.get("sslmode", ["disable" if is_local else "require"])[0],
    )
