"""Families about a pair of daemons: who is active, in which term, and whether somebody stands by."""

from __future__ import annotations

from trimtab.show.metrics_facts import PairFacts
from trimtab.show.metrics_families import Families, timestamp


def fill_pair(families: Families, facts: PairFacts) -> None:
    """All of them; a standby exports the same from what it sees in the database."""
    cluster = facts.cluster
    families.add("trimtab_daemon_active", float(facts.is_active), cluster, facts.name)
    families.add("trimtab_daemon_acting", float(facts.is_active and facts.why_not_act is None), cluster, facts.name)
    families.add("trimtab_daemon_term", facts.term, cluster)
    families.add("trimtab_daemon_takeovers_total", facts.takeovers_total, cluster)
    families.add("trimtab_daemon_active_since_timestamp_seconds", timestamp(facts.since), cluster)
    families.add("trimtab_daemon_standbys", facts.standbys, cluster)
    families.add("trimtab_daemons_expected", facts.daemons_expected, cluster)
    families.add("trimtab_election_age_seconds", facts.look_age_seconds, cluster)
