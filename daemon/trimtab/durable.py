"""Files that are whole after a crash: the old content or the new, never a part."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def write_whole(path: Path, content: bytes, *, mode: int = 0o640, owner: tuple[int, int] | None = None) -> None:
    """Replace a file in one step, on disk when this returns; until then nobody else can read it.

    `owner` is user and group id. Raises OSError.
    """
    beside = path.with_name(path.name + ".new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        os.fchmod(file.fileno(), mode)
        if owner is not None:
            os.fchown(file.fileno(), *owner)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(path.parent)


def free_bytes(directory: Path) -> int | None:
    """What is left on the disk of a directory; None where that cannot be asked."""
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None


def sync_directory(directory: Path) -> None:
    """Make new and removed names in a directory last through a power cut."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
