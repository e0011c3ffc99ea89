"""Puts files in place and takes them away again; knows by a manifest which are ours, and leaves all others alone."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from trimtab.errors import SettingsError
from trimtab.setup.asked import Asked

MANIFEST = "var/lib/trimtab-setup/manifest.json"
MODE = 0o644
"""Readable by the programs that they are for: no file of ours holds a secret."""


class Act(StrEnum):
    """What became of one file."""

    MADE = "made"
    CHANGED = "changed"
    KEPT = "kept"
    REMOVED = "removed"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file, what was done with it, and why where that is not plain."""

    path: str
    act: Act
    why: str = ""


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """What we wrote: path (from the root) -> SHA-256 of the text as we left it; the folders that we made; what for."""

    version: int = 1
    files: dict[str, str] = {}
    folders: list[str] = []
    asked: Asked = Asked()


class Ground:
    """A root with files in it; changes are done at once, or only told when `is_dry`."""

    def __init__(self, root: Path, *, is_dry: bool = False) -> None:
        """Read the manifest. Raises SettingsError when it is no manifest of ours."""
        self.root = root.resolve()
        self._is_dry = is_dry
        self._path = self.root / MANIFEST
        self._manifest = self._read()

    @property
    def asked(self) -> Asked:
        """What a person asked for, now or before."""
        return self._manifest.asked

    def ask(self, asked: Asked) -> None:
        """Keep from now on what a person asks for; written with the files."""
        self._manifest.asked = asked

    def has(self, path: str) -> bool:
        """Whether something is there."""
        return (self.root / path).exists()

    def text(self, path: str) -> str:
        """A file's text; empty where it is not there. Raises SettingsError when it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{self.root / path}: {error}. Run it as root.") from error

    def place(self, wanted: Mapping[str, str]) -> Sequence[Change]:
        """Make these files, and take away what an earlier run made and is no longer wanted."""
        changes = [self._place(path, text) for path, text in wanted.items()]
        gone = [path for path in self._manifest.files if path not in wanted]
        changes += [self._remove(path, why="no longer needed") for path in sorted(gone)]
        self._write_manifest()
        return changes

    def remove_all(self) -> Sequence[Change]:
        """Take away all that is ours, and the folders that we made and that are empty."""
        changes = [self._remove(path) for path in sorted(self._manifest.files)]
        self.ask(Asked())
        self._remove_folders()
        self._write_manifest()
        return changes

    # --- one file

    def _place(self, path: str, text: str) -> Change:
        full = self.root / path
        why_not = self._why_not(path)
        if why_not:
            return Change(path=path, act=Act.LEFT, why=why_not)
        is_new, before = not full.exists(), self.text(path)
        if not is_new and before == text:  # also after a crash between the file and the manifest
            self._manifest.files[path] = _sha256(text)
            return Change(path=path, act=Act.KEPT)
        if not is_new and path not in self._manifest.files:
            return Change(path=path, act=Act.LEFT, why="not made by trimtab; move it away to get ours")
        if not is_new and _sha256(before) != self._manifest.files[path]:
            return Change(path=path, act=Act.LEFT, why="edited since; move it away to get ours")
        self._write(full, text)
        self._manifest.files[path] = _sha256(text)
        return Change(path=path, act=Act.MADE if is_new else Act.CHANGED)

    def _remove(self, path: str, *, why: str = "") -> Change:
        full, expected = self.root / path, self._manifest.files[path]
        is_edited = full.exists() and (self._why_not(path) or _sha256(self.text(path)) != expected)
        if not self._is_dry:
            del self._manifest.files[path]
        if is_edited:
            return Change(path=path, act=Act.LEFT, why="edited since; it is yours now")
        if not self._is_dry:
            with suppress(FileNotFoundError):
                full.unlink()
        return Change(path=path, act=Act.REMOVED, why=why)

    def _why_not(self, path: str) -> str:
        """Why this path is not ours to write: a link, or one that leads out of the root."""
        full = self.root / path
        if full.is_symlink():
            return "a symbolic link; trimtab does not write through it"
        if not full.parent.resolve().is_relative_to(self.root):
            return f"its folder leads out of {self.root}"
        return "" if not full.exists() or full.is_file() else "not a file"

    def _write(self, full: Path, text: str) -> None:
        if self._is_dry:
            return
        try:
            self._make_folders(full.parent)
            _write_whole(full, text)
        except OSError as error:
            raise SettingsError(f"{full}: {error.strerror}. Run it as root, or give --root.") from error

    # --- folders and the manifest

    def _make_folders(self, folder: Path) -> None:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for one in missing:
            one.chmod(0o755)  # whatever our umask is, other programs go through here
            name = str(one.relative_to(self.root))
            if name not in self._manifest.folders:
                self._manifest.folders.append(name)

    def _remove_folders(self) -> None:
        if self._is_dry:
            return
        for name in sorted(self._manifest.folders, key=len, reverse=True):
            with suppress(OSError):  # something of somebody's is in it, or it is gone
                (self.root / name).rmdir()
        self._manifest.folders = [name for name in self._manifest.folders if (self.root / name).exists()]

    def _read(self) -> _Manifest:
        if not self._path.exists():
            return _Manifest()
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Manifest)
        except (OSError, msgspec.DecodeError) as error:
            raise SettingsError(
                f"{self._path}: {error}. It says which files are ours; move it away, and all are left as they are."
            ) from error

    def _write_manifest(self) -> None:
        if self._is_dry:
            return
        if not self._manifest.files and self.asked == Asked():
            self._path.unlink(missing_ok=True)
            self._remove_folders()
            return
        try:
            self._make_folders(self._path.parent)
            _write_whole(self._path, msgspec.json.format(msgspec.json.encode(self._manifest)).decode() + "\n")
        except OSError as error:
            raise SettingsError(f"{self._path}: {error.strerror}. Run it as root, or give --root.") from error


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write_whole(path: Path, text: str) -> None:
    """The whole file or the one before it, whatever happens meanwhile."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=".trimtab-", suffix=".tmp")
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), MODE)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
