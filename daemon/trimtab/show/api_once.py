"""What a request may say once: a body that names a thing twice is read in two ways, and a path's number has an end."""

from __future__ import annotations

import json

from starlette.convertors import IntegerConvertor, register_url_convertor

from trimtab.show.api_routes import ApiError


class IdConvertor(IntegerConvertor):
    """A number in a path, no longer than 64 bits can be; a longer one is no path of ours."""

    regex = "[0-9]{1,19}"


register_url_convertor("id", IdConvertor())


def refuse_twice(raw: bytes) -> None:
    """ApiError 400 where an object of the body has a key twice; it must be JSON already."""
    try:
        json.loads(raw or b"{}", object_pairs_hook=_once)
    except _Twice as twice:
        raise ApiError(400, f"The body says `{twice}` twice. Nothing was done.") from twice
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The body is not JSON: {error}") from error


class _Twice(Exception):
    """The key."""


def _once(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _Twice(key[:64])
        seen.add(key)
