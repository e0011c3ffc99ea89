"""What Prometheus reads from the people listener: /metrics, and the targets at /sd. Both name jobs and owners."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as WebRoute

from trimtab.show.api_knock import knock_of
from trimtab.show.api_routes import ApiError
from trimtab.show.auth import Door
from trimtab.show.discovery import Discovery
from trimtab.show.metrics_server import Exposition, zipped
from trimtab.show.peers import Peers
from trimtab.show.refusals import Answer


def scraped_routes(
    door: Door, peers: Peers, *, exposition: Exposition, discovery: Callable[[], Discovery]
) -> list[WebRoute]:
    """The two routes."""

    async def metrics(request: Request) -> Response:
        await run_in_threadpool(_check_reader, door, peers, request)
        body, content_type = await run_in_threadpool(exposition, request.headers.get("accept", ""))
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        packed = await run_in_threadpool(zipped, body, request.headers.get("accept-encoding", ""))
        if packed is not None:
            return Response(packed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(body, headers=headers)

    async def targets(request: Request) -> Response:
        await run_in_threadpool(_check_reader, door, peers, request)
        found = await run_in_threadpool(discovery)
        if not found.is_known:
            # Prometheus takes an empty list for "scrape nobody", and keeps what it has where the answer is an error.
            raise ApiError(503, "The daemon has just started and does not know its agents yet. Try again in seconds.")
        return Response(msgspec.json.encode(found.targets), media_type="application/json")

    return [WebRoute("/metrics", metrics, methods=["GET"]), WebRoute("/sd", targets, methods=["GET"])]


def _check_reader(door: Door, peers: Peers, request: Request) -> None:
    """The metrics token or a person's, a peer on the list, or this host where no token is set."""
    headers, knock = request.headers, knock_of(request)
    # Behind a proxy every caller looks local; what a proxy adds to the request tells.
    is_forwarded = "forwarded" in headers or "x-forwarded-for" in headers
    if not is_forwarded and knock.peer in peers:
        return
    if not door.may_read_metrics(knock, host=headers.get("host")):
        sentence = (
            "Send the metrics token as Bearer, or have your address put into [metrics] allow_from; "
            f"without a token, only this host may read {request.url.path}."
        )
        who, what = f"peer {door.peer(knock)}", f"refused GET {request.url.path}"
        door.refusals.tell(Answer.UNREAD, who=who, what=what, why=sentence)
        raise ApiError(401, sentence)
