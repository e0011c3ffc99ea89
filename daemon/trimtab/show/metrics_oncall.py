"""Families about on-call: what waits in the outbox, what died, and what came of the attempts."""

from __future__ import annotations

from trimtab.show.metrics_facts import OnCallFacts
from trimtab.show.metrics_families import Families


def fill_oncall(families: Families, facts: OnCallFacts) -> None:
    """All of them."""
    for (target, state), count in sorted(facts.messages.items()):
        families.add("trimtab_outbox_messages", count, target, state)
    families.add_counts("trimtab_outbox_oldest_waiting_seconds", facts.oldest_waiting_seconds)
    for (target, result), count in sorted(facts.attempts_total.items()):
        families.add("trimtab_outbox_attempts_total", count, target, result)
    for pager in ("outbox", "alertmanager", "none"):
        families.add("trimtab_pager", float(pager == facts.pager), pager)
