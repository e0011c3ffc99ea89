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
    # No GPU was heard later than this, nor was a step kept of one: under a clock that is not set yet, too.
    heard_ms = unix_ms(SystemClock().now())
    for tier in ("1m", "15m", "1h"):
        newest = sa.select(sa.func.max(sa.table(f"rollup_gpu_{tier}", sa.column("at_ms")).c.at_ms))
        heard_ms = max(heard_ms, op.get_bind().execute(newest).scalar_one_or_none() or 0)
    gpus = sa.table("rollup_gpus", sa.column("heard_ms", sa.BigInteger()))
    op.execute(gpus.update().values(heard_ms=heard_ms))
