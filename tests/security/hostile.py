"""The table of hostile requests: what is sent, what it meets, what tells of it; the reference page is made of it.

`fire` sends a request to a real daemon and says what came back; what is no request to it names the tests that try it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

STATUS_DIGITS = slice(9, 12)


@dataclass(frozen=True)
class Came:
    """What came back: the status (0 = hung up without one) and the body."""

    status: int
    text: str


class Target(Protocol):
    """The daemon that is fired at, and what an attacker may know of it."""

    url: str
    people_port: int
    ingest_port: int

    def credential(self, kind: str) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """One row."""

    name: str
    group: str
    sends: str
    meets: str
    """The refusal, in words."""
    audit: str = ""
    """What stands in the audit's `what`; empty where it is counted and logged instead."""
    answer: str = ""
    """The `answer` of trimtab_door_answers_total that counts it."""
    statuses: tuple[int, ...] = ()
    says: str = ""
    fire: Callable[[Target], Came] | None = None
    tests: tuple[str, ...] = ()
    """Where it is tried, when it is no request to the daemon's listeners."""
    told: str = field(default="")
    """What tells of it, where that is neither the audit nor the counter."""


def raw(port: int, *parts: bytes, seconds: float = 20.0) -> Came:
    """Bytes as they are, on a connection of their own; the answer until the other end closes, at most 64 KiB."""
    came = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as wire:
        try:
            for part in parts:
                wire.sendall(part)
            while len(came) < 65536 and (piece := wire.recv(65536)):
                came += piece
        except (BrokenPipeError, ConnectionResetError):
            pass  # it hung up while we still sent: as it should
    head, _, body = came.partition(b"\r\n\r\n")
    return Came(int(head[STATUS_DIGITS] or 0), body.decode("utf-8", "replace"))


def people(method: str, path: str, *lines: str, body: bytes = b"", credential: str = "") -> Callable[[Target], Came]:
    """A request to the people listener, as it stands on the wire; `Host` is ours unless a line says otherwise."""

    def fire(target: Target) -> Came:
        token = target.credential(credential) if credential else ""
        head = [f"{method} {path} HTTP/1.1", *lines]
        if not any(line.lower().startswith("host") for line in lines):
            head.append(f"Host: 127.0.0.1:{target.people_port}")
        if token:
            head.append(f"Authorization: Bearer {token}")
        if not any(line.lower().startswith("connection") for line in lines):
            head.append("Connection: close")
        if body and not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in lines):
            head.append(f"Content-Length: {len(body)}")
        return raw(target.people_port, "\r\n".join(head).encode() + b"\r\n\r\n", body)

    return fire


def reports(body: bytes, *lines: str, credential: str = "node") -> Callable[[Target], Came]:
    """A body to the ingest listener."""

    def fire(target: Target) -> Came:
        token = target.credential(credential) if credential else ""
        head = [
            "POST /v1/reports HTTP/1.1",
            "Host: daemon",
            "Connection: close",
            f"Content-Length: {len(body)}",
            *lines,
        ]
        if token:
            head.append(f"Authorization: Bearer {token}")
        return raw(target.ingest_port, "\r\n".join(head).encode() + b"\r\n\r\n", body)

    return fire
