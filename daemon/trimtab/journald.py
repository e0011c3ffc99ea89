"""The one door to journald: whether our standard error is the journal, and one entry with fields of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

STREAM = "JOURNAL_STREAM"
_VALUE_CHARS_MAX = 8192
"""Of one field; a journal entry is for finding things, the database keeps them whole."""


def is_stderr_the_journal(environment: Mapping[str, str] | None = None) -> bool:
    """Whether systemd has tied our standard error to the journal: its device and inode are those of $JOURNAL_STREAM."""
    named = (os.environ if environment is None else environment).get(STREAM, "")
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return named == f"{status.st_dev}:{status.st_ino}"


def write_entry(fields: Mapping[str, str]) -> bool:
    """One entry by the native protocol, in which a value cannot end its field; false when the journal is not there."""
    from cysystemd.journal import send  # noqa: PLC0415 - 6 MB that only systemd's services need

    try:
        send(**{name: _bounded(value) for name, value in fields.items()})
    except (OSError, RuntimeError, ValueError):
        return False
    return True


def _bounded(value: str) -> str:
    left = len(value) - _VALUE_CHARS_MAX
    return value if left <= 0 else f"{value[:_VALUE_CHARS_MAX]}… ({left} characters more)"
