"""What the XID gauge of dcgm-exporter can tell: a change between two scrapes, and nothing else. Remembers codes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from trimtab.collect.dcgm import DcgmPage
from trimtab.model.reading import Event, EventKind, EventSource, GpuReading

XID_KEY = "xid_last_code"


class XidGauge:
    """The gauge holds the last code until the exporter restarts: a second equal code is invisible to it.

    So a changed code is one event at or before this scrape, an unchanged one is none, a fall to 0 or to absence
    is a restarted exporter and no recovery, and the first scrape of a GPU tells of the past only.
    """

    def __init__(self) -> None:
        """No GPU seen."""
        self._codes: dict[str, int] = {}

    def changes(self, page: DcgmPage, *, at: datetime) -> list[Event]:
        """Events since the page before."""
        found = []
        for gpu in page.gpus:
            code = int(gpu.values.get(XID_KEY, 0))
            before = self._codes.get(gpu.uuid)
            self._codes[gpu.uuid] = code
            if before is not None and code not in (0, before):
                found.append(_event(gpu, code, page.xid_messages.get(gpu.uuid), at=at))
        return found


def standing_codes(gpus: Iterable[GpuReading], *, at: datetime) -> list[Event]:
    """The codes that a single page shows, as events of unknown age: for a person who has one page and no more."""
    codes = [(gpu, int(gpu.values.get(XID_KEY, 0))) for gpu in gpus]
    return [_event(gpu, code, None, at=at) for gpu, code in codes if code]


def _event(gpu: GpuReading, code: int, message: str | None, *, at: datetime) -> Event:
    return Event(
        kind=EventKind.XID,
        source=EventSource.EXPORTER,
        at=at,
        code=code,
        gpu=gpu.uuid,
        pci=gpu.info.pci,
        details={"gauge": "sticky", **({"message": message} if message else {})},
        text=f"DCGM_FI_DEV_XID_ERRORS of {gpu.uuid} is {code}",
    )
