"""Makes digests for whoever asks: the API, the verb, the schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trimtab.errors import SettingsError
from trimtab.model.digest import Digest
from trimtab.show.digest.make import DigestSource, make_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestDesk:
    """Where digests are made. `source` is asked anew for each: what devices are is as last read."""

    source: Callable[[], DigestSource]
    zone: tzinfo
    page_url: Callable[[], str]

    def make(self, *, since: datetime, until: datetime, now: datetime) -> Digest:
        """The digest between two moments. Raises StoreError where history cannot be read."""
        return make_digest(self.source(), since=since, until=until, now=now, zone=self.zone)


def zone_of(name: str) -> tzinfo:
    """The zone of a name. Raises SettingsError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SettingsError(
            f"digest.timezone: {name!r} is no time zone that this host knows. Write it as Europe/Berlin; where the "
            "host has none at all, install tzdata."
        ) from error
