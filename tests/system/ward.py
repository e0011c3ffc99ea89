"""A real daemon with on-call targets, and nodes that report over HTTP what a test says of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.builders import a_report, an_xid
from tests.system.processes import CLUSTER, Daemon, verb

from trimtab.clock import SystemClock
from trimtab.outbound import session
from trimtab.ship.wire import MSGPACK, ZSTD, encode_reports


class Ward:
    """`secrets` are files beside the daemon's database."""

    def __init__(
        self, home: Path, settings: str, secrets: Mapping[str, str], *, database_url: str = "sqlite:///trimtab.db"
    ) -> None:
        self.home = home
        self.daemon = Daemon(home, database_url=database_url, settings=settings)
        self.daemon.state_directory.mkdir(parents=True)
        for name, text in secrets.items():
            (self.daemon.state_directory / name).write_text(text + "\n", encoding="utf-8")
        self.faults = 0
        self._sequence: dict[str, int] = {}
        self._tokens: dict[str, str] = {}

    def report(self, node: str, *, gpus: int = 1, boot_id: str = "boot-a", xid: int | None = None) -> None:
        """One report of a node, with or without an XID of its first GPU."""
        now = SystemClock().now()
        self._sequence[node] = self._sequence.get(node, 0) + 1
        if node not in self._tokens:
            self._tokens[node] = self.daemon.token_of(node)
        events = () if xid is None else (an_xid(xid, node=node, index=0, at=now, boot_id=boot_id),)
        made = a_report(
            node,
            cluster=CLUSTER,
            spool_id=f"spool-{node}",
            boot_id=boot_id,
            sequence=self._sequence[node],
            sampled_at=now,
            gpus=gpus,
            events=events,
        )
        headers = {"Content-Type": MSGPACK, "Content-Encoding": ZSTD}
        with session(timeout_seconds=20.0, token=self._tokens[node]) as peer:
            answer = peer.post(f"{self.daemon.ingest_url}/v1/reports", data=encode_reports([made]), headers=headers)
            assert answer.status_code == 200, answer.text

    def token_of(self, node: str) -> str:
        """The token that a node reports with."""
        return self._tokens[node]

    def break_gpus(self, count: int) -> None:
        """So many more nodes report that their GPU fell off the bus."""
        for _ in range(count):
            self.faults += 1
            self.report(f"n{self.faults:04}", xid=79)

    def verb(self, *arguments: str, code: int = 0) -> str:
        """A verb of this daemon's operator; what it printed."""
        options = ("--url", self.daemon.url, "--token", self.daemon.operator_token)
        done = verb(*arguments, *options, home=self.home)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr
