"""What agent and daemon log, and in which form."""

from __future__ import annotations

from typing import Literal

from trimtab.settings.shape import Section


class LogSettings(Section, frozen=True, kw_only=True):
    """`[log]`: how much is said, and in which form."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """From which level on lines are written; info is one line per change, debug one per beat."""
    form: Literal["auto", "journal", "text", "json"] = "auto"
    """auto: fields of its own in the journal (`journalctl XID=79`), text on a terminal, else JSON. Else as it says."""
