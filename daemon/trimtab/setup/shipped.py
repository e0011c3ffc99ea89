"""What comes with trimtab for the programs around it: built dashboards, alert rules, a sample for Alertmanager."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trimtab.errors import SettingsError

_INSTALLED = Path(__file__).parent / "files"
_CHECKOUT = Path(__file__).parent.parent.parent.parent
"""The repository, where trimtab runs from it: the wheel's `files` are copied from there."""

NOT_BY_DEFAULT = "trimtab-optional.rules.yml"
"""Rules that are news every day in some halls; loaded where somebody asks for them."""


def shipped(root: Path | None = None) -> Shipped:
    """The files of this installation. Raises SettingsError where it came without them."""
    for place in (root,) if root is not None else (_INSTALLED, _CHECKOUT):
        if (place / "dashboards" / "trimtab-fleet.json").is_file():
            return Shipped(place)
    raise SettingsError("This installation came without its dashboards. Install trimtab from its wheel or package.")


class Shipped:
    """Reads them by kind; file name -> text."""

    def __init__(self, place: Path) -> None:
        """`place` has the folders `dashboards` and `alerts`."""
        self._place = place

    def dashboards(self, *, has_history: bool) -> Mapping[str, str]:
        """The dashboards; those that ask PostgreSQL only where there is one."""
        found = self._texts("dashboards", "trimtab-*.json")
        return {name: text for name, text in found.items() if has_history or "-history" not in name}

    def rules(self, *, is_optional_wanted: bool) -> Mapping[str, str]:
        """Recording and alert rules for Prometheus."""
        found = self._texts("alerts", "trimtab*.rules.yml")
        return {name: text for name, text in found.items() if is_optional_wanted or name != NOT_BY_DEFAULT}

    def alertmanager(self) -> str | None:
        """The sample configuration of Alertmanager, where there is one."""
        return self._texts("alerts", "alertmanager.yml").get("alertmanager.yml")

    def _texts(self, folder: str, pattern: str) -> Mapping[str, str]:
        paths = sorted((self._place / folder).glob(pattern))
        return {path.name: path.read_text(encoding="utf-8") for path in paths}
