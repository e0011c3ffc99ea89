"""Secrets that systemd hands over: `credential:NAME` in any `*_file` setting is a file of $CREDENTIALS_DIRECTORY."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab.errors import SettingsError

SCHEME = "credential:"
DIRECTORY = "CREDENTIALS_DIRECTORY"
FOLDER_PREFIX = "credentials_"
"""What `LoadCredential=credentials:/etc/trimtab/credentials.d` puts before the names of that folder's files."""
USED_ONCE = frozenset({"join_token_file"})
"""Keys whose credential is used once and gone afterwards, as it should be."""
STORED = Path("/etc/trimtab/credentials.d")
"""Where the units take them from, readable by root alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A settings table whose credentials are files; `of` says for each such key which credential it was."""

    table: dict[str, Any]
    of: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    """Keys whose credential is not here, each with the sentence."""


def resolved(table: Mapping[str, Any], environment: Mapping[str, str]) -> Resolved:
    """Every `*_file` key that names a credential, as the file that holds it. What is not there is left as it is."""
    directory = environment.get(DIRECTORY, "")
    of: dict[str, str] = {}
    missing: dict[str, str] = {}

    def seen(value: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - a table as TOML has it
        if isinstance(value, Mapping):
            return {name: seen(inner, (*path, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [seen(inner, (*path, str(index))) for index, inner in enumerate(value)]
        if not isinstance(value, str) or not path[-1].endswith("_file"):
            return value
        key = ".".join(path)
        found = _find(value, directory)
        if found is not None:
            of[key] = found.name.removeprefix(FOLDER_PREFIX)
            return str(found)
        if value.startswith(SCHEME):
            missing[key] = _why_missing(value.removeprefix(SCHEME), directory)
        return value

    return Resolved(table=seen(table, ()), of=of, missing=missing)


def require(missing: Mapping[str, str], *, where: str) -> None:
    """Whoever starts needs all of them. Raises SettingsError for the first that is not here."""
    for key, sentence in missing.items():
        if key not in USED_ONCE:
            raise SettingsError(f"{where}: {key}: {sentence}")


def stored(name: str) -> bool | None:
    """Whether the folder that the units hand over has such a file; None where this user may not look."""
    try:
        return (STORED / name).is_file() if any(True for _ in STORED.iterdir()) else False
    except PermissionError:
        return None
    except OSError:
        return False


def _find(value: str, directory: str) -> Path | None:
    """The file of a credential: by its scheme, or a bare name that is one."""
    name = value.removeprefix(SCHEME)
    if not directory or not name or "/" in name or name in (".", ".."):
        return None
    for candidate in (Path(directory) / name, Path(directory) / f"{FOLDER_PREFIX}{name}"):
        if candidate.is_file():
            return candidate
    return None


def _why_missing(name: str, directory: str) -> str:
    if not name or "/" in name or name in (".", ".."):
        return f"{SCHEME}{name} names no credential: it is a name without a folder, such as {SCHEME}node-token."
    if not directory:
        return (
            f"{SCHEME}{name} is handed over by systemd, and ${DIRECTORY} is not set here. Start the unit, or give the "
            f"path of a file; the units read {STORED}/{name}."
        )
    names = sorted(_names(Path(directory)))
    near = difflib.get_close_matches(name, names, n=1)
    there = f" Did you mean {SCHEME}{near[0]}?" if near else f" There are: {', '.join(names) or 'none'}."
    return f"systemd handed over no credential {name!r}.{there} Put it in {STORED}/{name} and restart the unit."


def _names(directory: Path) -> Iterator[str]:
    try:
        yield from (one.name.removeprefix(FOLDER_PREFIX) for one in directory.iterdir() if one.is_file())
    except OSError:
        return
