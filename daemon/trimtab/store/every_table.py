"""The metadata with every theme's tables in it: for migrations and for care of the whole database."""

from __future__ import annotations

from trimtab.store import tables_alerts, tables_enrolment, tables_outbox, tables_pair, tables_people, tables_rollup
from trimtab.store.tables import VERSION_TABLE, metadata

__all__ = [
    "VERSION_TABLE",
    "metadata",
    "tables_alerts",
    "tables_enrolment",
    "tables_outbox",
    "tables_pair",
    "tables_people",
    "tables_rollup",
]
