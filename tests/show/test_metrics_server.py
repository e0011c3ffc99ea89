"""An agent's /metrics over HTTP: who may read it, TLS, gzip, and what must be said before it leaves the host."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from trimtab.errors import SettingsError
from trimtab.settings import AgentMetricsSettings
from trimtab.show.metrics_server import MetricsServer

TLS = Path(__file__).parent.parent / "fixtures" / "tls"
PAGE = b'trimtab_gpu_up{gpu="GPU-1"} 1.0\n' * 100


@contextmanager
def running(listen: str = "127.0.0.1:0", **settings: object) -> Iterator[MetricsServer]:
    server = MetricsServer(listen, lambda accept: (PAGE, accept or "text/plain"), AgentMetricsSettings(**settings))  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.stop()


def get(server: MetricsServer, path: str = "/metrics", *, token: str = "", **more: object) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return requests.get(f"{server.scheme}://127.0.0.1:{server.port}{path}", headers=headers, timeout=10, **more)


def test_a_page_is_zipped_and_only_that_page_is_there() -> None:
    with running() as server:
        answer = get(server)
        assert (answer.content, answer.headers["Content-Encoding"]) == (PAGE, "gzip")
        assert get(server, "/secrets").status_code == 404
        posted = requests.post(f"http://127.0.0.1:{server.port}/metrics", timeout=10)
        assert posted.status_code == 405


def test_a_token_is_asked_for_where_one_is_set(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s" * 40 + "\n")
    with running(token_file=str(file)) as server:
        assert get(server, token="s" * 40).status_code == 200
        for token in ("", "wrong"):
            no = get(server, token=token)
            assert no.status_code == 401
            assert "metrics.token_file" in no.text
            assert no.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_listed_peer_needs_no_token_and_nobody_else_comes_in() -> None:
    with running(allow_from=("127.0.0.0/8",)) as server:
        assert get(server).status_code == 200
    with running(allow_from=("10.9.0.0/16",)) as server:
        assert "not in metrics.allow_from" in get(server).text


def test_it_speaks_tls() -> None:
    files = {"certificate_file": str(TLS / "server.pem"), "key_file": str(TLS / "server.key")}
    with running(**files) as server:
        # A peer that says nothing must not hold up the next one.
        with socket.create_connection(("127.0.0.1", server.port)):
            assert get(server, verify=str(TLS / "ca.pem")).content == PAGE
        assert server.url(node="gpu-07", advertise="") == f"https://127.0.0.1:{server.port}/metrics"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"allow_from": ("10.0.0.0/8",)}, "allow_plaintext = true"),
        ({"allow_plaintext": True}, "token_file or allow_from"),
        ({"certificate_file": "a.pem"}, "go together"),
        ({"allow_plaintext": True, "allow_from": ("nowhere",)}, "metrics.allow_from"),
        ({"certificate_file": "/no.pem", "key_file": "/no.key", "allow_from": ("10.0.0.0/8",)}, "PEM"),
    ],
)
def test_off_loopback_what_is_missing_is_said_with_its_key(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError, match=says.replace(".", r"\.")):
        MetricsServer("0.0.0.0:0", lambda accept: (PAGE, accept), AgentMetricsSettings(**settings))  # type: ignore[arg-type]


def test_where_others_reach_it_is_its_address_or_its_name_or_as_the_settings_say() -> None:
    with running("0.0.0.0:0", allow_plaintext=True, allow_from=("127.0.0.1",)) as server:
        assert server.url(node="gpu-07", advertise="") == f"http://gpu-07:{server.port}/metrics"
        assert server.url(node="gpu-07", advertise="10.0.0.7:19742") == "http://10.0.0.7:19742/metrics"
        assert get(server).status_code == 200
    with running() as server:
        assert server.url(node="gpu-07", advertise="") == f"http://127.0.0.1:{server.port}/metrics"
