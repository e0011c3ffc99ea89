"""Text as both engines can keep it, and values as JSON."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

from trimtab.errors import StoreError

T = TypeVar("T")


@overload
def clean(text: str) -> str: ...
@overload
def clean(text: None) -> None: ...
def clean(text: str | None) -> str | None:
    """The text without what PostgreSQL cannot keep: NUL (kernel lines hold some) and halves of surrogate pairs."""
    if text is None or text.isascii():
        return text if text is None else text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def to_json(value: Any) -> str:  # noqa: ANN401 - any value of the model
    """A model value as the `body` of a row."""
    return msgspec.json.encode(value).decode()


def from_json(body: str, kind: type[T]) -> T:
    """The model value of a row's `body`. Raises StoreError that names what was read."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise StoreError(f"a stored {kind.__name__} cannot be read: {error}. Was it changed by hand?") from error
