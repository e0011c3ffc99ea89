"""What would be left in the cluster if trimtab went away now: asked before a package is removed."""

from __future__ import annotations

import sqlalchemy as sa

from trimtab.model.command import Command
from trimtab.store.database import Database
from trimtab.store.tables import commands
from trimtab.store.text import from_json


def kept(database: Database) -> tuple[Command, ...]:
    """Commands, of any cluster, that have begun and are not over, or are over and keep nodes or GPUs out; by id."""
    wanted = sa.or_(commands.c.is_live, commands.c.is_holding.is_(True))
    statement = sa.select(commands.c.body).where(wanted).order_by(commands.c.cluster, commands.c.id)
    with database.read() as connection:
        found = [from_json(body, Command) for body in connection.execute(statement).scalars()]
    return tuple(one for one in found if (one.is_holding or one.state.is_begun) and not one.is_dry)
