"""What doctor says of the database's room, as the daemon keeps it. Pure; sees what /metrics sees."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.show.api_types import Check
from trimtab.show.metrics_limits import LimitsFacts

_GIB = 1024**3


def limits_checks(facts: LimitsFacts | None) -> Iterable[Check]:
    """Size and free room, against their bounds; nothing where neither is known."""
    disk = facts.disk if facts is not None else None
    if disk is None or (disk.held_bytes is None and disk.free_bytes is None):
        return
    said = []
    if disk.held_bytes is not None:
        bound = f" of at most {disk.held_bytes_max / _GIB:.1f}" if disk.held_bytes_max is not None else ""
        said.append(f"The database takes {disk.held_bytes / _GIB:.1f}{bound} GiB")
    if disk.free_bytes is not None:
        bound = f" (at least {disk.free_bytes_min / _GIB:.1f} are to stay)" if disk.free_bytes_min is not None else ""
        said.append(f"{disk.free_bytes / _GIB:.1f} GiB of its disk are free{bound}")
    gone = sum(disk.rows_gone_total.values())
    if gone:
        said.append(f"{gone} rows went before their time to keep it so")
    fix = "Nothing more may go: make room on the disk, or give the database more (docs/how-to/settings.md, [store])."
    yield Check(
        name="database room", is_ok=not disk.is_short, sentence="; ".join(said) + ".", fix=fix if disk.is_short else ""
    )
