"""The one door to uvicorn: an HTTP listener on a thread of its own, TLS wherever it leaves the host."""

from __future__ import annotations

import socket
import ssl
import threading
from functools import partial
from typing import Any

import structlog
import uvicorn

from trimtab.errors import SettingsError
from trimtab.outbound import is_loopback
from trimtab.service import inherited_socket
from trimtab.strict_http import StrictProtocol, Tell, tell_nobody

log = structlog.get_logger()


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
        allow_plaintext: bool = False,
        tell: Tell = tell_nobody,
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
        self._socket = inherited or self._bind(host, port, name)
        self.port: int = self._socket.getsockname()[1]
        self.scheme = "https" if certificate_file else "http"
        self._config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ssl_certfile=certificate_file or None,
            ssl_keyfile=key_file or None,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
            server_header=False,
            proxy_headers=False,  # the peer is who connects; whose word counts for more is the door's to say
            http=partial(StrictProtocol, tell=tell),  # type: ignore[arg-type]  # uvicorn calls what it is given
            ws="none",
        )
        try:
            self._config.load()  # here and not on the thread, where a wrong certificate would leave a deaf daemon
        except (OSError, ssl.SSLError) as error:
            self._socket.close()
            why = error.strerror or error
            raise SettingsError(
                f"{name}.certificate_file = {certificate_file}, {name}.key_file = {key_file}: {why}. "
                "Both must be PEM files that the daemon's user can read, and belong together."
            ) from error
        self._server = uvicorn.Server(self._config)
        self._thread = threading.Thread(target=self._run, name=f"listen-{name}", daemon=True)

    def start(self) -> None:
        """Serve on a thread of its own."""
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
