"""PCI addresses in all spellings of one GPU, brought to one canonical key; used by every reader of text."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"^(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,4}):([0-9a-fA-F]{2})(?:\.([0-7]))?$")
_PREFIX = re.compile(r"^(?:GPU\s*)?(?:PCI:)?", re.IGNORECASE)


def canonical_pci(text: str) -> str | None:
    """`0000:3b:00.0` for any spelling of a possible address; None for a redacted or impossible one.

    The function is dropped. Two parts are bus and device: old drivers print no domain.
    """
    found = _ADDRESS.match(_PREFIX.sub("", text.strip()))
    if found is None:
        return None
    domain, bus, device = int(found[1] or "0", 16), int(found[2], 16), int(found[3], 16)
    if bus > 0xFF or device > 0x1F:
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"
