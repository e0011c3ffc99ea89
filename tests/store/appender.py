"""A process that appends reports and prints each sequence once it was acknowledged; tests kill it at random."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from tests.builders import a_delivery, a_report, an_xid
from tests.fakes.clock import START

from trimtab.store.database import open_database
from trimtab.store.journal import Journal

BATCH_REPORTS = 20


def main(url: str, directory: str, first: int) -> None:
    """Append batches from `first` on, for ever."""
    journal = Journal(open_database(url, state_directory=Path(directory)))
    while True:
        batch = range(first, first + BATCH_REPORTS)
        journal.append(
            [
                a_delivery(
                    a_report(sequence=n, at=START + timedelta(seconds=n), events=(an_xid(63, text=f"line {n}"),))
                )
                for n in batch
            ]
        )
        print(*batch, flush=True)
        first += BATCH_REPORTS


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
