"""Reads a settings file strictly: what is wrong is said with file, key and fix."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec

from trimtab.errors import SettingsError
from trimtab.settings.agent import AgentSettings
from trimtab.settings.daemon import DaemonSettings
from trimtab.settings.mistakes import told

S = TypeVar("S", AgentSettings, DaemonSettings)


def load(path: Path, kind: type[S]) -> S:
    """Read a settings file. Raises SettingsError that names file, key and fix."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}. Give --settings FILE, or create it.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error
    return from_table(table, kind, where=str(path))


def from_table(table: dict[str, object], kind: type[S], *, where: str) -> S:
    """Settings from a parsed table. Raises SettingsError with the key's path."""
    try:
        return msgspec.convert(table, kind, strict=True)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}: {told(error, table, kind)}") from error


def read_token(path: str, *, environment_name: str) -> str | None:
    """A token from the environment or a file; None when neither is set. Raises SettingsError when unreadable."""
    if environment_name in os.environ:
        return os.environ[environment_name].strip()
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot read the token: {error}") from error
