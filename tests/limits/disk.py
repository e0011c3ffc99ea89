"""A small disk of its own for a test: it can be full, fail as a broken one does, and be mended."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NEEDS = "needs root and loop devices: run the tests as root (in a container: --privileged)"


class Disk:
    """An ext4 file system in a file, mounted at `path`; without a journal, so that nothing heals by itself."""

    def __init__(self, path: Path, *, megabytes: int) -> None:
        self.path = path
        self._image = path.with_name(f"{path.name}.img")
        self._ballast = path / "something-else"
        path.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as image:
            image.truncate(megabytes * 1024 * 1024)
        if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
            pytest.skip(NEEDS)
        _run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=0", str(self._image))
        try:
            self._mount()
        except subprocess.CalledProcessError:
            pytest.skip(NEEDS)

    def fill(self, *, but_bytes: int = 0) -> int:
        """Something else takes all that is free; how many bytes."""
        free_bytes = shutil.disk_usage(self.path).free - but_bytes
        taken = 0
        with self._ballast.open("ab", buffering=0) as file:
            piece = b"\0" * 65536
            while taken < free_bytes and len(piece) >= 512:
                try:
                    taken += file.write(piece[: free_bytes - taken])
                except OSError:
                    piece = piece[: len(piece) // 2]
        return taken

    def make_room(self) -> None:
        """That something else is gone."""
        self._ballast.unlink(missing_ok=True)

    def fail(self) -> None:
        """The kernel meets an error in it and turns it read-only, under the feet of whoever has files open."""
        device = Path(_run("findmnt", "-no", "SOURCE", str(self.path)).strip()).name
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("a test breaks it\n", encoding="ascii")

    def mend(self) -> None:
        """As an operator does it: off, checked, and on again."""
        _run("umount", "-l", str(self.path))
        subprocess.run(["fsck.ext4", "-y", str(self._image)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       check=False)  # fmt: skip
        self._mount()

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.path)], stderr=subprocess.DEVNULL, check=False)
        self._image.unlink(missing_ok=True)

    def _mount(self) -> None:
        _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.path))


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
