"""Ports on loopback that stay this demo's from the moment they are chosen, however many demos start at once."""

from __future__ import annotations

import socket

from trimtab.errors import SettingsError

PEOPLE_PORT = 9740
"""Where the page is unless another program has the port."""


class Ports:
    """Holds each port by a socket that is bound and does not listen: others are then never given it.

    Whoever is to listen sets SO_REUSEADDR, as uvicorn's socket here and every Go program does, and may.
    """

    def __init__(self) -> None:
        """None is held yet."""
        self._held: list[socket.socket] = []

    def people(self, asked: int | None) -> int:
        """The page's. Raises SettingsError when the one asked for is taken."""
        wanted = asked or PEOPLE_PORT
        if self._is_ours(wanted) and (port := self._hold(wanted)):
            return port
        if asked:
            raise SettingsError(f"--port {asked}: another program listens there. Choose another port.")
        return self.any()

    def any(self) -> int:
        """One that nobody has. Raises SettingsError when there is none."""
        port = self._hold(0)
        if port is None:
            raise SettingsError("No port is free on 127.0.0.1.")
        return port

    def close(self) -> None:
        """Let go of all of them."""
        for held in self._held:
            held.close()
        self._held.clear()

    def _is_ours(self, port: int) -> bool:
        """A number that is asked for could be bound twice before anybody listens: a name that dies with us cannot."""
        claim = socket.socket(socket.AF_UNIX)
        self._held.append(claim)
        try:
            claim.bind(f"\0trimtab-demo-port-{port}")
        except OSError:
            return False
        return True

    def _hold(self, port: int) -> int | None:
        held = socket.socket()
        self._held.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind(("127.0.0.1", port))
        except OSError:
            return None
        number: int = held.getsockname()[1]
        return number
