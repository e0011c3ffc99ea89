"""The one door to zstd: the standard library's module (3.14) or its backport, with bounded decompression."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd as _zstd
else:
    from backports import zstd as _zstd

LEVEL = 3
WINDOW_LOG_MAX = 23
"""8 MiB: the largest window that RFC 9659 allows for a content encoding; a larger one is a way to eat our memory."""


class FrameDamaged(ValueError):
    """The bytes are no whole zstd frame."""


class FrameTooLarge(ValueError):
    """The frame holds more, or needs a larger window, than we accept."""


def compress(data: bytes) -> bytes:
    """One zstd frame."""
    return _zstd.compress(data, LEVEL)


def expand(data: bytes, *, bytes_max: int) -> bytes:
    """What one frame holds, never more than `bytes_max` in memory. Raises FrameDamaged or FrameTooLarge."""
    decompressor = _zstd.ZstdDecompressor(options={_zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX})
    try:
        held = decompressor.decompress(data, max_length=bytes_max + 1)
    except _zstd.ZstdError as error:
        # zstd has no error code at this door, only its text, for a window beyond the bound.
        kind = FrameTooLarge if "too much memory" in str(error) else FrameDamaged
        raise kind(str(error)) from error
    if len(held) > bytes_max:
        raise FrameTooLarge(f"it holds more than {bytes_max} bytes")
    if not decompressor.eof:
        raise FrameDamaged("the frame ends too early")
    if decompressor.unused_data:
        # Many tiny frames in one body would cost a decompressor each; nobody needs them.
        raise FrameDamaged("there are bytes behind the frame; send one frame")
    return held
