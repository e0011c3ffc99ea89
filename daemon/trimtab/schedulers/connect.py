"""Makes the door to a real cluster: kubeconfig, credentials, TLS, HTTP. No other module knows lightkube or its HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import httpx2 as httpx
import msgspec
import structlog
from lightkube.core.exceptions import ConfigError

import trimtab
from trimtab.errors import SchedulerError, SchedulerSilent, SchedulerUnavailable
from trimtab.schedulers.kubeconfig import Entrance, find_entrance, session_parameters
from trimtab.schedulers.kubernetes import Body, PatchKind, failure
from trimtab.settings import KubernetesSettings

log = structlog.get_logger()

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
"""Asks for all kinds in one document; an old server answers with the list of groups."""
SENTENCE_MAX = 300
KEPT_SECONDS = 60.0
"""An idle connection is kept so long: longer than a beat, shorter than API servers keep theirs (90 s)."""


def connect(settings: KubernetesSettings) -> KubernetesApi:
    """The cluster of these settings; nothing is sent yet. SettingsError where kubeconfig or files are wrong."""
    entrance = find_entrance(settings)
    parameters = session_parameters(entrance, settings.request_timeout_seconds)
    if entrance.config.cluster.insecure:
        log.warning("the API server's certificate is not verified", server=entrance.server, source=entrance.source)
    client = httpx.Client(
        **parameters,
        headers={"User-Agent": f"trimtab/{trimtab.__version__}", "Accept": "application/json"},
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=KEPT_SECONDS),
    )
    return KubernetesApi(client, entrance, settings.request_timeout_seconds)


class KubernetesApi:
    """The `Api` of a real cluster. One session, safe to use from several threads; `close` ends open watches too."""

    def __init__(self, client: httpx.Client, entrance: Entrance, timeout_seconds: float) -> None:
        """`client` becomes ours to close."""
        self._client = client
        self._entrance = entrance
        self._timeout_seconds = timeout_seconds
        self._extensions = {"sni_hostname": entrance.tls_server_name} if entrance.tls_server_name else {}
        self._streams: set[Stream] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def server(self) -> str:
        """The cluster's address."""
        return self._entrance.server

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """One object, or any other JSON document."""
        return self._document(self._send("GET", path, params))

    def raw(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body as it came."""
        return self._send("GET", path, params).content

    def watch(self, path: str, params: Mapping[str, str], *, quiet_seconds_max: float) -> Stream:
        """One line per watch event; the watch is open when this returns."""
        timeout = httpx.Timeout(self._timeout_seconds, read=self._timeout_seconds)
        request = self._client.build_request(
            "GET", path, params=dict(params), timeout=timeout, extensions=self._extensions
        )
        with self._translated(f"WATCH {path}"):
            response = self._client.send(request, stream=True)
            if response.status_code != 200:
                with suppress(httpx.HTTPError):
                    response.read()
                response.close()
                raise _failure(f"WATCH {path}", response)
        # The answer's head had to come soon; from now on silence is allowed.
        request.extensions["timeout"]["read"] = quiet_seconds_max
        stream = Stream(self, response, f"WATCH {path}", quiet_seconds_max)
        with self._lock:
            self._streams.add(stream)
        if self._is_closed:
            stream.cut()
        return stream

    def post(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Create."""
        return self._document(self._send("POST", path, params, body))

    def put(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Replace."""
        return self._document(self._send("PUT", path, params, body))

    def patch(self, path: str, body: Body, kind: PatchKind, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Change."""
        return self._document(self._send("PATCH", path, params, body, content_type=kind.value))

    def delete(
        self, path: str, body: Mapping[str, Any] | None = None, params: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Delete; `body` carries preconditions."""
        return self._document(self._send("DELETE", path, params, body))

    def close(self) -> None:
        """End all watches, whoever reads them, and the session."""
        self._is_closed = True
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.cut()
        self._client.close()

    def forget(self, stream: Stream) -> None:
        """A watch has ended."""
        with self._lock:
            self._streams.discard(stream)

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Body | None = None,
        *,
        content_type: str = "application/json",
    ) -> httpx.Response:
        headers = {"Accept": AGGREGATED} if path in ("/api", "/apis") else {}
        if body is not None:
            headers["Content-Type"] = content_type
        content = None if body is None else msgspec.json.encode(body)
        with self._translated(f"{method} {path}"):
            response = self._client.request(
                method, path, params=dict(params or {}), content=content, headers=headers, extensions=self._extensions
            )
        if not response.is_success:
            raise _failure(f"{method} {path}", response)
        return response

    @contextmanager
    def _translated(self, asked: str) -> Iterator[None]:
        if self._is_closed:
            raise SchedulerUnavailable(f"{asked}: this connection has been closed")
        try:
            yield
        except httpx.TimeoutException as error:
            raise SchedulerUnavailable(
                f"{asked}: no answer from {self.server} within {self._timeout_seconds:.0f} s; "
                f"whether it was done is not known"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise SchedulerUnavailable(f"{asked}: {_in_words(error, self.server)}") from error
        except (ConfigError, OSError, UnicodeDecodeError) as error:  # inside the session, by a token file
            raise SchedulerUnavailable(
                f"{asked}: no credentials for {self.server}: {self._entrance.credentials} gave {error!r:.300}"
            ) from error
        except RuntimeError as error:
            if not self._is_closed:
                raise
            raise SchedulerUnavailable(f"{asked}: this connection has been closed") from error

    def _document(self, response: httpx.Response) -> dict[str, Any]:
        try:
            found = msgspec.json.decode(response.content or b"{}")
        except msgspec.DecodeError:
            found = None
        if not isinstance(found, dict):
            raise SchedulerUnavailable(
                f"{response.request.method} {response.request.url.path}: {self.server} answered something that is no "
                f"JSON object; is the server of the kubeconfig a Kubernetes API?"
            )
        return found


class Stream:
    """An open watch: iterate over its lines in one thread; `close` it there, `cut` it from any other."""

    def __init__(self, api: KubernetesApi, response: httpx.Response, asked: str, quiet_seconds_max: float) -> None:
        """`response` has its head and no body yet."""
        self._api = api
        self._response = response
        self._asked = asked
        self._quiet_seconds_max = quiet_seconds_max
        self._lines = self._read()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._lines)

    def close(self) -> None:
        """Let the connection go."""
        self._lines.close()
        self._api.forget(self)
        with suppress(httpx.HTTPError, httpx.StreamError, OSError, RuntimeError):
            self._response.close()

    def cut(self) -> None:
        """Wake whoever waits for the next line; it sees the end or an error."""
        stream = self._response.extensions.get("network_stream")
        found = stream.get_extra_info("socket") if stream is not None else None
        if found is not None:
            with suppress(OSError):
                # Not SSLSocket.shutdown: it takes the TLS state away under the reading thread.
                socket.socket.shutdown(found, socket.SHUT_RDWR)

    def _read(self) -> Generator[bytes, None, None]:
        rest = b""
        try:
            for chunk in self._response.iter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line for line in lines if line)
        except httpx.TimeoutException as error:
            raise SchedulerSilent(f"{self._asked}: nothing came for {self._quiet_seconds_max:.0f} s") from error
        except (httpx.HTTPError, httpx.StreamError, OSError, RuntimeError) as error:
            raise SchedulerUnavailable(f"{self._asked}: {_in_words(error, self._api.server)}") from error
        if rest:
            raise SchedulerUnavailable(f"{self._asked}: cut in the middle of an event")


def _failure(asked: str, response: httpx.Response) -> SchedulerError:
    try:
        status = json.loads(response.content)
    except (ValueError, httpx.StreamError):
        status = None
    if not isinstance(status, dict):
        text = response.text.strip() if response.is_stream_consumed else ""
        status = {"message": text or response.reason_phrase}
    if response.is_redirect:
        status = {"message": f"redirected to {response.headers.get('location')}; is the kubeconfig's server right?"}
        return failure(asked, 502, status)
    return failure(asked, response.status_code, status, response.headers.get("retry-after"))


def _in_words(error: Exception, server: str) -> str:
    text = " ".join(str(error).split())[:SENTENCE_MAX] or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        if "mismatch" in text:
            return f"the certificate of {server} is for another name (tls-server-name in the kubeconfig): {text}"
        return (
            f"the certificate of {server} is not signed by a CA that is trusted here; set the cluster's "
            f"certificate-authority in the kubeconfig: {text}"
        )
    if isinstance(error, httpx.ConnectError):
        return f"{server} cannot be reached: {text}"
    if isinstance(error, httpx.ProxyError):
        return f"the proxy before {server} refused: {text}"
    return f"the connection to {server} was cut: {text}"
