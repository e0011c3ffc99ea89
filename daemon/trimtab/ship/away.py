"""The listener for agents while this daemon stands by: 503 at once, so that they go to the next of `daemon_urls`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

STANDS_BY = "This daemon stands by and takes no reports: another one is active. Ask the next of daemon_urls."
RETRY_AFTER_SECONDS = (1, 3)
"""Short, since the other may have just died; drawn at random so that agents do not come back together."""
BODY_BYTES_MAX = 4 * 1024 * 1024
BODY_SECONDS_MAX = 5.0


def away_app(*, why_not_well: Callable[[], str]) -> Callable[[Scope, Receive, Send], object]:
    """The application. /healthz is well while the process gets on; /readyz says that reports are not taken here."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        answer = await _answer(request, why_not_well())
        await answer(scope, receive, send)

    return app


async def _answer(request: Request, why_not_well: str) -> Response:
    if request.url.path == "/healthz":
        return JSONResponse({"ok": not why_not_well, "role": "standby"}, 503 if why_not_well else 200)
    if request.url.path != "/readyz":
        await _read_away(request)
    wait_seconds = random.randint(*RETRY_AFTER_SECONDS)
    return JSONResponse({"error": STANDS_BY, "role": "standby"}, 503, {"Retry-After": str(wait_seconds)})


async def _read_away(request: Request) -> None:
    """A client that is still sending would see a broken connection instead of the answer."""
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(BODY_SECONDS_MAX):
            read_bytes = 0
            async for chunk in request.stream():
                read_bytes += len(chunk)
                if read_bytes > BODY_BYTES_MAX:
                    return
