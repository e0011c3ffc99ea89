"""Families about certificates: how long each is good yet, and whether the files on disk are those in force."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.show.metrics_families import Families
from trimtab.tls import CertificateFacts


def fill_certificates(families: Families, whose: str, facts: Iterable[CertificateFacts], *place: str) -> None:
    """Of `agent` or `daemon`; of two of one use the one that ends first."""
    soonest: dict[str, CertificateFacts] = {}
    for fact in facts:
        held = soonest.get(fact.use)
        if held is None or fact.ends_at < held.ends_at:
            soonest[fact.use] = fact
    for use, fact in sorted(soonest.items()):
        families.add(f"trimtab_{whose}_certificate_remaining_seconds", fact.remaining_seconds, *place, use)
        families.add(f"trimtab_{whose}_certificate_unusable", float(bool(fact.trouble)), *place, use)
