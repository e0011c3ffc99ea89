"""Reports under a name that this node no longer has: an agent runs from its installation on, and is named later.

No daemon would take them with the node's token of today, and they would stand before all others for ever.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from trimtab.durable import write_whole
from trimtab.ship.position import Position
from trimtab.ship.segment import list_segments
from trimtab.ship.spool import Spool

log = structlog.get_logger()

FORMER = "former"
"""Folder within the spool; the last rename's reports, one lot."""
_NAME_FILE = "named.json"


@dataclass(frozen=True, slots=True)
class _Named:
    cluster: str
    node: str


def leave_former(directory: Path, *, cluster: str, node: str, bytes_max: int) -> int:
    """Move what waits under another cluster or node into `former/`, counted as set aside; returns how much it was.

    Call it before the spool is opened. Raises SettingsError when another agent uses the spool.
    """
    now = _Named(cluster=cluster, node=node)
    try:
        was = _read(directory / _NAME_FILE)
        if was == now:
            return 0
        left = _leave(directory, bytes_max) if was is not None else 0
        directory.mkdir(parents=True, exist_ok=True, mode=0o750)
        write_whole(directory / _NAME_FILE, msgspec.json.encode(now))
    except OSError as error:
        log.warning("the spool cannot be looked at for another name's reports", why=str(error))
        return 0
    if left and was is not None:
        log.warning(
            "reports of before this node had its name are kept aside and not sent",
            reports=left,
            kept_in=str(directory / FORMER),
            was=f"{was.cluster}/{was.node}",
            now=f"{cluster}/{node}",
        )
    return left


def _leave(directory: Path, bytes_max: int) -> int:
    """Everything that waits, out of the line: a new spool begins here, and only the counts go on."""
    spool = Spool(directory, bytes_max)
    left = spool.waiting
    spool.close()
    if not left:
        return 0
    former = directory / FORMER
    shutil.rmtree(former, ignore_errors=True)
    former.mkdir(mode=0o750)
    for name in ("spool-id", "position.json"):
        if (directory / name).exists():
            shutil.copy(directory / name, former / name)
    for segment in list_segments(directory):
        segment.path.rename(former / segment.path.name)
    position = Position(directory)
    position.load()
    position.set_aside_total += left
    position.save()
    return left


def _read(path: Path) -> _Named | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Named)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
