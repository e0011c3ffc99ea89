"""The ingest listener's doors for enrolment: /v1/enroll with a join token, /v1/renew with a credential, /v1/ca."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Protocol

import msgspec
import structlog
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from trimtab.errors import EnrolmentRefused, StoreError, TrimtabError
from trimtab.model.enrolment import Admission, JoinAsked
from trimtab.ship.client_certificates import ClientRule
from trimtab.ship.enrolled import Enrolled
from trimtab.ship.join_token import digest_of, secret_of
from trimtab.tls import PEER

log = structlog.get_logger()

BODY_BYTES_MAX = 64 * 1024
"""A name, a hash and a signing request are one kilobyte."""
BODY_TIMEOUT_SECONDS = 10.0
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Office(Protocol):
    """Whoever admits nodes. Its methods raise EnrolmentRefused and StoreError."""

    @property
    def ca_pem(self) -> str:
        """The certificate of the daemon's own CA; empty where it has none."""
        ...

    def join(self, asked: JoinAsked) -> Admission:
        """Enrol a node; asked again with the same token and key, the same answer."""
        ...

    def renew(self, held_sha256: str, asked: JoinAsked) -> Admission:
        """A new credential for a good one."""
        ...


class Bounds(Protocol):
    """How often a peer may be wrong."""

    def begin(self, peer: str) -> None:
        """Count one attempt. Raises a TrimtabError with `retry_after_seconds` past the bound."""
        ...

    def was_right(self, peer: str) -> None:
        """Take it back."""
        ...


class EnrolBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a node sends: whose it is, what its new secret hashes to, and a signing request of its key."""

    node: Annotated[str, Meta(min_length=1, max_length=253)]
    sha256: Annotated[str, Meta(min_length=64, max_length=64)]
    cluster: Annotated[str, Meta(max_length=253)] = ""
    csr: Annotated[str, Meta(max_length=16 * 1024)] = ""


@dataclass(slots=True, kw_only=True)
class EnrolDesk:
    """One request after the other, from its token to its answer."""

    office: Office
    bounds: Bounds
    cluster: str
    known: Enrolled
    """Looked into anew after each admission: the new credential is known here before the node hears of it."""
    tell: Callable[[str, str, str], None]
    """Hears of each refusal: the peer, what was asked for, the sentence. May write to the store."""
    client_rule: ClientRule | None = None
    """What is asked of the client certificate that a renewal comes with; None = nothing."""
    answers_total: dict[str, int] = field(default_factory=lambda: {"joined": 0, "renewed": 0})
    """Answers over the life of the process: joined, renewed, or why not; counted on the listener's loop alone."""

    def why_not(self, token: str) -> str:
        """Why a credential that is known opens nothing, as a sentence; empty where it is not known."""
        return self.known.why_not(token)

    def wants_renewal(self, node: str) -> bool:
        """Whether a node is to make a new credential."""
        return self.known.wants_renewal(node)

    def routes(self) -> list[Route]:
        """For the ingest listener."""
        return [
            Route("/v1/enroll", self.enroll, methods=["POST"]),
            Route("/v1/renew", self.renew, methods=["POST"]),
            Route("/v1/ca", self.ca, methods=["GET"]),
        ]

    async def ca(self, request: Request) -> Response:  # noqa: ARG002 - Starlette's signature
        """The daemon's own CA, for whoever holds its fingerprint."""
        if not self.office.ca_pem:
            return _no(404, "This daemon has no CA of its own; give the agent the site's as ca_file.", "no_ca")
        return Response(self.office.ca_pem, media_type="application/x-pem-file")

    async def enroll(self, request: Request) -> Response:
        """A join token in, an admission out."""
        return await self._answer(request, "a join", self._join, "joined")

    async def renew(self, request: Request) -> Response:
        """A good credential in, an admission out."""
        shown = getattr(request.state, PEER, None)
        return await self._answer(request, "a renewal", partial(self._renew, shown), "renewed")

    async def _answer(
        self, request: Request, what: str, do: Callable[[str, JoinAsked], Admission], done: str
    ) -> Response:
        peer = request.client.host if request.client else ""
        try:
            token, asked = _bearer(request), self._asked(await _body(request), peer)
            admission = await run_in_threadpool(self._bounded, peer, what, do, token, asked)
        except EnrolmentRefused as no:
            self._count(no.reason)
            return _no(no.status, str(no), no.reason)
        except StoreError as error:
            self._count("database")
            return _no(503, f"The database cannot be asked now: {error}", "database", {"Retry-After": "5"})
        except ClientDisconnect:
            return Response(status_code=499)
        except TrimtabError as error:
            seconds = getattr(error, "retry_after_seconds", 60)
            self._count("too_many")
            return _no(429, str(error), "too_many", {"Retry-After": str(seconds)})
        self._count(done)
        return Response(msgspec.json.encode(admission), media_type="application/json")

    def _count(self, answer: str) -> None:
        self.answers_total[answer] = self.answers_total.get(answer, 0) + 1

    def _bounded(
        self, peer: str, what: str, do: Callable[[str, JoinAsked], Admission], token: str, asked: JoinAsked
    ) -> Admission:
        """Counts against the peer until it turns out right, or that nobody can say."""
        self.bounds.begin(peer)
        try:
            admission = do(token, asked)
        except EnrolmentRefused as no:
            log.info("a node was refused", what=what, node=asked.node, peer=peer, reason=no.reason, said=str(no))
            self.tell(peer, f"refused {what}", f"{asked.node}: {no}")
            raise
        except StoreError:
            self.bounds.was_right(peer)
            raise
        self.bounds.was_right(peer)
        self.known.refresh()
        return admission

    def _join(self, token: str, asked: JoinAsked) -> Admission:
        admission = self.office.join(replace(asked, token_sha256=digest_of(secret_of(token))))
        log.info("a node is enrolled", node=admission.node, peer=asked.peer, until=str(admission.expires_at))
        return admission

    def _renew(self, shown: bytes | None, token: str, asked: JoinAsked) -> Admission:
        # Else a stolen token alone would get the client certificate that it lacks, here.
        objection = self.client_rule.why_not(shown, asked.node) if self.client_rule is not None else None
        if objection is not None:
            sentence = self.known.why_not(token) or objection.sentence
            raise EnrolmentRefused(sentence, status=objection.status, reason="client_certificate")
        admission = self.office.renew(digest_of(token), asked)
        log.info("a node renewed its credential", node=admission.node, until=str(admission.expires_at))
        return admission

    def _asked(self, raw: bytes, peer: str) -> JoinAsked:
        try:
            body = msgspec.json.decode(raw, type=EnrolBody)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise EnrolmentRefused(f"The body is not right: {error}", status=422, reason="body") from error
        if _SHA256.fullmatch(body.sha256) is None:
            raise EnrolmentRefused("sha256 is no SHA-256 in lower-case hex.", status=422, reason="body")
        if body.cluster and body.cluster != self.cluster:
            raise EnrolmentRefused(
                f"This daemon watches {self.cluster}, and the node says {body.cluster}. Set `cluster` alike in agent "
                "and daemon.",
                status=403,
                reason="other_cluster",
            )
        return JoinAsked(
            token_sha256="",
            node=body.node,
            cluster=body.cluster,
            sha256=body.sha256,
            csr_pem=body.csr,
            peer=peer,
        )


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        sentence = "Send the join token (/v1/enroll) or the credential (/v1/renew): `Authorization: Bearer …`."
        raise EnrolmentRefused(sentence, status=401, reason="no_token")
    return token.strip()


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    sentence = f"The body is larger than {BODY_BYTES_MAX} bytes."
                    raise EnrolmentRefused(sentence, status=413, reason="body")
    except TimeoutError as error:
        sentence = f"The body did not arrive within {BODY_TIMEOUT_SECONDS:.0f} s."
        raise EnrolmentRefused(sentence, status=408, reason="body") from error
    return bytes(body)


def _no(status: int, sentence: str, reason: str, headers: dict[str, str] | None = None) -> Response:
    body = msgspec.json.encode({"error": sentence, "reason": reason})
    challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return Response(body, status, {**challenge, **(headers or {})}, media_type="application/json")
