"""What a standby keeps up behind the active daemon is what a start would read back: the same window, nothing twice."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.builders import a_report
from tests.postgres import PostgresServer
from tests.system.processes import CLUSTER, eventually

from trimtab.clock import SystemClock
from trimtab.model.reading import Delivery
from trimtab.premises import ring_of
from trimtab.settings import DaemonSettings, StoreSettings
from trimtab.shadow import Shadow
from trimtab.store.database import open_database
from trimtab.store.journal import Journal


def deliveries(count: int, *, first: int) -> list[Delivery]:
    now = SystemClock().now()
    return [
        Delivery(
            report=a_report(
                f"gpu-{number % 5:02}",
                cluster=CLUSTER,
                spool_id=f"spool-{number % 5}",
                sequence=first + number,
                sampled_at=now - timedelta(seconds=count - number),
            ),
            received_at=now,
        )
        for number in range(count)
    ]


def test_a_standbys_ring_is_the_one_that_a_start_would_read_back(postgresql: PostgresServer, tmp_path: Path) -> None:
    url = postgresql.new_database()
    settings = DaemonSettings(cluster=CLUSTER, state_directory=str(tmp_path), store=StoreSettings(url=url))
    shadow = Shadow(settings)
    shadow.start()  # before there are tables: it waits for the active daemon to make them
    database = open_database(url, state_directory=tmp_path)
    try:
        journal = Journal(database)
        journal.append(deliveries(1200, first=1))
        eventually(lambda: shadow.ring.nodes_count == 5)
        journal.append(deliveries(40, first=2000))
        shadow.finish(journal)
        now = SystemClock().now()
        read_back = ring_of(settings)
        read_back.add(journal.tail(now - timedelta(seconds=read_back.span_seconds)))
        kept_up, asked = (ring.window(now, span_seconds=300.0, snapshot=None) for ring in (shadow.ring, read_back))
        assert kept_up.gpus == asked.gpus
        assert kept_up.nodes == asked.nodes
        assert len(kept_up.gpus) > 0
    finally:
        shadow.stop()
        database.close()
