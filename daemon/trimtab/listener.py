"""The one door to uvicorn: an HTTP listener on a thread of its own, TLS wherever it leaves the host."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from functools import partial
from typing import Any

import structlog
import uvicorn

from trimtab.crowd import Crowd, Guarded
from trimtab.errors import SettingsError
from trimtab.handshakes import peer_trouble
from trimtab.outbound import is_loopback
from trimtab.service import inherited_socket
from trimtab.strict_http import Tell, tell_nobody
from trimtab.tls import PeerCertificate, ServerTls, TlsFiles

log = structlog.get_logger()

LOOK_SECONDS = 2
"""Certificate files are looked at this often: three stats."""
HANDSHAKE_SECONDS_MAX = 10.0
"""Who has not ended a handshake by then is let go."""
HANDSHAKES_MAX = 1024
"""At once; past it the longest one makes room."""
TELL_SECONDS = 60.0
ACCEPT_AGAIN_SECONDS = 0.1
"""When the process has no file left, say."""
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
        self._accepting: list[asyncio.Task[None]] = []
        self._shaking: dict[asyncio.Task[None], None] = {}
        """In the order in which they came."""
        self._failed: Counter[str] = Counter()
        self._told_at: dict[str, float] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. uvicorn's own would give silent clients a minute for their handshake, and half of one to leave."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        self.servers = []
        for listening in sockets or ():
            if self._tls is None:
                server = await loop.create_server(self._protocol, sock=listening, backlog=self.config.backlog)
                self.servers.append(server)
            else:
                self._accepting.append(loop.create_task(self._accept(listening, self._tls)))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end, then hang up on whoever is left: their open sockets would keep the loop from closing."""
        ended = [*self._accepting, *self._shaking]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        await super().shutdown(sockets)
        for left in list(self.server_state.connections):
            left.transport.abort()
        await asyncio.sleep(0)

    async def _accept(self, listening: socket.socket, tls: ServerTls) -> None:
        """Take connections ourselves, until cancelled."""
        # A server of the loop's own keeps those that have not shaken hands to itself: it neither bounds their number
        # nor lets go of them at the end, when the loop then cannot be closed.
        loop = asyncio.get_running_loop()
        listening.settimeout(0)
        listening.listen(self.config.backlog)
        while True:
            try:
                taken, address = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("no connection can be taken; it is tried again", why=error.strerror)
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                continue
            if len(self._shaking) >= HANDSHAKES_MAX:
                next(iter(self._shaking)).cancel()  # the one that has taken longest
            task = loop.create_task(self._shake_hands(taken, str(address[0]), tls))
            self._shaking[task] = None
            task.add_done_callback(self._shaken)

    async def _shake_hands(self, taken: socket.socket, peer: str, tls: ServerTls) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                taken,
                ssl=tls.context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
                ssl_shutdown_timeout=GOODBYE_SECONDS_MAX,
            )
        except OSError as error:  # of TLS too: whoever it was speaks no TLS, or none of ours
            self._tell(tls.name, peer, peer_trouble(error))

    def _tell(self, name: str, peer: str, why: str) -> None:
        """A line for each reason at most once a minute: ten thousand agents may have the same."""
        self._failed[why] += 1
        now = asyncio.get_running_loop().time()
        if not why or now < self._told_at.get(why, now):
            return
        self._told_at[why] = now + TELL_SECONDS
        log.warning("a client cannot come in by TLS", listener=name, peer=peer, why=why, times=self._failed.pop(why))

    def _shaken(self, task: asyncio.Task[None]) -> None:
        self._shaking.pop(task, None)
        if not task.cancelled():
            task.exception()  # looked at, so that it is no unheard one

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )  # type: ignore[call-arg] # as uvicorn's own startup has it
