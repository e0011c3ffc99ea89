"""An agent's /metrics on threads of its own: who may read it, TLS, gzip. Needs no more than the base install."""

from __future__ import annotations

import gzip
import hmac
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from trimtab.clock import SystemClock
from trimtab.errors import SettingsError
from trimtab.outbound import is_loopback
from trimtab.settings import read_token
from trimtab.settings.exposition import AgentMetricsSettings
from trimtab.show.peers import Peers
from trimtab.tls import CertificateFacts, ServerTls, TlsFiles

GZIP_BYTES_MIN = 1024
LOOK_TURNS = 4
REQUEST_SECONDS_MAX = 20.0
"""A reader that goes silent in the middle of a request is let go."""

_EVERY_ADDRESS = ("", "0.0.0.0", "::")

Exposition = Callable[[str], tuple[bytes, str]]
"""From an Accept header to a body and its content type."""


def zipped(body: bytes, accept_encoding: str) -> bytes | None:
    """The body by gzip, where the reader takes it and it is worth it."""
    offers = (one.partition(";") for one in accept_encoding.lower().split(","))
    takes = any(name.strip() == "gzip" and rest.replace(" ", "") not in ("q=0", "q=0.0") for name, _, rest in offers)
    # Level 4: half the time of 6 for a twentieth more bytes on this kind of text.
    return gzip.compress(body, 4, mtime=0) if takes and len(body) >= GZIP_BYTES_MIN else None


class MetricsServer:
    """A running /metrics server."""

    def __init__(self, listen: str, exposition: Exposition, settings: AgentMetricsSettings) -> None:
        """Bind and serve. Raises SettingsError with key and fix."""
        host, port = _split(listen)
        self._reader = _Reader(settings)
        _check_open(listen, host, settings, has_reader_check=self._reader.is_strict)
        self._exposition = exposition
        from trimtab.show.refusals import Answer, Refusals  # noqa: PLC0415 - its log is slow to import, and few serve

        refusals = Refusals(clock=SystemClock(), write=lambda *_: None)

        def refused(who: str, why: str) -> None:
            refusals.note(Answer.UNREAD, who=who, what="refused GET /metrics", why=why)

        self._refused = refused
        try:
            self._server = make_server(host, port, self._answer, _server_class(host), _Handler)
        except (OSError, OverflowError) as error:
            raise SettingsError(f"metrics_listen = {listen}: {error}. Choose another port, or an empty one.") from error
        self.port: int = self._server.server_port
        self.scheme = "https" if settings.certificate_file else "http"
        self.host = host
        self._tls = self._with_tls(settings) if settings.certificate_file else None
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def url(self, *, node: str, advertise: str) -> str:
        """Where others reach the page: as the settings say, else where it listens, by the node's name if everywhere."""
        host = node if self.host in _EVERY_ADDRESS else self.host
        place = advertise or f"{f'[{host}]' if ':' in host else host}:{self.port}"
        return f"{self.scheme}://{place}/metrics"

    def stop(self) -> None:
        """End the server and close its port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)

    @property
    def certificates(self) -> tuple[CertificateFacts, ...]:
        """What it serves by, if it does by TLS."""
        return self._tls.facts if self._tls is not None else ()

    def _with_tls(self, settings: AgentMetricsSettings) -> ServerTls:
        files = TlsFiles(certificate_file=settings.certificate_file, key_file=settings.key_file)
        try:
            tls = ServerTls("metrics", files)
        except SettingsError:
            self._server.server_close()
            raise
        # The handshake is left to the thread of each connection, so that a silent peer holds up nobody else.
        self._server.socket = tls.context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server.look = tls.look  # type: ignore[attr-defined] # of the class that is made below
        return tls

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        status, headers, body = self._found(environ)
        start(f"{status.value} {status.phrase}", [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def _found(self, environ: dict[str, Any]) -> tuple[HTTPStatus, list[tuple[str, str]], bytes]:
        if environ.get("PATH_INFO") not in ("/metrics", "/"):
            return _said(HTTPStatus.NOT_FOUND, "The metrics are at /metrics.")
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return _said(HTTPStatus.METHOD_NOT_ALLOWED, "Send GET.")
        why_not = self._reader.why_not(environ.get("REMOTE_ADDR", ""), environ.get("HTTP_AUTHORIZATION", ""))
        if why_not:
            who = f"peer {environ.get('REMOTE_ADDR', '')}"
            self._refused(who, why_not)
            return _said(HTTPStatus.UNAUTHORIZED, why_not)
        body, content_type = self._exposition(environ.get("HTTP_ACCEPT", ""))
        headers = [("Content-Type", content_type), ("Vary", "Accept, Accept-Encoding")]
        packed = zipped(body, environ.get("HTTP_ACCEPT_ENCODING", ""))
        if packed is not None:
            return HTTPStatus.OK, [*headers, ("Content-Encoding", "gzip")], packed
        return HTTPStatus.OK, headers, body


class _Reader:
    """Who may read: a peer on the list, or whoever sends the token; without both, anybody who reaches the port."""

    def __init__(self, settings: AgentMetricsSettings) -> None:
        token = read_token(settings.token_file, environment_name="TRIMTAB_METRICS_TOKEN")
        self._token = token.encode() if token else None
        self._peers = Peers(settings.allow_from, key="metrics.allow_from")
        self.is_strict = self._token is not None or bool(self._peers)

    def why_not(self, peer: str, authorization: str) -> str:
        if not self.is_strict or peer in self._peers:
            return ""
        scheme, _, token = authorization.partition(" ")
        if self._token is not None and scheme.lower() == "bearer":
            if hmac.compare_digest(token.strip().encode(), self._token):
                return ""
            return "The token is not this agent's metrics token (metrics.token_file)."
        if self._token is None:
            return f"{peer} is not in metrics.allow_from."
        return "Send the metrics token as Bearer (metrics.token_file)."


def _check_open(listen: str, host: str, settings: AgentMetricsSettings, *, has_reader_check: bool) -> None:
    """Off loopback: TLS or a word that the network is trusted, and a token or a list of readers."""
    if bool(settings.certificate_file) != bool(settings.key_file):
        raise SettingsError("metrics.certificate_file and metrics.key_file go together: set both, or neither.")
    if is_loopback(host):
        return
    if not settings.certificate_file and not settings.allow_plaintext:
        raise SettingsError(
            f"metrics_listen = {listen} leaves this host without TLS. Set certificate_file and key_file under "
            "[metrics], or allow_plaintext = true there if the network is trusted."
        )
    if not has_reader_check:
        raise SettingsError(
            f"metrics_listen = {listen} can be read by anybody, and the page names jobs. Set token_file or allow_from "
            "under [metrics]."
        )


def _split(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise SettingsError(f"metrics_listen: {listen!r} is not ADDRESS:PORT, such as 127.0.0.1:9742.")
    return host.strip("[]"), int(port)


def _said(status: HTTPStatus, sentence: str) -> tuple[HTTPStatus, list[tuple[str, str]], bytes]:
    headers = [("Content-Type", "text/plain; charset=utf-8")]
    if status is HTTPStatus.UNAUTHORIZED:
        headers.append(("WWW-Authenticate", 'Bearer realm="trimtab"'))
    return status, headers, f"{sentence}\n".encode()


def _server_class(host: str) -> type[WSGIServer]:
    class Server(ThreadingMixIn, WSGIServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True
        look: Callable[[], object] = staticmethod(str)
        turns = 0

        def service_actions(self) -> None:
            """Each half second, while nobody connects too: are there new certificate files?"""
            self.turns += 1
            if self.turns % LOOK_TURNS == 0:
                self.look()

        def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - socketserver's own
            """A reader that goes away in the middle is its own affair."""

    return Server


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS_MAX

    def address_string(self) -> str:
        """The address as it is: no look-up of names."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - the base class's own names
        """Nothing: reads are counted by whoever reads."""
