"""`python -m dashboards.build`: write every dashboard's JSON beside this file. A test keeps the two equal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dashboards import capacity, daemon, faults, fleet, gpu, history, job, node, queues, rebalancer
from dashboards.sheet import Sheet, to_json

HERE = Path(__file__).parent
SHEETS: tuple[Sheet, ...] = (
    fleet.SHEET,
    node.SHEET,
    gpu.SHEET,
    job.SHEET,
    capacity.SHEET,
    queues.SHEET,
    faults.SHEET,
    rebalancer.SHEET,
    daemon.SHEET,
    history.FLEET,
    history.FAULTS,
    history.REBALANCER,
)


def built() -> Mapping[str, str]:
    """File name -> its text, of every dashboard."""
    return {f"{sheet.uid}.json": to_json(sheet) for sheet in SHEETS}


def main() -> None:
    """Write them, and take away what is no dashboard any more."""
    files = built()
    for path in HERE.glob("*.json"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
