"""How much of its disk the daemon's history may take, and what is left to others."""

from __future__ import annotations

from trimtab.settings.shape import Natural, Positive, Section

MEBIBYTE = 1024 * 1024


class DiskSettings(Section, frozen=True, kw_only=True):
    """Bounds on history. Past one of them the oldest goes before its days: raw reports first, then roll-ups, the finest
    first. Findings, commands, incidents and the audit never go."""

    database_bytes_max: Natural = 0
    """What the database may hold; 0 = as much as its days ask for (docs/reference/sizing.md)."""
    free_bytes_min: Natural = 512 * MEBIBYTE
    """Free space that is left on the disk of a SQLite database; a full disk stops everybody on it."""
    ballast_bytes: Natural = 16 * MEBIBYTE
    """A file beside a SQLite database that is given up when its disk is full: deleting needs room itself."""
    look_seconds: Positive = 30.0
    """How often it is looked at; at 100,000 GPUs about 300 MB of raw reports come in meanwhile."""
