"""The journal's own export format (`journalctl -o export`, `-o verbose` is not): entries of FIELD=value lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator


def is_journal_export(text: str) -> bool:
    """Whether a text starts as an export does."""
    return text.lstrip("\n").startswith("__CURSOR=")


def entries_of(text: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Each entry with the line on which its message stands. Binary fields, which have no `=`, are passed over."""
    entry: dict[str, object] = {}
    message_line = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            if "MESSAGE" in entry:
                yield message_line, entry
            entry, message_line = {}, 0
            continue
        name, equals, value = line.partition("=")
        if equals and name.isascii() and name.replace("_", "").isalnum() and name == name.upper():
            entry[name] = value
            message_line = number if name == "MESSAGE" else message_line
    if "MESSAGE" in entry:
        yield message_line, entry
