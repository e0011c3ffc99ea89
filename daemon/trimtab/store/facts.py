"""What all facts of one cluster rest on."""

from __future__ import annotations

from trimtab.store.database import Database


class Facts:
    """Rows of one cluster in one database. Methods of its kinds are one transaction each and raise StoreError."""

    def __init__(self, database: Database, *, cluster: str) -> None:
        """Use an open database; safe to call from several threads."""
        self.cluster = cluster
        self._database = database
