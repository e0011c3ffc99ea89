"""Incidents, the outbox to on-call, and what was done at the other end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _incidents()
    _outbox()
    op.create_table(
        "inbound_acts",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "id", name="pk_inbound_acts"),
    )


def _incidents() -> None:
    op.create_table(
        "incidents",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("incident", sa.Text(), nullable=False),
        sa.Column("finding_id", sa.BigInteger()),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("is_drill", sa.Boolean(), nullable=False),
        sa.Column("pager", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("node", sa.Text()),
        sa.Column("workload", sa.Text()),
        sa.Column("queue", sa.Text()),
        sa.Column("first_line", sa.Text(), nullable=False),
        sa.Column("quiet", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("paged_at_ms", sa.BigInteger()),
        sa.Column("acknowledged_at_ms", sa.BigInteger()),
        sa.Column("acknowledged_by", sa.Text()),
        sa.Column("closed_at_ms", sa.BigInteger()),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "number", name="pk_incidents"),
    )
    op.create_index("ix_incidents_cluster_opened_at_ms", "incidents", ["cluster", "opened_at_ms"])
    op.create_index("ix_incidents_cluster_is_open", "incidents", ["cluster", "is_open"])
    op.create_index("ix_incidents_cluster_is_drill", "incidents", ["cluster", "is_drill"])
    is_open = sa.text("is_open")
    op.create_index(
        "uq_incidents_open",
        "incidents",
        ["cluster", "incident"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )


def _outbox() -> None:
    row_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "outbox",
        sa.Column("id", row_id, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("incident", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("idem", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("is_unsure", sa.Boolean(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("not_before_ms", sa.BigInteger(), nullable=False),
        sa.Column("lease_until_ms", sa.BigInteger()),
        sa.Column("owner", sa.Text()),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("remark", sa.Text(), nullable=False),
        sa.Column("remote_id", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text()),
        sa.Column("handed_on_at_ms", sa.BigInteger()),
        sa.Column("done_at_ms", sa.BigInteger()),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("cluster", "idem", name="uq_outbox_cluster_idem"),
        sa.UniqueConstraint(
            "cluster", "target", "incident", "sequence", name="uq_outbox_cluster_target_incident_sequence"
        ),
    )
    op.create_index("ix_outbox_cluster_state_target", "outbox", ["cluster", "state", "target"])
    op.create_index("ix_outbox_cluster_incident", "outbox", ["cluster", "incident"])
    op.create_index("ix_outbox_cluster_created_at_ms", "outbox", ["cluster", "created_at_ms"])
