"""Families about roll-ups: what was written, how far it lags, and what went wrong."""

from __future__ import annotations

from trimtab.show.metrics_facts import RollupFacts
from trimtab.show.metrics_families import Families


def fill_rollup(families: Families, facts: RollupFacts) -> None:
    """All of them."""
    families.add_counts("trimtab_rollup_rows_total", facts.rows_total)
    families.add("trimtab_rollup_failures_total", facts.failures_total)
    families.add("trimtab_rollup_mended_pieces_total", facts.mended_minutes_total)
    families.add("trimtab_rollup_reports_too_late_total", facts.too_late_total)
    families.add("trimtab_rollup_waiting_pieces", facts.waiting_minutes)
    families.add("trimtab_rollup_lag_seconds", facts.lag_seconds)
