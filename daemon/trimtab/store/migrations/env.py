"""Runs the migrations on the connection that `trimtab.store.schema` hands over; there is no alembic.ini."""

from __future__ import annotations

from alembic import context

from trimtab.store.every_table import VERSION_TABLE, metadata

# One transaction for all of it, also on SQLite (database.py begins it itself): killed half-way, nothing happened.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
