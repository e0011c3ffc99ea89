"""People's tokens and sessions: hashes, roles, and until when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "people_tokens",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger()),
        sa.Column("revoked_at_ms", sa.BigInteger()),
        sa.Column("last_used_at_ms", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_people_tokens"),
        sa.UniqueConstraint("sha256", name="uq_people_tokens_sha256"),
    )
    op.create_index("ix_people_tokens_cluster_name", "people_tokens", ["cluster", "name"])
    op.create_table(
        "people_sessions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("signed_in_by", sa.Text(), nullable=False),
        sa.Column("token_id", sa.BigInteger()),
        sa.Column("peer", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_people_sessions"),
        sa.UniqueConstraint("sha256", name="uq_people_sessions_sha256"),
    )
    op.create_index("ix_people_sessions_cluster_expires_at_ms", "people_sessions", ["cluster", "expires_at_ms"])
    op.create_index("ix_people_sessions_cluster_token_id", "people_sessions", ["cluster", "token_id"])
