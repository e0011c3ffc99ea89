"""Runs the migrations on the connection that `trimtab.store.schema` hands over; there is no alembic.ini."""

from __future__ import annotations

from alembic import context
from alembic.runtime.migration import MigrationInfo

from trimtab.loop import moving
from trimtab.store.every_table import VERSION_TABLE, metadata


def _told(ctx: object, step: MigrationInfo, heads: object, run_args: object) -> None:  # noqa: ARG001 - its names
    moving(f"the database's migration {step.up_revision_id}")


# One transaction for all of it, also on SQLite (database.py begins it itself): killed half-way, nothing happened.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
    on_version_apply=_told,
)
with context.begin_transaction():
    context.run_migrations()
