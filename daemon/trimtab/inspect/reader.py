"""Tells what kind a file is and has it read: the one entry to this root. Bounded, and never an exception but ours."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import BinaryIO

from trimtab.collect.documents import Document, load_json, load_yaml
from trimtab.collect.exposition import is_exposition
from trimtab.errors import UnreadableInput
from trimtab.inspect import alerting, smi
from trimtab.inspect.cluster import is_kubernetes, read_cluster
from trimtab.inspect.inspection import Inspection
from trimtab.inspect.logs import is_log, read_log, read_log_stream
from trimtab.inspect.pages import read_pages

WHOLE_BYTES_MAX = 8 * 1024 * 1024
"""A log up to this size is read whole, line for line; a larger one in a stream."""
BYTES_MAX = 64 * 1024 * 1024
"""Anything but a log must be smaller than this."""
KINDS = (
    "a metrics page (dcgm-exporter and others), a kernel log (dmesg, syslog, journalctl -k -o json|export, /dev/kmsg), "
    "nvidia-smi output (-q, -q -x, the table, --query-gpu CSV, topo -m, nvlink), kubectl get … -o json|yaml, "
    "alerts, rules and dashboards"
)
_MAGIC = {
    b"\x1f\x8b": "is gzip: unpack it first (zcat FILE | trimtab inspect -)",
    b"\x28\xb5\x2f\xfd": "is zstd: unpack it first (zstdcat FILE | trimtab inspect -)",
    b"BZh": "is bzip2: unpack it first (bzcat FILE | trimtab inspect -)",
    b"\xfd7zXZ": "is xz: unpack it first (xzcat FILE | trimtab inspect -)",
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"LPKSHHRH": "is a binary journal: give its text (journalctl -k -o json --file FILE | trimtab inspect -)",
    b"SQLite format 3": "is an SQLite database",
    b"\x7fELF": "is a program",
}
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def inspect_stream(stream: BinaryIO, *, now: datetime) -> Inspection:
    """Read what a file or a pipe holds. Raises UnreadableInput with a sentence that follows the file's name."""
    head = _read(stream, WHOLE_BYTES_MAX + 1)
    if len(head) <= WHOLE_BYTES_MAX:
        return inspect_text(decoded(head), now=now)
    text = decoded(head[:WHOLE_BYTES_MAX])
    if _is_log_only(text):
        return read_log_stream(_lines(head, stream), now=now)
    rest = _read(stream, BYTES_MAX - len(head) + 1)
    if len(head) + len(rest) > BYTES_MAX:
        raise UnreadableInput(f"is larger than {BYTES_MAX >> 20} MiB, and only logs may be. Give a part of it")
    return inspect_text(decoded(head + rest), now=now)


def _read(stream: BinaryIO, size: int) -> bytes:
    """As many bytes as there are, up to `size`; a pipe gives fewer at a time."""
    parts, left = [], size
    while left > 0:
        part = stream.read(left)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _lines(head: bytes, stream: BinaryIO) -> Iterator[str]:
    """Lines of what was read and of what follows; a line longer than any real one is cut."""
    pending = b""
    block = head
    while block:
        lines = (pending + block).split(b"\n")
        pending = lines.pop()[:65536]
        yield from (line[:65536].decode("utf-8", "replace") for line in lines)
        block = stream.read(1024 * 1024)
    if pending:
        yield pending.decode("utf-8", "replace")


def decoded(data: bytes) -> str:
    """The text of a file. Raises UnreadableInput for what is no text."""
    if not data.strip():
        raise UnreadableInput("is empty")
    for magic, sentence in _MAGIC.items():
        if data.startswith(magic):
            raise UnreadableInput(sentence)
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")
    text = data.decode(encoding, "replace").lstrip("\ufeff")
    sample = text[:65536]
    strange = sum(letter == "\ufffd" or (letter < " " and letter not in "\t\n\r\x1b\f\b") for letter in sample)
    if strange > max(len(sample) // 20, 8):
        raise UnreadableInput("is not text. Known are: " + KINDS)
    return text.replace("\r\n", "\n").replace("\x00", "")


def inspect_text(text: str, *, now: datetime) -> Inspection:
    """Read one text. Raises UnreadableInput."""
    if not text.strip():
        raise UnreadableInput("is empty")
    smi_reader = smi.reader_of(text)
    if smi_reader is not None:
        return smi_reader(text, now)
    if is_exposition(text):
        return read_pages(text, now=now)
    documents_reader = _documents_reader(text, now)
    if documents_reader is not None:
        return documents_reader()
    if is_log(text):
        return read_log(text, now=now)
    raise UnreadableInput(f"is nothing that trimtab knows{_hint(text)}. Known are: {KINDS}")


def _is_log_only(text: str) -> bool:
    return smi.reader_of(text) is None and not is_exposition(text) and not _looks_like_document(text) and is_log(text)


def _looks_like_document(text: str) -> bool:
    start = text.lstrip()[:1]
    return (start == "[" and not text.lstrip().startswith("[ ") and _is_json_list(text)) or (
        start == "{" and '"MESSAGE"' not in text.split("\n", 1)[0]
    )


def _is_json_list(text: str) -> bool:
    """`[` opens both a JSON list and a dmesg stamp."""
    after = text.lstrip()[1:].lstrip()[:1]
    return after in ("{", "[", "]", '"')


def _documents_reader(text: str, now: datetime) -> Callable[[], Inspection] | None:
    """The reader for JSON or YAML documents; None where the text is neither, or a journal in JSON lines."""
    if _looks_like_document(text):
        return lambda: _read_documents(load_json(text), now)
    if _looks_like_yaml(text):
        return lambda: _read_documents(load_yaml(text), now)
    return None


def _looks_like_yaml(text: str) -> bool:
    marks = ("apiVersion:", "kind:", "groups:", "datasources:", "items:", "receivers:", "alerts:")
    lines = [line for line in text[:20000].splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return any(line.startswith(marks) for line in lines[:40])


def _read_documents(documents: Sequence[Document], now: datetime) -> Inspection:
    reader = alerting.reader_of(documents)
    if reader is not None:
        return reader()
    if is_kubernetes(documents):
        return read_cluster(documents, now=now)
    raise UnreadableInput(f"is JSON or YAML of a kind that trimtab does not know. Known are: {KINDS}")


def _hint(text: str) -> str:
    first = text.lstrip()[:200]
    if first.startswith("NAME ") or first.startswith("NAMESPACE "):
        return ": it looks like kubectl's table; give -o json"
    if first.startswith(("<!DOCTYPE html", "<html")):
        return ": it is a web page; save the exporter's /metrics itself"
    return ""


def inspect_bytes(data: bytes, *, now: datetime) -> Inspection:
    """Read what was already in memory."""
    return inspect_stream(io.BytesIO(data), now=now)
