"""Enrolment: join tokens and nodes' credentials, as hashes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "enrolment_versions",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name="pk_enrolment_versions"),
    )
    op.create_table(
        "join_tokens",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_again", sa.Boolean(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("used_at_ms", sa.BigInteger()),
        sa.Column("used_by", sa.Text(), nullable=False),
        sa.Column("used_from", sa.Text(), nullable=False),
        sa.Column("withdrawn_at_ms", sa.BigInteger()),
        sa.Column("withdrawn_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_join_tokens"),
        sa.UniqueConstraint("sha256", name="uq_join_tokens_sha256"),
    )
    op.create_index("ix_join_tokens_cluster_node", "join_tokens", ["cluster", "node"])
    op.create_table(
        "node_credentials",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("join_id", sa.BigInteger(), nullable=False),
        sa.Column("enrolled_by", sa.Text(), nullable=False),
        sa.Column("given_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("renewals", sa.Integer(), nullable=False),
        sa.Column("first_used_at_ms", sa.BigInteger()),
        sa.Column("last_used_at_ms", sa.BigInteger()),
        sa.Column("ended_at_ms", sa.BigInteger()),
        sa.Column("ended_how", sa.Text()),
        sa.Column("ended_by", sa.Text(), nullable=False),
        sa.Column("ended_why", sa.Text(), nullable=False),
        sa.Column("rotate_at_ms", sa.BigInteger()),
        sa.Column("certificate_pem", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_node_credentials"),
        sa.UniqueConstraint("sha256", name="uq_node_credentials_sha256"),
    )
    op.create_index("ix_node_credentials_cluster_node", "node_credentials", ["cluster", "node"])
    op.create_index("ix_node_credentials_cluster_version", "node_credentials", ["cluster", "version"])
