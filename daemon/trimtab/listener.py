"""The one door to uvicorn: an HTTP listener on a thread of its own, TLS wherever it leaves the host."""

from __future__ import annotations

import asyncio
import socket
import threading
from functools import partial
from typing import Any

import structlog
import uvicorn

from trimtab.crowd import Crowd, Guarded
from trimtab.errors import SettingsError
from trimtab.outbound import is_loopback
from trimtab.service import inherited_socket
from trimtab.strict_http import Tell, tell_nobody
from trimtab.tls import PeerCertificate, ServerTls, TlsFiles

log = structlog.get_logger()

LOOK_SECONDS = 2
"""Certificate files are looked at this often: three stats."""
HANDSHAKE_SECONDS_MAX = 10.0
"""Who has not ended a handshake by then is let go."""
GOODBYE_SECONDS_MAX = 1.0
"""An idle client need not answer our goodbye; it is not waited for longer."""


def split_listen(listen: str, *, key: str) -> tuple[str, int]:
    """`127.0.0.1:9740` as host and port. Raises SettingsError that names the key."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"{key}: {listen!r} is not ADDRESS:PORT, such as 127.0.0.1:9740.")
    return host.strip("[]"), int(port)


class Listener:
    """Serves one ASGI application until stopped."""

    def __init__(
        self,
        app: Any,  # noqa: ANN401 - an ASGI application is any callable
        *,
        name: str,
        listen: str,
        certificate_file: str = "",
        key_file: str = "",
        client_ca_file: str = "",
        allow_plaintext: bool = False,
        tell: Tell = tell_nobody,
        connections_max: int = 2_000,
    ) -> None:
        """Bind at once, so that a port in use is said before anything starts. Raises SettingsError.

        `tell` hears of requests that are no HTTP as we take it; it must not wait.
        """
        host, port = split_listen(listen, key=f"{name}.listen")
        # A socket unit's port stays open while the daemon restarts; its address is then the unit's to say.
        inherited = inherited_socket(name)
        if inherited is not None:
            host, port = inherited.getsockname()[:2]
            listen = f"{host}:{port} (from systemd)"
        if not certificate_file and not is_loopback(host):
            if not allow_plaintext:
                raise SettingsError(
                    f"{name}.listen = {listen} leaves this host without TLS. Set {name}.certificate_file and "
                    f"{name}.key_file, or {name}.allow_plaintext = true if the network is trusted."
                )
            log.warning("listening without TLS off loopback: tokens and names can be read on the wire", listen=listen)
        if bool(certificate_file) != bool(key_file):
            raise SettingsError(f"{name}.certificate_file and {name}.key_file go together: set both, or neither.")
        files = TlsFiles(certificate_file=certificate_file, key_file=key_file, client_ca_file=client_ca_file)
        if client_ca_file and not certificate_file:
            raise SettingsError(f"{name} asks for client certificates without TLS: set {name}.certificate_file too.")
        # Read here and not on the thread, where a wrong certificate would leave a deaf daemon.
        self.tls = ServerTls(name, files) if certificate_file else None
        self._socket = inherited or self._bind(host, port, name)
        self.port: int = self._socket.getsockname()[1]
        self.scheme = "https" if certificate_file else "http"
        self.crowd = Crowd(name, connections_max=connections_max)
        config = uvicorn.Config(
            app,
            http=partial(_Protocol, tell=tell, crowd=self.crowd),  # type: ignore[arg-type] # called as a class would be
            log_config=None,
            access_log=False,
            lifespan="off",
            callback_notify=self._look,
            timeout_notify=LOOK_SECONDS,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
            server_header=False,
            proxy_headers=False,  # the peer is who connects; whose word counts for more is the door's to say
            h11_max_incomplete_event_size=32 * 1024,
        )
        self._server = _Server(config, self.tls)
        self._thread = threading.Thread(target=self._run, name=f"listen-{name}", daemon=True)

    def start(self) -> None:
        """Serve on a thread of its own; one that serves already goes on."""
        if not self._thread.is_alive():
            self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether its thread is running."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop accepting, let requests end, close."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._socket.close()

    def reload(self) -> str:
        """Read the certificate files anew now, and say what came of it; "" = they have not changed."""
        return self.tls.look(is_asked=True) if self.tls is not None else ""

    async def _look(self) -> None:
        if self.tls is not None:
            self.tls.look()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    @staticmethod
    def _bind(host: str, port: int, name: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host or "0.0.0.0", port))
        except OSError as error:
            bound.close()
            raise SettingsError(f"{name}.listen = {host}:{port}: {error.strerror}. Choose another port.") from error
        bound.listen(512)
        return bound


class _Protocol(PeerCertificate, Guarded):
    """HTTP within bounds, with the client's certificate beside each request."""


class _Server(uvicorn.Server):
    """uvicorn's server with TLS of our own, which ends in time whatever its clients do."""

    def __init__(self, config: uvicorn.Config, tls: ServerTls | None) -> None:
        """On the socket that `run` is given."""
        super().__init__(config)
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. uvicorn's own would give silent clients a minute for their handshake, and half of one to leave."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        limits: dict[str, Any] = {}
        if self._tls is not None:
            limits["ssl"] = self._tls.context
            limits["ssl_handshake_timeout"] = HANDSHAKE_SECONDS_MAX
            limits["ssl_shutdown_timeout"] = GOODBYE_SECONDS_MAX
        self.servers = [
            await loop.create_server(self._protocol, sock=one, backlog=self.config.backlog, **limits)
            for one in sockets or ()
        ]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end, then hang up on whoever is left: their open sockets would keep the loop from closing."""
        await super().shutdown(sockets)
        for left in list(self.server_state.connections):
            left.transport.abort()
        await asyncio.sleep(0)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )  # type: ignore[call-arg] # as uvicorn's own startup has it
