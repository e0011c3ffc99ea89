"""Whether the pair of daemons is one: somebody stands by, and the database confirms who is active. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.clock import iso
from trimtab.show.api_types import Check
from trimtab.show.metrics_facts import PairFacts


def pair_checks(facts: PairFacts) -> Iterable[Check]:
    """What doctor says of the election, asked of the active daemon."""
    since = f" since {iso(facts.since)}" if facts.since is not None else ""
    held_up = f", and begins nothing: {facts.why_not_act}" if facts.why_not_act else ""
    yield Check(
        name="active daemon",
        is_ok=facts.why_not_act is None,
        sentence=f"{facts.name} is active{since} (term {facts.term}){held_up}.",
        fix="" if facts.why_not_act is None else "It ends by itself in seconds; if not, look at the way to PostgreSQL.",
    )
    if facts.daemons_expected < 2:
        return
    is_ok = facts.standbys > 0
    yield Check(
        name="standby",
        is_ok=is_ok,
        sentence=f"{facts.standbys} of {facts.daemons_expected - 1} stand by.",
        fix=""
        if is_ok
        else "On the other host: systemctl status trimtab-daemon, and its log. Until then nobody takes over from this "
        "one. One daemon alone: set pair.daemons = 1.",
    )
