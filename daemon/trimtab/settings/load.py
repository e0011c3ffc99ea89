"""Reads settings strictly: file, environment and credentials; what is wrong is said with its place, key and fix."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from trimtab.errors import SettingsError
from trimtab.secrecy import never_show
from trimtab.settings.agent import AgentSettings
from trimtab.settings.credentials import require, resolved
from trimtab.settings.daemon import DaemonSettings
from trimtab.settings.mistakes import path_in, told
from trimtab.settings.override import Override, merged, overrides

S = TypeVar("S", AgentSettings, DaemonSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded(Generic[S]):
    """Settings as they are in force, and where each key that is no default comes from."""

    settings: S
    origins: Mapping[str, str] = field(default_factory=dict)
    """Key -> `file`, `environment VARIABLE` or `credential NAME`; a key that is absent here has its default."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Keys whose credential is not here, each with what to do."""


def load(
    path: Path | None, kind: type[S], *, environment: Mapping[str, str] | None = None, is_start: bool = False
) -> S:
    """Settings from a file (None = defaults) and the environment. Raises SettingsError that names place, key and fix.

    `is_start`: for the process that will use them; every credential must be there then.
    """
    loaded = load_whole(path, kind, environment=environment)
    if is_start:
        require(loaded.missing, where=str(path or "environment"))
    return loaded.settings


def load_whole(path: Path | None, kind: type[S], *, environment: Mapping[str, str] | None = None) -> Loaded[S]:
    """The same, with where each key comes from. Raises SettingsError."""
    environment = os.environ if environment is None else environment
    table = read_table(path) if path is not None else {}
    found = overrides(environment, kind, table)
    seen = resolved(merged(table, found), environment)
    settings = _converted(seen.table, kind, where=str(path or "settings"), found=found)
    origins = dict.fromkeys(flat(table), "file")
    origins |= {key: f"environment {one.variable}" for one in found for key in _keys_of(one)}
    origins |= {key: f"credential {name}" for key, name in seen.of.items()}
    return Loaded(settings=settings, origins=origins, missing=seen.missing)


def read_table(path: Path) -> dict[str, Any]:
    """A settings file as TOML has it. Raises SettingsError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}. Give --settings FILE, or create it.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error


def from_table(table: dict[str, object], kind: type[S], *, where: str) -> S:
    """Settings from a parsed table. Raises SettingsError with the key's path."""
    return _converted(table, kind, where=where, found=())


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted keys of a table; a list counts as one value."""
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def read_token(path: str, *, environment_name: str) -> str | None:
    """A token from the environment or a file; None when neither is set. Raises SettingsError when unreadable."""
    if environment_name in os.environ:
        return _kept(os.environ[environment_name].strip())
    if not path:
        return None
    try:
        return _kept(Path(path).read_text(encoding="ascii").strip())
    except UnicodeDecodeError as error:  # its own text would quote the file
        raise SettingsError(f"{path}: cannot read the token: it is not plain ASCII text.") from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot read the token: {error.strerror}.") from error


def _kept(token: str) -> str:
    never_show(token)
    return token


def _converted(table: Mapping[str, Any], kind: type[S], *, where: str, found: tuple[Override, ...]) -> S:
    try:
        return msgspec.convert(table, kind, strict=True)
    except msgspec.ValidationError as error:
        said = told(error, table, kind)
        raise SettingsError(f"{_place(said, found) or where}: {said}") from error


def _place(said: str, found: tuple[Override, ...]) -> str:
    """The variable that is to blame for an error, by the path in its sentence; empty where the file is."""
    path = path_in(said)
    for one in found:
        is_incomplete = "missing required field" in said and one.key.startswith(f"{path}.")
        if path and (one.key == path or path.startswith(f"{one.key}.") or is_incomplete):
            return f"environment {one.variable}"
    return ""


def _keys_of(one: Override) -> Iterator[str]:
    if isinstance(one.value, Mapping) and one.value:
        yield from flat(one.value, f"{one.key}.")
    else:
        yield one.key
