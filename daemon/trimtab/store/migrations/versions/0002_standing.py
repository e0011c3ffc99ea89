"""What stands until it is lifted; and which commands keep nodes out, however long ago they settled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "standing",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger()),
        sa.Column("command_id", sa.BigInteger()),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "kind", "name", name="pk_standing"),
    )
    op.add_column("commands", sa.Column("is_holding", sa.Boolean()))
    op.create_index("ix_commands_cluster_is_holding", "commands", ["cluster", "is_holding"])
    body, state = sa.column("body", sa.Text), sa.column("state", sa.Text)
    commands = sa.table("commands", body, state, sa.column("is_holding", sa.Boolean))
    lasting = sa.and_(
        state == "settled",
        body.contains('"lasts":true', autoescape=True),
        body.contains('"is_dry":false', autoescape=True),
    )
    op.execute(commands.update().values(is_holding=lasting))
