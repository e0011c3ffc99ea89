"""How long roll-ups are kept, and when a minute counts as whole."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from trimtab.settings.shape import NotNegative, Positive, Section

MinuteDays = Annotated[float, Meta(ge=0.25)]


class RollupSettings(Section, frozen=True, kw_only=True):
    """Roll-ups: the history behind the page's past, the digest and SQL clients. Sizes: decision record 0007."""

    is_on: bool = True
    """Without roll-ups there is no past beyond the raw reports."""
    minute_days: MinuteDays = 2.0
    """1-minute rows: about 160 bytes a GPU and minute on SQLite, 280 on PostgreSQL."""
    quarter_days: Positive = 14.0
    """15-minute rows."""
    hour_days: Positive = 400.0
    """1-hour rows, and GPU-time by queue, workload and cause: the same month of last year is still there."""
    grace_seconds: NotNegative = 20.0
    """How long after a minute its reports are waited for; what comes later corrects the rows that were written."""
    interval_seconds: Positive = 10.0
    """How often changes of who holds what are written down, and minutes that are over are rolled up."""
