"""Small questions and answers that every build of a package needs: programs, times, modes, sums."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
EPOCH_FALLBACK = "1767225600"
"""2026-01-01, where the source is no git checkout."""


def run(*line: str | Path, is_checked: bool = True, more: Mapping[str, str] | None = None) -> str:
    """What a program says on its standard output. Ends the build with its command line where it fails."""
    words = [str(one) for one in line]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **(more or {})}, stdout=subprocess.PIPE, text=True, check=False
    )
    if is_checked and done.returncode:
        raise SystemExit(f"{words[0]} failed ({done.returncode}): {' '.join(words)}")
    return done.stdout


def epoch() -> int:
    """The time that everything in a package bears: SOURCE_DATE_EPOCH, else that of the last commit."""
    said = os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", is_checked=False).strip()
    return int(said or EPOCH_FALLBACK)


def version() -> str:
    """Trimtab's own version."""
    found = re.search(r'__version__ = "([^"]+)"', (ROOT / "daemon/trimtab/__init__.py").read_text())
    assert found is not None
    return found[1]


def sha256(path: Path) -> str:
    """A file's sum, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def put(source: Path, target: Path, *, is_program: bool = False) -> None:
    """Copy one file, with the mode that it is to have wherever it was built."""
    write(target, source.read_bytes(), is_program=is_program)


def write(path: Path, text: str | bytes, *, is_program: bool = False) -> None:
    """Make one file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(0o755 if is_program else 0o644)


def pressed(text: str | bytes) -> bytes:
    """The text by gzip, without a time or a name."""
    return gzip.compress(text.encode() if isinstance(text, str) else text, compresslevel=9, mtime=0)


def settle(folder: Path) -> None:
    """One time and one of two modes for everything, whatever the builder's clock and umask were."""
    moment = epoch()
    folder.chmod(0o755)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            is_open = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_open else 0o644)
        os.utime(path, (moment, moment), follow_symlinks=False)
