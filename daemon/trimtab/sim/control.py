"""The simulated cluster's control plane over HTTP on loopback: it goes on whatever happens to the daemon."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

import msgspec

from trimtab.errors import SchedulerRefused
from trimtab.model.command import Write
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.faults import Fault, inject
from trimtab.sim.writes import WriteDesk

_BODY_BYTES_MAX = 1024 * 1024
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """One write under a mark."""

    mark: str
    write: Write


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """Give back what a mark holds; with `keep_lasting` a bad node stays cordoned."""

    mark: str
    keep_lasting: bool = False


class ControlServer:
    """Serves one cluster until stopped."""

    def __init__(self, cluster: SimulatedCluster, desk: WriteDesk, *, port: int = 0) -> None:
        """Bind at once; `url` is then known."""
        handler = type("Handler", (_Handler,), {"cluster": cluster, "desk": desk})
        self._server = _Server(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="sim-control", daemon=True)

    def start(self) -> None:
        """Serve on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port; what is being answered is answered."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(5.0)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """One thread a connection; a peer that hangs up in the middle, as a killed daemon does, is nothing to report."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say what went wrong, unless the peer is just gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    """One connection; the cluster and its desk are class attributes set by the server."""

    cluster: SimulatedCluster
    desk: WriteDesk
    protocol_version = "HTTP/1.1"
    timeout = 60.0
    # Header and body go out as one segment, or the peer's delayed acknowledgement holds the body back.
    wbufsize = -1

    def do_GET(self) -> None:
        """Read: the snapshot, or what marks hold."""
        if self.path == "/snapshot":
            self._answer(200, msgspec.json.encode(self.cluster.snapshot()))
        elif self.path == "/held":
            self._answer(200, msgspec.json.encode(self.desk.marks_held()))
        elif self.path == "/healthz":
            self._answer(200, b'{"ok": true}')
        else:
            self._say(404, f"Nothing at {self.path}; there are /snapshot, /held and /healthz.")

    def do_POST(self) -> None:
        """Write, give back, or break something."""
        try:
            self._post()
        except SchedulerRefused as refusal:
            self._say(409, str(refusal))
        except msgspec.ValidationError as error:
            self._say(400, f"{self.path}: {error}")
        except msgspec.DecodeError as error:
            self._say(400, f"{self.path}: not JSON: {error}")

    def _post(self) -> None:
        if self.path == "/writes":
            asked = self._body(WriteRequest)
            self.desk.write(asked.mark, asked.write)
        elif self.path == "/release":
            release = self._body(ReleaseRequest)
            self.desk.release(release.mark, keep_lasting=release.keep_lasting)
        elif self.path == "/faults":
            inject(self.cluster, self._body(Fault))
        else:
            self._body_bytes()
            self._say(404, f"Nothing to post to at {self.path}; there are /writes, /release and /faults.")
            return
        self._answer(200, b"{}")

    def _body(self, kind: type[T]) -> T:
        return msgspec.json.decode(self._body_bytes(), type=kind)

    def _body_bytes(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        size = int(length) if length.isdigit() else _BODY_BYTES_MAX + 1
        if size > _BODY_BYTES_MAX:
            self.close_connection = True
            if (
                length.isdigit()
            ):  # taken off the wire, within reason: a close with bytes unread would cut the answer off
                self.rfile.read(min(size, 4 * _BODY_BYTES_MAX))
            raise SchedulerRefused(f"A body of {length} bytes is more than {_BODY_BYTES_MAX}.")
        return self.rfile.read(size)

    def _say(self, status: int, sentence: str) -> None:
        self._answer(status, msgspec.json.encode({"sentence": sentence}))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:  # said, or a client that keeps connections would send its next request into it
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a line per request would drown the demo's story."""
