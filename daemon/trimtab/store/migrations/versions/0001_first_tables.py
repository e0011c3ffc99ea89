"""The first tables: journal, events, findings, commands, outcomes, audit.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("command_id", sa.BigInteger()),
        sa.Column("finding_id", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_cluster_at_ms", "audit", ["cluster", "at_ms"])
    op.create_table(
        "commands",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("is_live", sa.Boolean(), nullable=False),
        sa.Column("node", sa.Text()),
        sa.Column("workload", sa.Text()),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("snoozed_until_ms", sa.BigInteger()),
        sa.Column("approved_by", sa.Text()),
        sa.Column("undo_requested_by", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "id", name="pk_commands"),
    )
    op.create_index("ix_commands_cluster_changed_at_ms", "commands", ["cluster", "changed_at_ms"])
    op.create_index("ix_commands_cluster_is_live", "commands", ["cluster", "is_live"])
    op.create_table(
        "events",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("spool_id", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("received_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_history_only", sa.Boolean(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("code", sa.BigInteger()),
        sa.Column("gpu", sa.Text()),
        sa.Column("pci", sa.Text()),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sa.UniqueConstraint(
            "cluster",
            "node",
            "spool_id",
            "sequence",
            "ordinal",
            name="uq_events_cluster_node_spool_id_sequence_ordinal",
        ),
    )
    op.create_index("ix_events_cluster_at_ms", "events", ["cluster", "at_ms"])
    op.create_index("ix_events_cluster_node_at_ms", "events", ["cluster", "node", "at_ms"])
    op.create_table(
        "finding_changes",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("finding_id", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_finding_changes"),
        sa.UniqueConstraint(
            "cluster", "finding_id", "at_ms", "change", name="uq_finding_changes_cluster_finding_id_at_ms_change"
        ),
    )
    op.create_index("ix_finding_changes_cluster_at_ms", "finding_changes", ["cluster", "at_ms"])
    op.create_table(
        "findings",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("incident", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("node", sa.Text()),
        sa.Column("gpu", sa.Text()),
        sa.Column("workload", sa.Text()),
        sa.Column("queue", sa.Text()),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("gpus_hit", sa.Integer(), nullable=False),
        sa.Column("is_history_only", sa.Boolean(), nullable=False),
        sa.Column("opened_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("closed_at_ms", sa.BigInteger()),
        sa.Column("close_reason", sa.Text()),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "id", name="pk_findings"),
    )
    op.create_index("ix_findings_cluster_node_opened_at_ms", "findings", ["cluster", "node", "opened_at_ms"])
    op.create_index("ix_findings_cluster_state", "findings", ["cluster", "state"])
    op.create_table(
        "journal_dictionaries",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_journal_dictionaries"),
        sa.UniqueConstraint("sha256", name="uq_journal_dictionaries_sha256"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
    op.create_table(
        "outcomes",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("command_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("measured_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_good", sa.Boolean(), nullable=False),
        sa.Column("gpu_hours_lost", sa.Float(), nullable=False),
        sa.Column("gpu_hours_saved", sa.Float(), nullable=False),
        sa.Column("gpus_unlocked", sa.Integer(), nullable=False),
        sa.Column("seconds_to_settle", sa.Float(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "command_id", name="pk_outcomes"),
    )
    op.create_index("ix_outcomes_cluster_rule_measured_at_ms", "outcomes", ["cluster", "rule", "measured_at_ms"])
    op.create_table(
        "switches",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_on", sa.Boolean(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name", name="pk_switches"),
    )
    op.create_table(
        "journal",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("spool_id", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("sampled_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("received_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_replay", sa.Boolean(), nullable=False),
        sa.Column("is_clock_believed", sa.Boolean(), nullable=False),
        sa.Column("dictionary_id", ROW_ID, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dictionary_id"], ["journal_dictionaries.id"], name="fk_journal_dictionary_id_journal_dictionaries"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_journal"),
        sa.UniqueConstraint(
            "cluster", "node", "spool_id", "sequence", name="uq_journal_cluster_node_spool_id_sequence"
        ),
    )
    op.create_index("ix_journal_cluster_node_at_ms", "journal", ["cluster", "node", "at_ms"])
    op.create_index("ix_journal_received_at_ms", "journal", ["received_at_ms"])

    _make_audit_append_only()


def _make_audit_append_only() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_refuses_{verb.lower()} BEFORE {verb} ON audit "
                "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION trimtab_audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'audit is append-only'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_refuses_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION trimtab_audit_is_append_only()"
    )
