"""An agent's spool and sender in a process of its own, as fast as it can; tests kill it at random."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.builders import a_report

from trimtab import logs
from trimtab.clock import SystemClock
from trimtab.ship.sender import Sender
from trimtab.ship.spool import Spool


def main(directory: str, url: str, token: str) -> None:
    """Keep a report, print its sequence, send what waits, for ever."""
    logs.setup()
    spool = Spool(Path(directory), 64 * 1024 * 1024)
    sender = Sender(spool=spool, urls=[url], token=token, clock=SystemClock(), replay_reports_per_second=500.0)
    while True:
        kept = spool.append(a_report(gpus=1, sequence=0, spool_id="", at=datetime.now(UTC)))
        print(kept.sequence, flush=True)
        sender.tick()


if __name__ == "__main__":
    main(*sys.argv[1:])
