"""A receiver on a real port, with a list in place of the database; commits on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from tests.builders import CLUSTER

from trimtab.clock import Clock, SystemClock
from trimtab.errors import StoreError
from trimtab.listener import Listener
from trimtab.loop import Beat
from trimtab.model.reading import Delivery, Report
from trimtab.outbound import session
from trimtab.settings import IngestSettings
from trimtab.ship.inbox import Inbox
from trimtab.ship.receiver import ingest_app
from trimtab.ship.tokens import NodeTokens, give_token
from trimtab.ship.wire import MSGPACK, ZSTD, encode_reports

COMMIT_SECONDS = 0.01


class Ingest:
    """Keeps what it is sent, each sequence once, as the journal does; can fail once, or be stuck."""

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock | None = None,
        inbox_reports_max: int = 20_000,
        commit_timeout_seconds: float = 5.0,
        listen: str = "127.0.0.1:0",
        certificate_file: str = "",
        key_file: str = "",
        **settings: int,
    ) -> None:
        self.tokens_file = directory / "node-tokens.toml"
        self.inbox = Inbox(inbox_reports_max)
        self.tokens = NodeTokens(self.tokens_file)
        self.kept: dict[tuple[str, str, int], Delivery] = {}
        self.arrivals: list[int] = []
        self.duplicates_total = 0
        self.next_commit_error: StoreError | None = None
        self.is_stuck = False
        app = ingest_app(
            inbox=self.inbox,
            tokens=self.tokens,
            settings=IngestSettings(**settings),
            clock=clock or SystemClock(),
            cluster=CLUSTER,
            commit_timeout_seconds=commit_timeout_seconds,
        )
        self.counts = app.state.counts
        self._listener = Listener(
            app, name="ingest", listen=listen, certificate_file=certificate_file, key_file=key_file
        )
        self._beat = Beat("remember", self.commit, interval_seconds=COMMIT_SECONDS, clock=SystemClock())
        self.port = self._listener.port
        self.url = f"{self._listener.scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._listener.start()
        self._beat.start()

    def stop(self) -> None:
        self._beat.stop()
        self._listener.stop()

    def commit(self) -> str:
        if self.is_stuck:
            return "stuck"
        drained = self.inbox.drain()
        if self.next_commit_error is not None and drained:
            error, self.next_commit_error = self.next_commit_error, None
            self.inbox.fail(drained, error)
            return str(error)
        for delivery in drained:
            self._keep(delivery)
        self.inbox.acknowledge(drained)
        return f"{len(drained)} kept"

    def _keep(self, delivery: Delivery) -> None:
        report = delivery.report
        key = (report.node, report.spool_id, report.sequence)
        self.arrivals.append(report.sequence)
        self.duplicates_total += key in self.kept
        self.kept.setdefault(key, delivery)

    @property
    def deliveries(self) -> list[Delivery]:
        return list(self.kept.values())

    def a_token(self, node: str = "gpu-00") -> str:
        return give_token(self.tokens_file, node)[0]

    def post(
        self, body: bytes | list[Report], *, token: str | None, headers: dict[str, str] | None = None
    ) -> requests.Response:
        """One POST as any client makes it; a list of reports is encoded as an agent does."""
        encoded = body if isinstance(body, bytes) else encode_reports(body)
        with session(timeout_seconds=20.0, token=token) as client:
            return client.post(
                f"{self.url}/v1/reports",
                data=encoded,
                headers={"Content-Type": MSGPACK, "Content-Encoding": ZSTD, **(headers or {})},
            )


@contextmanager
def ingest(directory: Path, **options: object) -> Iterator[Ingest]:
    """A started receiver, stopped afterwards."""
    made = Ingest(directory, **options)  # type: ignore[arg-type]
    made.start()
    try:
        yield made
    finally:
        made.stop()


def until(holds: object, *, seconds: float = 30.0) -> None:
    """Wait for another process or thread, at most so long."""
    assert callable(holds)
    pause = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if holds():
            return
        pause.wait(0.02)
    raise AssertionError(f"it did not come true within {seconds} s")
