"""When somebody last told of a GPU: clusters whose nodes come and go have new ones for ever."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from trimtab.clock import SystemClock, unix_ms

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rollup_gpus", sa.Column("heard_ms", sa.BigInteger()))
    gpus = sa.table("rollup_gpus", sa.column("heard_ms", sa.BigInteger()))
    op.execute(gpus.update().values(heard_ms=unix_ms(SystemClock().now())))
