"""A process that keeps reports in a spool and prints each sequence once it is kept; tests kill it at random."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.builders import a_report

from trimtab.ship.spool import Spool


def main(directory: str, bytes_max: int) -> None:
    """Append for ever."""
    spool = Spool(Path(directory), bytes_max)
    while True:
        kept = spool.append(a_report(gpus=1, sequence=0, spool_id=""))
        print(kept.sequence, kept.spool_id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
