"""The seam to whatever keeps us from paging: silences and maintenance windows, read by others."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from trimtab.model.oncall import Incident


class Quiet(Protocol):
    """Says why an incident is to wake nobody now."""

    def why_quiet(self, incident: Incident, now: datetime) -> str | None:
        """The sentence with who asked for quiet and until when; None = page."""
        ...


class NeverQuiet:
    """Where nobody silences anything."""

    def why_quiet(self, incident: Incident, now: datetime) -> str | None:  # noqa: ARG002 - the protocol's signature
        """None, always."""
        return None
