"""What a person asked `trimtab setup` for: kept in the manifest, since packages run it again without a word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from trimtab.errors import SettingsError


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Options as they were given; None = never, so what is usual holds."""

    settings_file: str | None = None
    """From the root."""
    prometheus_url: str | None = None
    postgresql_user: str | None = None
    postgresql_password_file: str | None = None
    is_optional_wanted: bool | None = None
    daemon_url: str | None = None
    ca_file: str | None = None
    metrics_token_file: str | None = None
    agents_token_file: str | None = None

    def over(self, before: Asked) -> Asked:
        """These, and of what was asked before whatever is not asked for now."""
        return msgspec.convert({**_given(before), **_given(self)}, Asked)

    def beside(self, now: Asked) -> tuple[str, ...]:
        """What of this is not said now, as options."""
        said = _given(now)
        return tuple(_option(name, value) for name, value in _given(self).items() if name not in said)

    def settings_path(self, root: Path) -> Path | None:
        """Where the settings are that were asked for. Raises SettingsError when they are gone."""
        if self.settings_file is None:
            return None
        found = root / self.settings_file
        if not found.is_file():
            raise SettingsError(f"{found}: the settings asked for before are gone. Give --settings, or --forget.")
        return found


def from_root(path: Path | None, root: Path) -> str | None:
    """A path as it can be kept; None for one outside the root, which means nothing on the host that root is for."""
    if path is None or not path.resolve().is_relative_to(root.resolve()):
        return None
    return str(path.resolve().relative_to(root.resolve()))


def _given(asked: Asked) -> dict[str, str | bool]:
    return dict(_pairs(asked))


def _pairs(asked: Asked) -> Iterator[tuple[str, str | bool]]:
    for name in asked.__struct_fields__:
        value = getattr(asked, name)
        if value is not None:
            yield name, value


def _option(name: str, value: object) -> str:
    if name == "is_optional_wanted":
        return "--with-optional-rules" if value else "--without-optional-rules"
    if name == "settings_file":
        return f"--settings /{value}"
    return f"--{name.replace('_', '-')} {value or repr('')}"
