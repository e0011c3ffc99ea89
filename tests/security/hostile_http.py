"""Hostile HTTP: paths, sizes, and heads that two programs would read in two ways."""

from __future__ import annotations

from tests.security.hostile import Came, Hostile, Target, people, raw

_SMUGGLED = b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\n\r\n"
_JSON = "Content-Type: application/json"


def _broken(name: str, sends: str, fire: object, *, says: str, status: int = 400, group: str = "smuggling") -> Hostile:
    return Hostile(
        name=name, group=group, sends=sends, meets=f"{status}, connection closed", statuses=(status,), says=says,
        answer="broken", fire=fire,  # type: ignore[arg-type]
    )  # fmt: skip


def _endless(head: bytes, piece: bytes, *, megabytes: int) -> object:
    def fire(target: Target) -> Came:
        rest = piece * (megabytes * 1024 * 1024 // len(piece))
        return raw(target.people_port, head, *(rest[at : at + 65536] for at in range(0, len(rest), 65536)))

    return fire


_HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
_CHUNKED = b"POST /api/v1/sign-in HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

ROWS: tuple[Hostile, ...] = (
    _broken("path: up by dots", "`GET /static/../../../etc/passwd`", people("GET", "/static/../../../etc/passwd"),
            says="step up", group="paths"),
    _broken("path: up by escapes", "`GET /static/%2e%2e/%2e%2e/etc/passwd`",
            people("GET", "/static/%2e%2e/%2e%2e/etc/passwd"), says="step up", group="paths"),
    _broken("path: up by escaped slashes", "`GET /static/..%2f..%2fetc%2fpasswd`",
            people("GET", "/static/..%2f..%2fetc%2fpasswd"), says="step up", group="paths"),
    _broken("path: backslashes", "`GET /static/..%5c..%5cetc`", people("GET", "/static/..%5c..%5cetc"),
            says="backslash", group="paths"),
    _broken("path: NUL and line ends", "`GET /static/app.js%00%0d%0aX: y`",
            people("GET", "/static/app.js%00%0d%0aX:%20y"), says="control character", group="paths"),
    _broken("path: not UTF-8", "`GET /job/%ff%fe`", people("GET", "/job/%ff%fe"), says="not UTF-8", group="paths"),
    _broken("address of another host", "`GET http://evil.example/api/v1/me`",
            people("GET", "http://evil.example/api/v1/me"), says="no proxy", group="paths"),
    _broken("as a proxy", "`CONNECT db.internal:5432`", people("CONNECT", "db.internal:5432"), says="no proxy",
            group="paths"),
    _broken("an address of 9 KiB", "`GET /healthz?aaa…`", people("GET", "/healthz?" + "a" * 9216), status=414,
            says="longer than 8192", group="sizes"),
    _broken("a header without an end", "16 MiB of one header", _endless(_HEAD + b"X: ", b"a" * 1024, megabytes=16),
            status=431, says="larger than 32768", group="sizes"),
    _broken("headers without an end", "2 MiB of `X: a`", _endless(_HEAD, b"X: a\r\n", megabytes=2), status=431,
            says="more than 100 headers", group="sizes"),
    _broken("chunk extensions without an end", "a chunk's length, then 16 MiB of extension",
            _endless(_CHUNKED + b"2;", b"a" * 1024, megabytes=16), status=431, says="larger than 32768", group="sizes"),
    _broken("trailers without an end", "a last chunk, then 16 MiB of one trailer",
            _endless(_CHUNKED + b"0\r\nX: ", b"a" * 1024, megabytes=16), status=431, says="larger than 32768",
            group="sizes"),
    _broken("length and chunks", "`Content-Length` and `Transfer-Encoding` in one request",
            people("POST", "/api/v1/sign-in", "Content-Length: 5", "Transfer-Encoding: chunked", _JSON,
                   body=b"0\r\n\r\n" + _SMUGGLED), says="no HTTP/1.1 request"),
    _broken("two lengths", "two `Content-Length` that differ",
            people("POST", "/api/v1/sign-in", "Content-Length: 2", "Content-Length: 40", _JSON, body=b"{}" + _SMUGGLED),
            says="no HTTP/1.1 request"),
    _broken("a signed length", "`Content-Length: +5`",
            people("POST", "/api/v1/sign-in", "Content-Length: +5", _JSON, body=b"{}   "), says="no HTTP/1.1 request"),
    _broken("another transfer encoding", "`Transfer-Encoding: gzip, chunked`",
            people("POST", "/api/v1/sign-in", "Transfer-Encoding: gzip, chunked", _JSON, body=b"2\r\n{}\r\n0\r\n\r\n"),
            says="only chunked"),
    _broken("a transfer encoding in disguise", "`Transfer-Encoding: xchunked`",
            people("POST", "/api/v1/sign-in", "Transfer-Encoding: xchunked", _JSON, body=b"0\r\n\r\n"),
            says="only chunked"),
    _broken("a trailer that is a header", "chunks, then a trailer `Authorization: …`",
            people("POST", "/api/v1/sign-in", "Transfer-Encoding: chunked", _JSON,
                   body=b"2\r\n{}\r\n0\r\nAuthorization: Bearer x\r\n\r\n"), says="Trailers are not taken"),
    _broken("folded header", "a header that goes on in the next line",
            people("GET", "/api/v1/me", "X-One: a\r\n b"), says="no HTTP/1.1 request"),
    _broken("bare line feeds", "a head whose lines end in `\\n`",
            lambda target: raw(target.people_port, b"GET /api/v1/me HTTP/1.1\nHost: localhost\nConnection: close\n\n"),
            says="no HTTP/1.1 request"),
    _broken("bare carriage return", "`\\r` within a header", people("GET", "/api/v1/me", "X-One: a\rHost: evil"),
            says="no HTTP/1.1 request"),
    _broken("NUL in a header", "`\\0` within a header", people("GET", "/api/v1/me", "X-One: a\0b"),
            says="no HTTP/1.1 request"),
    _broken("blank before the colon", "`Host : evil`", people("GET", "/api/v1/me", "X-Host : evil"),
            says="no HTTP/1.1 request"),
    _broken("two hosts", "two `Host`", people("GET", "/api/v1/me", "Host: localhost", "Host: evil.example"),
            says="host is there more than once"),
    _broken("two credentials", "two `Authorization`",
            people("GET", "/api/v1/me", "Authorization: Bearer a", "Authorization: Bearer b"),
            says="authorization is there more than once"),
    _broken("two content types", "two `Content-Type`",
            people("POST", "/api/v1/sign-in", _JSON, "Content-Type: text/plain", body=b"{}"),
            says="content-type is there more than once"),
    _broken("WebSocket of another page", "an upgrade to WebSocket with another `Origin`",
            people("GET", "/api/v1/events", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Origin: https://evil.example", credential="viewer"),
            says="no WebSockets", group="other pages"),
    _broken("HTTP/2 by force", "the preface of HTTP/2",
            lambda target: raw(target.people_port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), says="no HTTP/1.1 request"),
    _broken("no HTTP at all", "a TLS greeting at a plain port",
            lambda target: raw(target.ingest_port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64),
            says="no HTTP/1.1 request"),
)  # fmt: skip
