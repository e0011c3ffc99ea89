"""All rows of the table: what is fired at a daemon, and what is tried elsewhere."""

from __future__ import annotations

from tests.security import hostile_elsewhere, hostile_http, hostile_ingest, hostile_people
from tests.security.hostile import Hostile

HOSTILE: tuple[Hostile, ...] = (
    *hostile_http.ROWS,
    *hostile_ingest.ROWS,
    *hostile_people.ROWS,
    *hostile_elsewhere.ROWS,
)
