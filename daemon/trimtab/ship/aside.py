"""Reports that the daemon refused for good (400, 413, 422): kept for a person, bounded, not retried."""

from __future__ import annotations

from pathlib import Path

from trimtab.durable import write_whole

FILES_MAX = 1000


class Aside:
    """A directory of refused reports, the oldest making room for the newest."""

    def __init__(self, directory: Path, bytes_max: int) -> None:
        """`bytes_max` bounds what is kept; the newest report is kept whatever its size."""
        self._directory = directory
        self._bytes_max = bytes_max

    def keep(self, name: str, packed: bytes, sentence: str) -> None:
        """Keep one report (msgpack in zstd) with the daemon's sentence about it. Raises OSError."""
        self._directory.mkdir(exist_ok=True)
        write_whole(self._directory / f"{name}.txt", (sentence + "\n").encode())
        write_whole(self._directory / f"{name}.msgpack.zst", packed)
        self._make_room()

    def _make_room(self) -> None:
        kept = sorted(self._directory.glob("*.msgpack.zst"), key=lambda path: path.stat().st_mtime_ns)
        size_bytes = sum(path.stat().st_size for path in kept)
        while len(kept) > 1 and (len(kept) > FILES_MAX or size_bytes > self._bytes_max):
            oldest = kept.pop(0)
            size_bytes -= oldest.stat().st_size
            oldest.unlink()
            oldest.with_name(oldest.name.removesuffix(".msgpack.zst") + ".txt").unlink(missing_ok=True)
