"""A real PostgreSQL for tests: $TEST_PG_URL, else the system's binaries started once a run on a unix socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

INSTALL = "apt-get install postgresql"


def binaries() -> Path | None:
    """The newest system PostgreSQL's bin directory, or None."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


def why_missing() -> str | None:
    """Why no PostgreSQL can be had, with the command that installs it; None when one can."""
    if os.environ.get("TEST_PG_URL") or binaries():
        return None
    return f"PostgreSQL is not installed and TEST_PG_URL is not set: {INSTALL}"


class PostgresServer:
    """One server for the run; each `new_database` is empty and of its own."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._binaries = Path()
        given = os.environ.get("TEST_PG_URL")
        self.url = make_url(given) if given else self._start()

    def new_database(self) -> str:
        """URL of a new, empty database."""
        name = f"trimtab_{uuid.uuid4().hex}"
        with psycopg.connect(self._libpq(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" ENCODING UTF8 TEMPLATE template0')  # name is ours
        return self.url.set(database=name).render_as_string(hide_password=False)

    def cut_connections(self, url: str) -> int:
        """End every connection to a database, as a restart of the server would; how many there were."""
        name = make_url(url).database
        with psycopg.connect(self._libpq(), autocommit=True) as connection:
            cut = connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,)
            ).fetchall()
        return len(cut)

    @property
    def is_ours(self) -> bool:
        """Whether it was started here, and so may be stopped in the middle of a test."""
        return self._directory is not None

    def halt(self) -> None:
        """Stop a server of ours as a crash does; its data stay."""
        self._run("pg_ctl", "-D", self._data(), "-m", "immediate", "stop")

    def go_on(self) -> None:
        """Start it again on the same data."""
        log = str(self._own() / "log")
        self._run("pg_ctl", "-D", self._data(), "-l", log, "-o", self._options(), "-w", "-t", "60", "start")

    def stop(self) -> None:
        """Stop the server if it is ours, and remove its files."""
        if self._directory is not None:
            if (self._directory / "data" / "postmaster.pid").exists():  # else a test has stopped it, and failed then
                self.halt()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _libpq(self) -> str:
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)

    def _start(self):
        bin_directory = binaries()
        assert bin_directory is not None, why_missing()
        self._binaries = bin_directory
        self._directory = Path(tempfile.mkdtemp(prefix="trimtab-pg-"))
        if os.geteuid() == 0:
            shutil.chown(self._directory, "postgres", "postgres")
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self._run("initdb", "-D", self._data(), *options)
        self.go_on()
        return make_url(f"postgresql://postgres@/postgres?host={self._directory}")

    def _own(self) -> Path:
        assert self._directory is not None, "this server is not ours"
        return self._directory

    def _data(self) -> str:
        return str(self._own() / "data")

    def _options(self) -> str:
        # fsync=off: throw-away data; a killed client loses nothing by it, and that is what is tested.
        return f"-c fsync=off -c full_page_writes=off -c listen_addresses='' -k {self._own()}"

    def _run(self, program: str, *arguments: str) -> None:
        as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        command = [*(as_postgres if os.geteuid() == 0 else []), str(self._binaries / program), *arguments]
        # A server inherits these: a pipe would keep `run` waiting until it stops.
        told = self._own() / "commands.log"
        with told.open("ab") as log:
            done = subprocess.run(command, stdout=log, stderr=log, cwd="/", check=False)
        assert done.returncode == 0, (
            f"{' '.join(command)} ended with {done.returncode}: {_end_of(told)}\n{_end_of(self._own() / 'log')}"
        )


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-1500:] if log.exists() else ""
