"""Two real daemons on one real PostgreSQL over TCP, each in a network of its own that can be cut without a word."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from tests import postgres
from tests.system.processes import Daemon, eventually, free_port

from trimtab.outbound import OutboundError

WRONG_MAC = "02:00:00:00:00:99"
"""Whatever is sent there is heard by nobody: no reset, no answer, no error."""


class TcpPostgres(postgres.PostgresServer):
    """A server that also listens on TCP, for whoever is on this host's own networks."""

    def __init__(self) -> None:
        self.port = free_port()
        super().__init__()
        if not self.is_ours:
            pytest.skip("TEST_PG_URL is set, and these tests stop and start the server: unset it")
        hba = Path(self._data()) / "pg_hba.conf"
        with hba.open("a") as file:
            file.write("host all all 10.213.0.0/16 trust\nhost all all 127.0.0.0/8 trust\n")
        with psycopg.connect(self._libpq(), autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")

    def _options(self) -> str:
        listen = super()._options().replace("listen_addresses=''", "listen_addresses='0.0.0.0'")
        return f"{listen} -p {self.port}"

    def _start(self):
        return super()._start().set(port=self.port)

    def at(self, host: str, url: str) -> str:
        """The URL of a database as it is reached over the network."""
        name = re.search(r"/(trimtab_\w+)", url)
        assert name is not None, url
        return f"postgresql://postgres@{host}:{self.port}/{name[1]}"


def near(number: int) -> str:
    """This host, as a daemon in its own network reaches it."""
    return f"10.213.{number}.1"


class Network:
    """A network namespace with one cable to this host. `cut` makes both ends talk to nobody."""

    def __init__(self, number: int) -> None:
        self.name = f"trimtab-{free_port()}"
        self.near, self.far = near(number), f"10.213.{number}.2"
        self._here, self._there = f"tth{number}", f"ttd{number}"
        self._ip("netns", "add", self.name)
        self._ip("link", "add", self._here, "type", "veth", "peer", "name", self._there, "netns", self.name)
        self._ip("addr", "add", f"{self.near}/24", "dev", self._here)
        self._ip("link", "set", self._here, "up")
        self._ip("-n", self.name, "addr", "add", f"{self.far}/24", "dev", self._there)
        self._ip("-n", self.name, "link", "set", self._there, "up")
        self._ip("-n", self.name, "link", "set", "lo", "up")

    def cut(self) -> None:
        """From now on nothing gets through, and nobody is told."""
        for place, device, peer in (((), self._here, self.far), (("-n", self.name), self._there, self.near)):
            self._ip(*place, "neigh", "replace", peer, "lladdr", WRONG_MAC, "dev", device, "nud", "permanent")

    def mend(self) -> None:
        """The cable is in again."""
        for place, device, peer in (((), self._here, self.far), (("-n", self.name), self._there, self.near)):
            self._ip(*place, "neigh", "del", peer, "dev", device)

    def close(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self._here], check=False, capture_output=True)

    @staticmethod
    def _ip(*words: str) -> None:
        done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
        if done.returncode and "add" in words and "netns" in words:
            pytest.skip(f"no network namespace can be made (run as root, with iproute2): {done.stderr.strip()}")
        assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class PairDaemon(Daemon):
    """One daemon of a pair, with its own state directory; `network` = it lives in a namespace."""

    def __init__(
        self, home: Path, name: str, *, database_url: str, tokens: Path, more: str = "", network: Network | None = None
    ) -> None:
        self.name, self.network = name, network
        home.mkdir(parents=True, exist_ok=True)
        host = network.far if network is not None else "127.0.0.1"
        self._listen = host
        self._tokens = tokens
        super().__init__(home, database_url=database_url, settings=more)
        if network is not None:
            self.prefix = ("ip", "netns", "exec", network.name)
        self.url, self.ingest_url = f"http://{host}:{self.people_port}", f"http://{host}:{self.ingest_port}"

    def write_settings(self, settings: str) -> None:
        super().write_settings(settings)
        open_ = "\nallow_plaintext = true" if self.network is not None else ""
        text = self.settings_file.read_text()
        for section, port in (("ingest", self.ingest_port), ("people", self.people_port)):
            more = f'\ntokens_file = "{self._tokens}"' if section == "ingest" else ""
            text = text.replace(f'listen = "127.0.0.1:{port}"', f'listen = "{self._listen}:{port}"{open_}{more}')
        pair = f'\n[pair]\ndaemons = 2\nname = "{self.name}"\n'
        self.settings_file.write_text(text + pair)

    def is_active(self) -> bool:
        """Whether it says that it takes reports."""
        return self._status("/readyz") == 200

    def is_standby(self) -> bool:
        return self._status("/readyz") == 503 and self._status("/healthz") == 200

    def _status(self, path: str) -> int:
        self.fail_if_ended()
        try:
            return self._session.get(self.ingest_url + path, timeout=2.0).status_code
        except OutboundError:
            return 0

    def metric(self, name: str) -> float | None:
        self.fail_if_ended()
        page = self._session.get(f"{self.url}/metrics", timeout=5.0).text
        found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else None


def active_and_standby(pair: list[PairDaemon]) -> tuple[PairDaemon, PairDaemon]:
    """Wait until one is active and the other stands by."""

    def look() -> tuple[PairDaemon, PairDaemon] | None:
        active = [one for one in pair if one.is_active()]
        standby = [one for one in pair if one.is_standby()]
        return (active[0], standby[0]) if len(active) == 1 and len(standby) == 1 else None

    return eventually(look, seconds=60.0, said=lambda: "\n".join(one.tail() for one in pair))


@contextmanager
def a_server() -> Iterator[TcpPostgres]:
    """A server of these tests alone: it is stopped under the daemons' feet."""
    if reason := postgres.why_missing():
        pytest.skip(reason)
    made = TcpPostgres()
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def a_pair(
    home: Path, server: TcpPostgres, *, more: dict[str, str] | None = None, has_networks: bool = False
) -> Iterator[list[PairDaemon]]:
    """Two daemons, not started, on an empty database; everything ends with the block."""
    url = server.new_database()
    tokens = home / "node-tokens.toml"
    with ExitStack() as stack:
        pair: list[PairDaemon] = []
        for number, name in enumerate(("anna", "berta"), start=1):
            network = Network(number) if has_networks else None
            if network is not None:
                stack.callback(network.close)
            daemon = PairDaemon(
                home / name,
                name,
                database_url=server.at(network.near if network is not None else "127.0.0.1", url),
                tokens=tokens,
                more=(more or {}).get(name, ""),
                network=network,
            )
            stack.callback(daemon.close)
            pair.append(daemon)
        yield pair
