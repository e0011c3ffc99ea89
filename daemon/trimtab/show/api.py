"""The door to Starlette: the application for people and their tools, made from the route table.

What every request goes through, in this order: the Host is ours, the caller may, the query and body are well-formed
and bounded; then the handler runs on a worker thread. Any no is `{"error": sentence}`.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as WebRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from trimtab.clock import Clock
from trimtab.errors import LedgerConflict, StoreError, TrimtabError
from trimtab.model.window import Window
from trimtab.settings import DaemonSettings
from trimtab.show.api_alerts import Alerting
from trimtab.show.api_enrolment import Enrolment
from trimtab.show.api_knock import SAFE_METHODS, authenticate, check_origin, keep_session, knock_of
from trimtab.show.api_once import refuse_twice
from trimtab.show.api_pages import page_routes
from trimtab.show.api_raw import raw_body
from trimtab.show.api_routes import ApiError, Call, People, Reply, Route, Scope
from trimtab.show.api_scraped import scraped_routes
from trimtab.show.api_slow import SlowCalls, TooBusy
from trimtab.show.api_table import ROUTES
from trimtab.show.api_types import Check, Decisions, Memory
from trimtab.show.api_types_history import PastMemory
from trimtab.show.attempts import TooManyAttempts
from trimtab.show.auth import Door, Knock
from trimtab.show.board import BoardBox, Published
from trimtab.show.digest.desk import DigestDesk
from trimtab.show.discovery import Discovery
from trimtab.show.oncall.desk import Desk
from trimtab.show.openapi import openapi_document
from trimtab.show.peers import Peers
from trimtab.show.refusals import Answer
from trimtab.show.stream import HEARTBEAT_SECONDS

COMPRESS_BYTES_MIN = 32 * 1024
ONCE_BYTES_MAX = 64 * 1024
"""Bodies of decisions, in which nothing may be said twice; a delivery of alerts is larger and decides nothing."""
_UNFIT = frozenset({400, 413, 415})

log = structlog.get_logger()


@cache
def api_document() -> bytes:
    """What /api/v1/openapi.json answers; a daemon that stands by makes it before it is needed."""
    return msgspec.json.encode(openapi_document(ROUTES))


def people_app(
    *,
    settings: DaemonSettings,
    box: BoardBox,
    decisions: Decisions,
    memory: Memory,
    door: Door,
    clock: Clock,
    checks: Callable[[], tuple[Check, ...]],
    exposition: Callable[[str], tuple[bytes, str]],
    discovery: Callable[[], Discovery] = Discovery,
    web_directory: Path | None = None,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    window: Callable[[], Window | None] | None = None,
    oncall: Desk | None = None,
    alerting: Alerting | None = None,
    past: PastMemory | None = None,
    digests: DigestDesk | None = None,
    enrolment: Enrolment | None = None,
) -> Starlette:
    """The application: API, page, events, /metrics.

    `clock` is the one that reports and commands are stamped by; `exposition` takes an Accept header and gives a body
    and its content type; `checks` says whether the daemon itself is well; `discovery` is what /sd lists.
    """
    people = People(
        cluster=settings.cluster,
        box=box,
        decisions=decisions,
        memory=memory,
        door=door,
        clock=clock,
        rule_modes=settings.issue.rules,
        notice_seconds=settings.issue.notice_seconds,
        checks=checks,
        exposition=exposition,
        heartbeat_seconds=heartbeat_seconds,
        window=window,
        oncall=oncall,
        alerting=alerting,
        past=past,
        digests=digests,
        enrolment=enrolment,
    )
    document = api_document()
    peers = Peers(settings.metrics.allow_from, key="metrics.allow_from")
    scraped = scraped_routes(door, peers, exposition=exposition, discovery=discovery)
    slow = SlowCalls()
    web = web_directory or Path(__file__).parent / "web"
    app = Starlette(
        routes=[*scraped, *(_web_route(people, route, slow) for route in ROUTES), *page_routes(people, document, web)],
        middleware=[Middleware(_SafeHeaders), Middleware(_KnownHost, door=door)],
        exception_handlers={**_HANDLERS, TrimtabError: _on_no(door)},
    )
    app.state.people, app.state.peers = people, peers  # what a reload of the settings changes
    return app


def _web_route(people: People, route: Route, slow: SlowCalls) -> WebRoute:
    async def endpoint(request: Request) -> Response:
        call = await _call(people, route, request)
        async with slow.one() if route.is_slow(call.query) else nullcontext():
            result = await run_in_threadpool(route.handler, people, call)
        return await run_in_threadpool(_answer, people, request, result)

    path = route.path.replace("{id}", "{id:id}").replace("{job}", "{job:path}")
    made = WebRoute(path, endpoint, methods=[route.method], name=route.handler.__name__)
    if made.methods:
        made.methods.discard("HEAD")
    return made


async def _call(people: People, route: Route, request: Request) -> Call:
    caller = await run_in_threadpool(authenticate, people.door, route.scope, request)
    if route.scope is Scope.OPEN and request.method not in SAFE_METHODS and "origin" in request.headers:
        check_origin(people.door, replace(caller, has_token=True), request)
    return Call(
        caller=caller,
        knock=knock_of(request),
        base_url=f"{request.url.scheme}://{request.headers.get('host', '')}",
        now=people.clock.now(),
        id=request.path_params.get("id", 0),
        name=request.path_params.get("job", ""),
        query=_query(route, request) if route.query else None,
        body=await _body(route, request) if route.body else None,
        raw=await raw_body(request, bytes_max=route.body_bytes_max) if route.is_raw else b"",
    )


def _query(route: Route, request: Request) -> Any:  # noqa: ANN401 - the route's own query type
    try:
        return msgspec.convert(dict(request.query_params), route.query, strict=False)
    except msgspec.ValidationError as error:
        raise ApiError(422, f"The query is not right: {error}") from error


async def _body(route: Route, request: Request) -> Any:  # noqa: ANN401 - the route's own body type
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > route.body_bytes_max:
            raise ApiError(413, f"The body is larger than {route.body_bytes_max} bytes.")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if raw and media_type != "application/json":
        raise ApiError(415, "Send the body as application/json.")
    try:
        body = msgspec.json.decode(bytes(raw) or b"{}", type=route.body)
    except msgspec.ValidationError as error:
        raise ApiError(422, f"The body is not right: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"The body is not JSON: {error}") from error
    if route.body_bytes_max <= ONCE_BYTES_MAX:
        refuse_twice(bytes(raw))
    return body


def _answer(people: People, request: Request, result: object) -> Response:
    if isinstance(result, Reply):
        answer = Response(msgspec.json.encode(result.value), media_type="application/json")
        keep_session(answer, result.session, door=people.door, request=request)
        return answer
    latest = people.box.latest()
    if latest is not None and result is latest.board:
        return _board_answer(request, latest)
    return _large_answer(request, msgspec.json.encode(result))


def _large_answer(request: Request, body: bytes) -> Response:
    """A board of the past, or a year of a metric, is as large as a board: packed where that is understood."""
    headers = {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", "") and len(body) >= COMPRESS_BYTES_MIN:
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body, compresslevel=1, mtime=0)
    return Response(body, media_type="application/json", headers=headers)


def _board_answer(request: Request, published: Published) -> Response:
    headers = {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", "") and len(published.json) >= COMPRESS_BYTES_MIN:
        headers["Content-Encoding"] = "gzip"
        return Response(published.gzip, media_type="application/json", headers=headers)
    return Response(published.json, media_type="application/json", headers=headers)


def _problem(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    body = msgspec.json.encode({"error": sentence})
    return Response(body, status_code=status, media_type="application/json", headers=headers)


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Starlette's own no: an unknown path or a method that the path does not have."""
    if not isinstance(error, HTTPException):
        raise error
    sentences = {
        404: f"There is nothing at {request.url.path}.",
        405: f"{request.url.path} does not take {request.method}.",
    }
    sentence = sentences.get(error.status_code, HTTPStatus(error.status_code).phrase)
    return _problem(error.status_code, sentence, dict(error.headers or {}))


def _on_no(door: Door) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Answers a no that trimtab knows; what nobody sends by mistake is counted with its peer."""

    async def on_no(request: Request, error: Exception) -> Response:
        if isinstance(error, ApiError) and error.status in _UNFIT:
            peer = door.peer(knock_of(request))
            what = f"refused {request.method} {request.url.path}"
            door.refusals.note(Answer.UNFIT, who=f"peer {peer}", what=what, why=str(error))
        return _no(error)

    return on_no


def _no(error: Exception) -> Response:
    """A sentence that trimtab knows: the API's own no, a store out of reach, or a decision that cannot be taken."""
    if isinstance(error, ApiError):
        headers = {"WWW-Authenticate": 'Bearer realm="trimtab"'} if error.status == 401 else None
        return _problem(error.status, str(error), headers)
    if isinstance(error, TooManyAttempts):
        return _problem(429, str(error), {"Retry-After": str(error.retry_after_seconds)})
    if isinstance(error, TooBusy):
        return _problem(503, str(error), {"Retry-After": str(error.retry_after_seconds)})
    is_out_of_reach = isinstance(error, StoreError) and not isinstance(error, LedgerConflict)
    return _problem(503 if is_out_of_reach else 409, str(error))


async def _on_failure(request: Request, error: Exception) -> Response:
    log.error("a request failed in a way that trimtab does not know", path=request.url.path, error=repr(error))
    return _problem(500, "The daemon failed on this request; its log says how.")


async def _on_gone(_: Request, __: Exception) -> Response:
    """Who asked went away in the middle of the body: nobody hears the answer."""
    return Response(status_code=499)


_HANDLERS = {HTTPException: _on_http_error, ClientDisconnect: _on_gone, Exception: _on_failure}

_HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
}


_FILE_HEADERS = {name: _HEADERS[name] for name in (b"x-content-type-options", b"cross-origin-resource-policy")}
"""Of scripts, styles and words: the others speak of documents, and are a fifth of what the page weighs."""


def _is_file(path: str) -> bool:
    return path.startswith("/static/") and not path.endswith((".svg", ".html"))


class _SafeHeaders:
    """Adds the security headers to every answer; what has no cache rule of its own is not to be stored."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                extra = list((_FILE_HEADERS if _is_file(scope["path"]) else _HEADERS).items())
                if b"cache-control" not in given:
                    extra.append((b"cache-control", b"no-store"))
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class _KnownHost:
    """Refuses requests under a name that is not ours, unless they carry the token (a rebound page cannot)."""

    def __init__(self, app: ASGIApp, *, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not await self._is_fine(Request(scope)):
            sentence = "This name is not one of mine (Host). Use the address that I printed, or set people.public_url."
            await run_in_threadpool(self._tell, Request(scope), sentence)
            await _problem(403, sentence)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _is_fine(self, request: Request) -> bool:
        if request.url.path in ("/healthz", "/readyz") or self._door.is_host_known(request.headers.get("host")):
            return True
        if "authorization" not in request.headers:
            return False
        return await run_in_threadpool(self._has_token, knock_of(request))

    def _tell(self, request: Request, why: str) -> None:
        who = f"peer {self._door.peer(knock_of(request))}"
        name = request.headers.get("host", "")[:100]
        what = f"refused {request.method} under another name"
        self._door.refusals.tell(Answer.OTHER_HOST, who=who, what=what, why=f"{why} Host was {name!r}.")

    def _has_token(self, knock: Knock) -> bool:
        try:
            caller = self._door.caller(knock)
        except TrimtabError:
            return False
        return caller is not None and caller.has_token
