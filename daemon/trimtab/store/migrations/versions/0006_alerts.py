"""Other people's alerts, maintenance windows, and the alerts that we pushed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "foreign_alerts",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("starts_at_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("node", sa.Text()),
        sa.Column("gpu", sa.Text()),
        sa.Column("pod", sa.Text()),
        sa.Column("workload", sa.Text()),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("heard_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ends_at_ms", sa.BigInteger()),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "fingerprint", "starts_at_ms", name="pk_foreign_alerts"),
    )
    for columns in (["cluster", "state", "heard_at_ms"], ["cluster", "node", "heard_at_ms"]):
        op.create_index(f"ix_foreign_alerts_{'_'.join(columns)}", "foreign_alerts", columns)
    op.create_table(
        "maintenance",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("starts_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger()),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("silence_id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "id", name="pk_maintenance"),
    )
    op.create_index("ix_maintenance_cluster_until_ms", "maintenance", ["cluster", "until_ms"])
    op.create_table(
        "pushed_alerts",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("labels_sha256", sa.Text(), nullable=False),
        sa.Column("incident", sa.BigInteger(), nullable=False),
        sa.Column("starts_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at_ms", sa.BigInteger()),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "labels_sha256", name="pk_pushed_alerts"),
    )
