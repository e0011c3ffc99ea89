"""HTTP/1.1 as both listeners take it from outside: uvicorn's own parser within bounds, and nothing read in two ways.

What breaks a bound is answered, its connection closed, and told with the peer's address; no application sees it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_BYTES_MAX = 32 * 1024
"""A request's line and headers; also what may pass without a byte of its body: endless trailers, chunk extensions."""
HEADERS_MAX = 100
TARGET_BYTES_MAX = 8 * 1024
_PIECE_BYTES = 16 * 1024
_ONCE = frozenset({
    b"host", b"authorization", b"content-length", b"content-type", b"content-encoding", b"transfer-encoding", b"origin",
})  # fmt: skip
"""Where a proxy before us may believe the first and we the second, neither is believed."""

Tell = Callable[[str, str], None]
"""Hears of each refusal: the peer's address, and the sentence."""


def tell_nobody(_peer: str, _why: str) -> None:
    """For a listener that nobody asks about its refusals."""


class Broken(Exception):
    """A request that is not read on: the status of its answer, and the sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        """Keep both."""
        super().__init__(sentence)
        self.status = status


_MALFORMED = Broken(400, "This is no HTTP/1.1 request as RFC 9112 has it. Nothing was done.")


class StrictProtocol(HttpToolsProtocol):
    """One connection; no more than HEAD_BYTES_MAX of it ever wait in memory for the rest of a head."""

    def __init__(self, *args: Any, tell: Tell, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """`tell` is called on the listener's loop: it must not wait."""
        super().__init__(*args, **kwargs)
        self._tell = tell
        self._why = _MALFORMED
        self._is_in_head = True
        self._headers_seen = 0
        self._without_progress_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Feed the parser piece by piece, as long as it gets on."""
        for start in range(0, len(data), _PIECE_BYTES):
            if self.transport.is_closing():
                return
            piece = data[start : start + _PIECE_BYTES]
            self._without_progress_bytes += len(piece)
            self._feed(piece)
            if self._without_progress_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                where = "line and headers are" if self._is_in_head else "trailers or chunk extensions are"
                self._why = Broken(431, f"The request's {where} larger than {HEAD_BYTES_MAX} bytes. Nothing was done.")
                self.send_400_response("")

    def _feed(self, piece: bytes) -> None:
        """As uvicorn does it, without a line in the log for whoever sends nonsense."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserError:
            self.send_400_response("")
        except httptools.HttpParserUpgrade:
            return  # asked for another protocol, and answered in this one

    def on_message_begin(self) -> None:
        """A new request on this connection."""
        super().on_message_begin()
        self._is_in_head, self._headers_seen = True, 0

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        super().on_url(url)
        if len(self.url) > TARGET_BYTES_MAX:
            self._refuse(414, f"The address is longer than {TARGET_BYTES_MAX} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or a trailer: those would be read as headers that came late."""
        if not self._is_in_head:
            self._refuse(400, "Trailers are not taken.")
        self._headers_seen += 1
        if self._headers_seen > HEADERS_MAX:
            self._refuse(431, f"There are more than {HEADERS_MAX} headers.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole: once more as a whole, before anybody acts on it."""
        self._without_progress_bytes = 0
        self._check_target()
        self._check_headers()
        super().on_headers_complete()
        self._is_in_head = False

    def on_body(self, body: bytes) -> None:
        """Some of the body."""
        self._without_progress_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._without_progress_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the parser's own words tell an attacker more than a user
        """Say why, and close; where an answer has begun, close alone."""
        why, self._why = self._why, _MALFORMED
        self._tell(self.client[0] if self.client else "", str(why))
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not is_answering:
            body = json.dumps({"error": str(why)}).encode()
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[why.status] + head + body)
        self.transport.close()

    def _check_target(self) -> None:
        if not self.url.startswith(b"/"):
            self._refuse(400, "The address must be a path: this is no proxy.")
        path = unquote_to_bytes(self.url.partition(b"?")[0])
        try:
            text = path.decode()
        except UnicodeDecodeError:
            self._refuse(400, "The path is not UTF-8.")
        if "\\" in text or any(character < " " or character == "\x7f" for character in text):
            self._refuse(400, "The path holds a backslash or a control character.")
        if {".", ".."} & set(text.split("/")):
            self._refuse(400, "The path holds a step up or nowhere (`..`, `.`).")

    def _check_headers(self) -> None:
        names = [name for name, _ in self.headers]
        for name in _ONCE.intersection(names):
            if names.count(name) > 1:
                self._refuse(400, f"The header {name.decode()} is there more than once.")
        given = dict(self.headers)
        if given.get(b"transfer-encoding", b"chunked").strip().lower() != b"chunked":
            self._refuse(400, "Of transfer encodings only chunked is taken.")
        if given.get(b"upgrade", b"").strip().lower() == b"websocket":
            self._refuse(400, "There are no WebSockets here. Read /api/v1/events as server-sent events.")

    def _refuse(self, status: int, sentence: str) -> None:
        # The parser turns whatever a callback raises into its own error, which ends in send_400_response.
        self._why = Broken(status, f"{sentence} Nothing was done.")
        raise self._why
