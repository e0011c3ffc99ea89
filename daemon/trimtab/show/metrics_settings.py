"""Families about settings that were read again while running: whether they could be used, and what waits."""

from __future__ import annotations

from trimtab.show.metrics_facts import SettingsFacts
from trimtab.show.metrics_families import Families, timestamp


def fill_settings(families: Families, facts: SettingsFacts) -> None:
    """All of them; the moment only once there was one."""
    families.add("trimtab_settings_reload_ok", float(facts.is_ok))
    families.add("trimtab_settings_reload_timestamp_seconds", timestamp(facts.at))
    families.add("trimtab_settings_reload_failures_total", facts.failures_total)
    families.add("trimtab_settings_waiting", len(facts.waiting))
