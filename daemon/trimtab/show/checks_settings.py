"""Whether the settings on disk are those in force: what doctor says after a reload. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.show.api_types import Check
from trimtab.show.metrics_facts import SettingsFacts

_KEYS_MAX = 6


def settings_checks(facts: SettingsFacts | None) -> Iterable[Check]:
    """Nothing before the first reload."""
    if facts is None or facts.at is None:
        return
    if not facts.is_ok:
        yield Check(
            name="settings",
            is_ok=False,
            sentence=facts.trouble,
            fix="Correct it (`trimtab settings check` says whether it will do), then systemctl reload trimtab-daemon.",
        )
    elif facts.waiting:
        more = len(facts.waiting) - _KEYS_MAX
        keys = ", ".join(facts.waiting[:_KEYS_MAX]) + (f" and {more} more" if more > 0 else "")
        sentence = f"Set in the file and not in force before a restart: {keys}."
        yield Check(name="settings", is_ok=True, sentence=sentence, fix="systemctl restart trimtab-daemon")
    else:
        yield Check(name="settings", is_ok=True, sentence="The settings on disk are in force.")
