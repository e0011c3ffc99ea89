"""Families about Alertmanager, both ways: what is pushed, what is read, what others say."""

from __future__ import annotations

from trimtab.show.alertmanager.facts import AlertingFacts
from trimtab.show.metrics_families import Families, timestamp


def fill_alerting(families: Families, facts: AlertingFacts) -> None:
    """All of them."""
    for peer in facts.peers:
        for result, count in sorted(peer.posts_total.items()):
            families.add("trimtab_alertmanager_posts_total", count, peer.name, result)
        families.add("trimtab_alertmanager_taken_timestamp_seconds", timestamp(peer.taken_at), peer.name)
        families.add("trimtab_alertmanager_failing", float(bool(peer.trouble)), peer.name)
    if facts.peers:
        families.add("trimtab_alertmanager_open_alerts", facts.pushed_open)
        families.add("trimtab_alertmanager_left_out_alerts", facts.pushed_left_out)
    if facts.silences_read_at is not None:  # the alerts are read with the silences
        families.add("trimtab_alertmanager_unheard_incidents", facts.unheard)
        families.add("trimtab_alertmanager_doubled_incidents", facts.doubled)
    families.add_counts("trimtab_silence_reads_total", facts.silence_reads_total)
    families.add("trimtab_silences", facts.silences)
    families.add("trimtab_maintenance_windows", facts.windows)
    families.add("trimtab_quiet_incidents", facts.quiet_incidents)
    families.add("trimtab_foreign_alerts", facts.others_firing)
    families.add_counts("trimtab_webhook_alerts_total", facts.others_total)
