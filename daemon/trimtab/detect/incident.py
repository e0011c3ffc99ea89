"""How one incident is told from another over beats: members, the smallest things that it is about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime

from trimtab.model.advice import Finding

MEMBERS = "members"
"""Fact that lists an incident's members; two findings of one rule that share one are the same incident."""


def members_text(members: Iterable[str]) -> str:
    """The value of the fact: short digests, so that an incident of a thousand GPUs stays small."""
    return " ".join(sorted({digest(member) for member in members}))


def digest(text: str) -> str:
    """A member as the fact keeps it."""
    return hashlib.blake2s(text.encode(), digest_size=5).hexdigest()


def members_of(finding: Finding) -> frozenset[str]:
    """The digests of a finding's members; empty where it has none."""
    return frozenset(finding.facts.get(MEMBERS, "").split())


def moment_text(moment: datetime) -> str:
    """A moment as a fact keeps it."""
    return moment.isoformat()


def moment_of(text: str | None) -> datetime | None:
    """The moment of a fact; None where it is absent."""
    return datetime.fromisoformat(text) if text else None


HOLDERS = "holders"
"""Fact: `reports` where a finding knows who holds what from the reports alone, so that its end needs no scheduler."""


def holders_fact(*, has_snapshot: bool) -> dict[str, str]:
    """The fact for a finding's `facts`; nothing where the scheduler said who holds what."""
    return {} if has_snapshot else {HOLDERS: "reports"}
