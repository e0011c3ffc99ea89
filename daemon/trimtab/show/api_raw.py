"""Reads a request's body as it came: what is signed is checked byte by byte."""

from __future__ import annotations

from starlette.requests import Request

from trimtab.show.api_routes import ApiError


async def raw_body(request: Request, *, bytes_max: int) -> bytes:
    """The whole body. ApiError 413 when it is larger than that."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > bytes_max:
            raise ApiError(413, f"The body is larger than {bytes_max} bytes.")
    return bytes(raw)
