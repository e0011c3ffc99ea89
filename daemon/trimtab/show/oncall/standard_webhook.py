"""Standard Webhooks: keys, the signature that goes out, and whether one that came in is good."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

from trimtab.errors import SettingsError

PREFIX = "whsec_"
KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64
TOLERANCE_SECONDS = 300
"""Older than this, or further ahead, is a replay or a clock that is off."""


def key_bytes(key: str, *, of: str) -> bytes:
    """The key behind `whsec_...`. Raises SettingsError, which does not show it."""
    fix = f"{of}: a key is {PREFIX} and base64 of {KEY_BYTES_MIN} to {KEY_BYTES_MAX} random bytes"
    try:
        text = key.removeprefix(PREFIX)
        raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError(f"{fix}; this one is not base64.") from None
    if not KEY_BYTES_MIN <= len(raw) <= KEY_BYTES_MAX:
        raise SettingsError(f"{fix}; this one has {len(raw)}.")
    return raw


def signature(key: bytes, *, id: str, timestamp_seconds: int, body: bytes) -> str:
    """`v1,...` of one attempt."""
    said = f"{id}.{timestamp_seconds}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()


def headers(keys: Iterable[bytes], *, id: str, timestamp_seconds: int, body: bytes) -> dict[str, str]:
    """The three headers, signed by every key: the receiver may hold any one of them."""
    signed = (signature(key, id=id, timestamp_seconds=timestamp_seconds, body=body) for key in keys)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp_seconds),
        "webhook-signature": " ".join(signed),
    }
