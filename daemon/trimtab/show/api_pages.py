"""Routes that do not answer in JSON: the page and its files, the one-time link, the events stream."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route as WebRoute

from trimtab.show.api_knock import SIGN_IN, check_reader, is_welcome, keep_session, knock_of
from trimtab.show.api_routes import ApiError, People
from trimtab.show.deltas import Deltas, changes
from trimtab.show.stream import STREAMS_MAX, board_events, zipped

PAGE_PATHS = (
    "/",
    "/r/{id}",
    "/f/{id}",
    "/node/{name}",
    "/job/{id:path}",
    "/queue/{name:path}",
    "/incidents",
    "/queues",
)
"""All of them are the one page, which reads the address itself."""

MEDIA_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".ftl": "text/plain; charset=utf-8",
}
"""Written out, since the system's table differs from host to host. Files of other kinds are not served."""


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    etag: str
    media_type: str
    gzipped: bytes


def page_routes(people: People, document: bytes, web: Path) -> list[WebRoute]:
    """The routes, with the page's files read once."""
    pages = _Pages(people, document, _files(web))
    return [
        *(WebRoute(path, pages.page, methods=["GET"]) for path in PAGE_PATHS),
        WebRoute("/static/{path:path}", pages.static, methods=["GET"]),
        WebRoute("/openapi.json", pages.openapi, methods=["GET"]),
        _without_head(WebRoute("/api/v1/events", pages.events, methods=["GET"])),
        _without_head(WebRoute("/api/v1/stream", pages.stream, methods=["GET"])),
        _without_head(WebRoute("/open/{secret}", pages.sign_in, methods=["GET"])),
    ]


class _Pages:
    """The handlers, and what they share."""

    def __init__(self, people: People, document: bytes, files: Mapping[str, _File]) -> None:
        self._people = people
        self._document = document
        self._files = files
        self._deltas = Deltas(people.box)
        self._edition, self._index = _edition(files)

    async def page(self, request: Request) -> Response:
        if self._index is None:
            return PlainTextResponse("The page's files are missing from this installation.", status_code=404)
        return _serve(self._index, request)

    async def static(self, request: Request) -> Response:
        path = request.path_params["path"]
        own = path.removeprefix(f"{self._edition}/")
        found = self._files.get(own)
        if found is None:
            raise HTTPException(404)
        return _serve(found, request, is_for_ever=own != path)

    async def openapi(self, _: Request) -> Response:
        return Response(self._document, media_type="application/json")

    async def events(self, request: Request) -> Response:
        return await _events(self._people, request)

    async def stream(self, request: Request) -> Response:
        return await _stream(self._people, self._deltas, request)

    async def sign_in(self, request: Request) -> Response:
        return await run_in_threadpool(_sign_in, self._people, request)


def _without_head(route: WebRoute) -> WebRoute:
    """A HEAD must not use a link up, nor open a stream."""
    if route.methods:
        route.methods.discard("HEAD")
    return route


def _files(web: Path) -> Mapping[str, _File]:
    """The page's files by their path under /static/; only these can be asked for, so no path leads elsewhere."""
    found = {}
    for path in sorted(web.rglob("*")):
        media_type = MEDIA_TYPES.get(path.suffix)
        if media_type is None or not path.is_file():
            continue
        body = path.read_bytes()
        name = path.relative_to(web).as_posix().removeprefix("static/")
        found[name] = _file(body, media_type)
    return found


def _file(body: bytes, media_type: str) -> _File:
    return _File(body, f'"{hashlib.sha256(body).hexdigest()[:20]}"', media_type, gzip.compress(body, mtime=0))


def _edition(files: Mapping[str, _File]) -> tuple[str, _File | None]:
    """A name for these very files, and the page with its addresses under that name: the browser may keep them all."""
    index = files.get("index.html")
    if index is None:
        return "", None
    digest = hashlib.sha256("".join(files[name].etag for name in sorted(files)).encode()).hexdigest()
    edition = f"e-{digest[:12]}"
    body = index.body.replace(b'"/static/', f'"/static/{edition}/'.encode())
    return edition, _file(body, index.media_type)


def _serve(file: _File, request: Request, *, is_for_ever: bool = False) -> Response:
    """The file, or 304: the browser asks each time and is answered at once, so a new version is seen at once.

    `is_for_ever`: its address names this very version, so the browser need not ask again.
    """
    caching = "private, max-age=31536000, immutable" if is_for_ever else "no-cache"
    headers = {"ETag": file.etag, "Cache-Control": caching, "Vary": "Accept-Encoding"}
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if file.etag in known:
        return Response(status_code=304, headers=headers)
    headers["Content-Type"] = file.media_type
    if "gzip" in request.headers.get("accept-encoding", "") and len(file.gzipped) < len(file.body):
        return Response(file.gzipped, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.body, headers=headers)


async def _events(people: People, request: Request) -> Response:
    may_read = await run_in_threadpool(_welcome, people, request)
    stream = board_events(people.box, is_welcome=may_read, heartbeat_seconds=people.heartbeat_seconds)
    # A proxy that buffers would hold the events back.
    headers = {"X-Accel-Buffering": "no", "Vary": "Accept-Encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
    return StreamingResponse(
        zipped(stream), media_type="text/event-stream", headers={**headers, "Content-Encoding": "gzip"}
    )


async def _stream(people: People, deltas: Deltas, request: Request) -> Response:
    """Columns and changes for the page, from `since` (or Last-Event-ID) on; compressed where the reader takes it."""
    may_read = await run_in_threadpool(_welcome, people, request)
    is_gzip = "gzip" in request.headers.get("accept-encoding", "")
    since = deltas.since(request.headers.get("last-event-id") or request.query_params.get("since"))
    stream = changes(
        deltas,
        people.box,
        since=since,
        is_gzip=is_gzip,
        is_welcome=may_read,
        heartbeat_seconds=people.heartbeat_seconds,
    )
    headers = {"X-Accel-Buffering": "no", "Vary": "Accept-Encoding"}
    if is_gzip:
        headers["Content-Encoding"] = "gzip"
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


def _welcome(people: People, request: Request) -> Callable[[], bool]:
    """Whether this reader may still read; ApiError where it may not begin."""
    knock = knock_of(request)
    if not is_welcome(people.door, knock):
        raise ApiError(401, SIGN_IN)
    caller = people.door.caller(knock)
    if caller is not None:
        check_reader(people.door, caller, request)
    if people.box.readers >= STREAMS_MAX:
        raise ApiError(503, f"{STREAMS_MAX} streams are open already. Close a page, or read /api/v1/board instead.")
    return lambda: is_welcome(people.door, knock)


def _sign_in(people: People, request: Request) -> Response:
    knock = knock_of(request)
    peer = people.door.peer(knock)
    session = people.door.redeem(request.path_params["secret"], peer=peer, former=knock.session)
    if session is None:
        return PlainTextResponse(
            "This link has been used already or is older than ten minutes. Make a new one: trimtab link\n",
            status_code=403,
        )
    answer = RedirectResponse("/", status_code=303)
    keep_session(answer, session, door=people.door, request=request)
    return answer
