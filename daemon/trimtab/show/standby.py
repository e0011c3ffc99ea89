"""The listener for people while this daemon stands by: who is active and where, for a browser, a verb and a scraper."""

from __future__ import annotations

import hmac
import html
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import Receive, Scope, Send

from trimtab.clock import iso
from trimtab.outbound import is_loopback
from trimtab.show.metrics_facts import PairFacts
from trimtab.show.peers import Peers

RETRY_AFTER_SECONDS = 2
_HEADERS = {
    "Retry-After": str(RETRY_AFTER_SECONDS),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
}


def standby_app(
    *,
    facts: Callable[[], PairFacts],
    exposition: Callable[[str], tuple[bytes, str]],
    metrics_token: str | None,
    allowed: Peers,
    why_not_well: Callable[[], str],
) -> Callable[[Scope, Receive, Send], object]:
    """The application. /healthz is well while the process gets on; /readyz and all else say who is active."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        await _answer(request)(scope, receive, send)

    def _answer(request: Request) -> Response:
        why, path = why_not_well(), request.url.path
        if path == "/healthz":
            return JSONResponse(
                {"status": "hung" if why else "standby", "board_age_seconds": None}, 503 if why else 200, _HEADERS
            )
        if path == "/metrics":
            return _metrics(request, exposition, metrics_token, allowed)
        said = facts()
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(_page(said), 503, _HEADERS)
        return JSONResponse({"error": sentence(said), "active_url": said.active_url}, 503, _HEADERS)

    return app


def sentence(facts: PairFacts) -> str:
    """Who is active and where."""
    if not facts.active_name:
        return f"This daemon ({facts.name}) stands by. It does not know yet which one is active."
    since = f" since {iso(facts.since)}" if facts.since is not None else ""
    where = f": {facts.active_url}" if facts.active_url else ""
    return f"This daemon ({facts.name}) stands by. {facts.active_name} is active{since}{where}"


def _page(facts: PairFacts) -> str:
    name, url = html.escape(facts.active_name), html.escape(facts.active_url, quote=True)
    is_link = facts.active_url.startswith(("http://", "https://"))
    link = f'<p><a href="{url}" rel="noreferrer">Open the page of {name}</a></p>' if is_link else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>trimtab: stands by</title>'
        '<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5">'
        "<style>body{font:16px/1.5 system-ui,sans-serif;margin:3rem auto;max-width:40rem;padding:0 1rem}</style></head>"
        f"<body><h1>This daemon stands by</h1><p>{html.escape(sentence(facts))}</p>{link}"
        "<p>It takes over by itself when the other is gone; this page looks again every 5 s.</p></body></html>"
    )


def _metrics(
    request: Request, exposition: Callable[[str], tuple[bytes, str]], token: str | None, allowed: Peers
) -> Response:
    host = request.client.host if request.client is not None else ""
    given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    is_known = hmac.compare_digest(given.encode(), token.encode()) if token else is_loopback(host)
    if not is_known and host not in allowed:
        said = "Send the metrics token: `Authorization: Bearer …` (people.metrics_token_file)."
        return JSONResponse({"error": said}, 401, {"WWW-Authenticate": "Bearer"})
    body, content_type = exposition(request.headers.get("accept", ""))
    return Response(body, 200, {"Content-Type": content_type})
