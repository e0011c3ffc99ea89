"""Who is the active daemon, which daemons there are, and in whose term an audit line was written."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "leadership",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger()),
        sa.Column("takeovers", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name="pk_leadership"),
    )
    op.create_table(
        "daemons",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("backend_pid", sa.BigInteger(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "instance", name="pk_daemons"),
    )
    op.add_column("audit", sa.Column("term", sa.BigInteger()))
