"""JSON and YAML that people have at hand -> plain documents, bounded and without surprises."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trimtab.errors import UnreadableInput

Document = Any
"""What JSON can hold. Read it with the functions below, which never raise on a wrong shape."""

DOCUMENTS_MAX = 200_000


def load_json(text: str) -> list[Document]:
    """One JSON document, or several one after another. Raises UnreadableInput."""
    decoder = json.JSONDecoder()
    found: list[Document] = []
    position = _skip_blank(text, 0)
    try:
        while position < len(text):
            document, position = decoder.raw_decode(text, position)
            found.append(document)
            position = _skip_blank(text, position)
    except (ValueError, RecursionError) as error:
        what = "too deeply nested" if isinstance(error, RecursionError) else str(error)
        raise UnreadableInput(f"looks like JSON but is broken: {what}. Is the file whole?") from error
    return found


def _skip_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n,":
        position += 1
    return position


def load_yaml(text: str) -> list[Document]:
    """All documents of a YAML text. Raises UnreadableInput, also where the YAML reader is not installed."""
    try:
        import yaml  # noqa: PLC0415 - an extra of its own: a node does not need it
    except ImportError as error:
        raise UnreadableInput(
            "YAML needs one more package: pip install 'trimtab[inspect]'. Or give JSON: kubectl get … -o json"
        ) from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return [document for document in yaml.load_all(text, Loader=loader) if document is not None]  # a safe loader
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UnreadableInput(f"looks like YAML but is broken: {reason}") from error


def objects_of(documents: list[Document]) -> Iterator[Mapping[str, Document]]:
    """Kubernetes objects, those inside a List one by one."""
    for document in documents[:DOCUMENTS_MAX]:
        table = table_of(document)
        items = table.get("items")
        if str(table.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from (item for item in items[:DOCUMENTS_MAX] if isinstance(item, Mapping))
        elif table:
            yield table


def table_of(value: Document) -> Mapping[str, Document]:
    """The value as a table; an empty one where it is none."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: Document) -> list[Document]:
    """The value as a list; an empty one where it is none."""
    return value if isinstance(value, list) else []


def tables_of(value: Document) -> list[Mapping[str, Document]]:
    """The tables of a list."""
    return [item for item in list_of(value) if isinstance(item, Mapping)]


def at(document: Document, *path: str) -> Document:
    """The value down a path of tables; None where it ends early."""
    for key in path:
        document = table_of(document).get(key)
    return document


def text_at(document: Document, *path: str) -> str | None:
    """The text down a path; numbers and booleans as text, None for anything else and for an empty text."""
    value = at(document, *path)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) and value != "" else None


def labels_of(document: Document, *path: str) -> dict[str, str]:
    """A table of texts, as labels and annotations are."""
    return {str(key): str(value) for key, value in table_of(at(document, *path)).items() if value is not None}


_FACTORS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def quantity(value: Document) -> float | None:
    """A Kubernetes quantity (`16Gi`, `100m`, 8) as a number in base units; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    text = str(value).strip()
    digits = text.rstrip("KMGTPEkmi")
    factor = _FACTORS.get(text[len(digits) :])
    try:
        found = float(digits) * factor if factor is not None else None
    except ValueError:
        return None
    return found if found is not None and abs(found) < 1e24 else None


def whole(value: Document) -> int | None:
    """A quantity that must be a whole number, such as GPUs."""
    found = quantity(value)
    return int(found) if found is not None and found == int(found) else None
