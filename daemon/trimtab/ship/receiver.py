"""The listener for agents: authenticates, decodes, and answers only when the reports are committed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from trimtab.clock import Clock
from trimtab.errors import SchedulerError, StoreError
from trimtab.model.reading import Delivery, Report
from trimtab.settings import IngestSettings
from trimtab.ship.believe import deliver, read_moment
from trimtab.ship.client_certificates import ClientRule
from trimtab.ship.inbox import Inbox
from trimtab.ship.tokens import Credentials
from trimtab.ship.turnstile import Turnstile
from trimtab.ship.wire import BACKLOG_HEADER, REPORTS_MAX, SCHEMA_MAJORS, SENT_AT_HEADER, WireError, decode_reports
from trimtab.tls import PEER

COMMIT_TIMEOUT_SECONDS = 10.0
"""Shorter than an agent waits, so that it hears why."""
BODY_TIMEOUT_SECONDS = 30.0
"""A body that takes longer is given up: nobody may hold a connection open by sending slowly."""
_LENGTH_DIGITS_MAX = 15
_TOLD = frozenset({400, 401, 403, 413, 415, 422})
"""Refused for what it is; the others are put off, and come again."""

Tell = Callable[[int, str, str], None]
"""Hears of a refusal: its status, the peer's address, and the sentence."""


def _tell_nobody(_status: int, _peer: str, _why: str) -> None:
    """Where nobody asks about refusals."""


class _Refused(Exception):
    """An answer other than 200, with its sentence."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        """`headers` go out with it, underscores as hyphens."""
        super().__init__(sentence)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(slots=True)
class IngestCounts:
    """Counts over the life of the process; the exposition reads them."""

    requests_total: dict[int, int] = field(default_factory=dict)
    """Status -> answers."""
    reports_total: int = 0
    replayed_reports_total: int = 0
    body_bytes_total: int = 0
    bad_samples_total: int = 0


def ingest_app(
    *,
    inbox: Inbox,
    tokens: Credentials,
    settings: IngestSettings,
    clock: Clock,
    cluster: str,
    counts: IngestCounts | None = None,
    commit_timeout_seconds: float = COMMIT_TIMEOUT_SECONDS,
    why_not_well: Callable[[], str] = str,
    tell: Tell = _tell_nobody,
    client_rule: ClientRule | None = None,
    enrolment: Admitting | None = None,
) -> Starlette:
    """The application: POST /v1/reports, GET /healthz. `counts` also stands at `app.state.counts`.

    `why_not_well`: what in this process hangs, or nothing; then /healthz says 503, and whoever asks starts it again.
    `tell` hears of each request that was refused for what it is; it runs on a worker thread.
    """
    desk = _Desk(
        inbox=inbox,
        tokens=tokens,
        settings=settings,
        clock=clock,
        cluster=cluster,
        counts=counts or IngestCounts(),
        commit_timeout_seconds=commit_timeout_seconds,
        bell=_Bell(),
        turnstile=Turnstile(clock),
        why_not_well=why_not_well,
        tell=tell,
        client_rule=client_rule or ClientRule("off", clock=clock),
        enrolment=enrolment,
    )
    app = Starlette(
        routes=[
            Route("/v1/reports", desk.take, methods=["POST"]),
            Route("/v1/node", desk.who, methods=["GET"]),
            Route("/healthz", desk.health, methods=["GET"]),
            Route("/readyz", desk.health, methods=["GET"]),  # one that stands by answers 503 (away.py)
            *(enrolment.routes() if enrolment is not None else ()),
        ]
    )
    app.state.counts = desk.counts
    app.state.desk = desk  # a reload of the settings changes its limits
    return app


class Admitting(Protocol):
    """Whoever enrols nodes at this listener, and knows why a credential is good no more."""

    def routes(self) -> list[Route]:
        """Its own routes."""
        ...

    def why_not(self, token: str) -> str:
        """Why a token that is known opens nothing, as a sentence; empty where it is not known."""
        ...

    def wants_renewal(self, node: str) -> bool:
        """Whether a node is to make a new credential."""
        ...


@dataclass(slots=True, kw_only=True)
class _Desk:
    """One request after the other, from its token to its answer."""

    inbox: Inbox
    tokens: Credentials
    settings: IngestSettings
    clock: Clock
    cluster: str
    counts: IngestCounts
    commit_timeout_seconds: float
    bell: _Bell
    turnstile: Turnstile
    why_not_well: Callable[[], str]
    tell: Tell
    client_rule: ClientRule
    enrolment: Admitting | None = None
    coming_reports: int = 0
    """Of a backlog, whose bodies are being read now."""

    async def health(self, request: Request) -> Response:  # noqa: ARG002 - Starlette's signature
        """Whether the process gets on; says nothing that needs a token."""
        why = self.why_not_well()
        return _json(503 if why else 200, {"ok": not why})

    async def take(self, request: Request) -> Response:
        """Reports in, acknowledgement out."""
        try:
            response = await self._take(request)
        except _Refused as refused:
            response = _json(refused.status, {"error": str(refused)}, refused.headers)
            await self._say(request, refused.status, refused)
        except WireError as error:
            response = _refusal_of_wire(error)
            await self._say(request, error.status, error)
        except ClientDisconnect:
            response = Response(status_code=499)  # nobody hears it; counted as what it was
        self.counts.requests_total[response.status_code] = self.counts.requests_total.get(response.status_code, 0) + 1
        return response

    async def who(self, request: Request) -> Response:
        """Which node a credential is: what `trimtab doctor` asks on a node."""
        try:
            return _json(200, {"node": await self._node_of(request)})
        except _Refused as refused:
            await self._say(request, refused.status, refused)
            return _json(refused.status, {"error": str(refused)}, refused.headers)

    async def _say(self, request: Request, status: int, why: Exception) -> None:
        if status in _TOLD:
            await run_in_threadpool(self.tell, status, request.client.host if request.client else "", str(why))

    async def _take(self, request: Request) -> Response:
        node = await self._node_of(request)
        objection = self.client_rule.why_not(getattr(request.state, PEER, None), node)
        if objection is not None:
            raise _Refused(objection.status, objection.sentence)
        declared = _backlog_of(request)
        if not self.inbox.has_room(declared, is_backlog=declared > 0, coming=self.coming_reports):
            raise self._put_off()  # before its body is read: after an outage of all, most must wait
        self.coming_reports += declared
        try:
            body = await self._read_body(request)
        finally:
            self.coming_reports -= declared
        reports = decode_reports(
            body,
            content_type=request.headers.get("content-type", ""),
            content_encoding=request.headers.get("content-encoding", ""),
            decoded_bytes_max=self.settings.decoded_bytes_max,
        )
        self._check_home(reports, node)
        received_at = self.clock.now()
        sent_at = read_moment(request.headers.get(SENT_AT_HEADER, ""))
        share_bytes = len(body) // len(reports)
        deliveries = [
            deliver(report, received_at=received_at, sent_at=sent_at, body_bytes=share_bytes) for report in reports
        ]
        # Agents of an earlier version do not say so.
        is_backlog = declared > 0 or len(deliveries) > 1 or deliveries[0].is_replay
        await self._commit(deliveries, is_backlog=is_backlog)
        self._count(deliveries, len(body))
        acknowledged = {"acknowledged": [report.sequence for report in reports]}
        if self.enrolment is not None and self.enrolment.wants_renewal(node):
            return _json(200, {**acknowledged, "renew": True})
        return _json(200, acknowledged)

    async def _node_of(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise _Refused(401, "Send this node's token: `Authorization: Bearer …`.", WWW_Authenticate="Bearer")
        node = self.tokens.node_of(token.strip())
        if node is None and self.tokens.can_ask(token.strip()):
            try:  # asks another server: off this loop, so that the other agents' reports go on
                node = await run_in_threadpool(self.tokens.ask, token.strip())
            except SchedulerError as error:
                raise _Refused(503, f"Whose token this is cannot be asked now: {error}") from error
        if node is None:
            why = self.enrolment.why_not(token.strip()) if self.enrolment is not None else ""
            raise _Refused(
                401,
                why
                or "No node has this token. Enrol the node: `trimtab enroll NODE`. (Or, beside the daemon, "
                "make one with `trimtab token node NAME`.)",
                WWW_Authenticate="Bearer",
            )
        return node

    async def _read_body(self, request: Request) -> bytes:
        bytes_max = self.settings.body_bytes_max
        too_large = f"The body is larger than {bytes_max} bytes. Send fewer reports at once."
        length = request.headers.get("content-length", "0")
        if len(length) > _LENGTH_DIGITS_MAX or int(length) > bytes_max:
            raise _Refused(413, too_large)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > bytes_max:
                        raise _Refused(413, too_large)
        except TimeoutError as error:
            raise _Refused(408, f"The body did not arrive within {BODY_TIMEOUT_SECONDS:.0f} s.") from error
        return bytes(body)

    def _check_home(self, reports: Sequence[Report], node: str) -> None:
        for index, report in enumerate(reports):
            if report.node != node:
                raise _Refused(403, f"$[{index}].node: this token is of node {node}, the report of {report.node}.")
            if report.cluster != self.cluster:
                raise _Refused(
                    403,
                    f"$[{index}].cluster: this daemon watches {self.cluster}, the report is of {report.cluster}. "
                    "Set `cluster` alike in agent and daemon.",
                )

    def _put_off(self) -> _Refused:
        return _Refused(
            429,
            "The daemon has more reports than it can commit at present. Keep yours and ask again.",
            Retry_After=str(self.turnstile.retry_after_seconds()),
        )

    async def _commit(self, deliveries: Sequence[Delivery], *, is_backlog: bool) -> None:
        """Hand over and wait until the database has them. Raises when it does not."""
        loop = asyncio.get_running_loop()
        committed: asyncio.Future[StoreError | None] = loop.create_future()
        ticket = self.inbox.put(deliveries, settle=partial(self.bell.ring, loop, committed), is_backlog=is_backlog)
        if ticket is None:
            raise self._put_off()
        try:
            async with asyncio.timeout(self.commit_timeout_seconds):
                error = await committed
        except TimeoutError as late:
            self.inbox.withdraw(ticket)
            raise _Refused(
                503, f"The database did not commit within {self.commit_timeout_seconds:.0f} s. Ask again."
            ) from late
        if error is not None:
            raise _Refused(503, f"The database did not take them: {error}")

    def _count(self, deliveries: Sequence[Delivery], body_bytes: int) -> None:
        counts = self.counts
        counts.body_bytes_total += body_bytes
        counts.reports_total += len(deliveries)
        for delivery in deliveries:
            counts.replayed_reports_total += delivery.is_replay
            if delivery.report.bad_samples:
                counts.bad_samples_total += sum(delivery.report.bad_samples.values())


class _Bell:
    """Wakes the waiting requests from the remembering thread: one call into the loop a commit, not one a request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rung: list[tuple[asyncio.Future[StoreError | None], StoreError | None]] = []

    def ring(
        self,
        loop: asyncio.AbstractEventLoop,
        committed: asyncio.Future[StoreError | None],
        error: StoreError | None,
    ) -> None:
        with self._lock:
            self._rung.append((committed, error))
            is_first = len(self._rung) == 1
        if is_first:
            with suppress(RuntimeError):  # the listener has stopped: nobody waits any more
                loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        with self._lock:
            rung, self._rung = self._rung, []
        for committed, error in rung:
            if not committed.done():
                committed.set_result(error)


def _backlog_of(request: Request) -> int:
    """How many reports of a backlog the body holds, as its sender says; 0 = it is live, or says nothing."""
    said = request.headers.get(BACKLOG_HEADER, "")
    return min(int(said), REPORTS_MAX) if said.isdecimal() and len(said) <= _LENGTH_DIGITS_MAX else 0


def _refusal_of_wire(error: WireError) -> Response:
    if error.status != 426:
        return _json(error.status, {"error": str(error)})
    # RFC 9110 wants an Upgrade header beside 426; the body says it to people and programs.
    spoken = ", ".join(f"trimtab-reports/{major}" for major in SCHEMA_MAJORS)
    return _json(426, {"error": str(error), "schema_majors": SCHEMA_MAJORS}, {"Upgrade": spoken})


def _json(status: int, content: object, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, headers, media_type="application/json")
