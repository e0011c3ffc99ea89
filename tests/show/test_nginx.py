"""Single sign-on through a real nginx with auth_request, as docs/how-to/people.md has it in words."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from tests.fakes.people import Served, a_board, a_recommendation, serving

from trimtab.model.command import CommandState
from trimtab.model.people import Role
from trimtab.show.auth import CSRF_HEADER
from trimtab.show.proxied import Proxies

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is missing: apt-get install nginx-light")

SECRET = "s" * 40
PEOPLE = {"vera": "research", "anna": "research,gpu-oncall"}
APPROVE = "/api/v1/recommendations/11/approve"
FINGERPRINT = {"fingerprint": a_recommendation().fingerprint}
CONFIGURATION = """
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location = /oauth2/auth {{
      internal;
      proxy_pass http://127.0.0.1:{auth_port};
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
    }}
    location / {{
      auth_request /oauth2/auth;
      auth_request_set $user $upstream_http_x_auth_request_user;
      auth_request_set $groups $upstream_http_x_auth_request_groups;
      proxy_set_header X-Forwarded-User $user;
      proxy_set_header X-Forwarded-Groups $groups;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Trimtab-Proxy-Secret {secret};
      proxy_set_header Host $http_host;
      proxy_buffering off;
      proxy_read_timeout 1h;
      proxy_pass {daemon};
    }}
  }}
}}
"""


class _Authority(BaseHTTPRequestHandler):
    """What oauth2-proxy answers to auth_request: who the cookie is of, or 401."""

    def do_GET(self) -> None:
        name = (self.headers.get("Cookie") or "").partition("sso=")[2].partition(";")[0]
        self.send_response(202 if name in PEOPLE else 401)
        if name in PEOPLE:
            self.send_header("X-Auth-Request-User", name)
            self.send_header("X-Auth-Request-Groups", PEOPLE[name])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@dataclass
class Front:
    """The daemon, and nginx before it."""

    served: Served
    url: str

    def ask(self, method: str, path: str, who: str | None, **more: object) -> requests.Response:
        headers = {**({"Cookie": f"sso={who}"} if who else {}), **more.pop("headers", {})}  # type: ignore[dict-item]
        return requests.request(method, self.url + path, headers=headers, timeout=20, **more)  # type: ignore[arg-type]


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    assert NGINX is not None
    authority = ThreadingHTTPServer(("127.0.0.1", 0), _Authority)
    threading.Thread(target=authority.serve_forever, daemon=True).start()
    roles = {"*": Role.VIEWER, "gpu-oncall": Role.OPERATOR}
    proxies = Proxies(peers=("127.0.0.1",), roles=roles, secret=SECRET)
    web, folder, port = tmp_path / "web", tmp_path / "nginx", free_port()
    web.mkdir()
    folder.mkdir()
    with serving(board=a_board(), web=web, proxies=proxies) as served:
        text = CONFIGURATION.format(
            folder=folder, port=port, auth_port=authority.server_port, secret=SECRET, daemon=served.url
        )
        (folder / "nginx.conf").write_text(text)
        user = ["-g", "daemon off; user root;"] if os.geteuid() == 0 else ["-g", "daemon off;"]
        server = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), *user])
        try:
            wait_for(port, server)
            yield Front(served, f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
            server.wait(20)
            authority.shutdown()
            authority.server_close()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    ends_at, pause = time.monotonic() + 30, threading.Event()
    while time.monotonic() < ends_at:
        assert server.poll() is None, "nginx ended by itself"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        pause.wait(0.05)
    raise AssertionError("nginx does not listen")


def test_who_the_proxy_signed_in_is_who_acts(front: Front) -> None:
    assert front.ask("GET", "/api/v1/me", None).status_code == 401
    vera = front.ask("GET", "/api/v1/me", "vera").json()
    assert (vera["name"], vera["role"]) == ("vera (proxy)", "viewer")
    acts = {"Origin": front.url, CSRF_HEADER: vera["csrf"]}
    refused = front.ask("POST", APPROVE, "vera", headers=acts, json=FINGERPRINT)
    assert (refused.status_code, front.served.memory.stored[11].state) == (403, CommandState.PROPOSED)
    acts[CSRF_HEADER] = front.ask("GET", "/api/v1/me", "anna").json()["csrf"]
    assert front.ask("POST", APPROVE, "anna", headers=acts, json=FINGERPRINT).status_code == 200
    assert front.served.memory.stored[11].approved_by == "anna (proxy)"


def test_what_a_client_claims_does_not_get_through(front: Front) -> None:
    claims = {"X-Forwarded-User": "anna", "X-Forwarded-Groups": "gpu-oncall", "x-trimtab-proxy-secret": SECRET}
    me = front.ask("GET", "/api/v1/me", "vera", headers=claims).json()
    assert (me["name"], me["role"]) == ("vera (proxy)", "viewer")


def test_beside_the_proxy_the_same_address_without_its_secret_is_nobody(front: Front) -> None:
    claims = {"X-Forwarded-User": "anna", "X-Forwarded-Groups": "gpu-oncall"}
    direct = requests.get(front.served.url + "/api/v1/me", headers=claims, timeout=20)
    assert direct.status_code == 401
    assert "without the proxy's secret" in front.served.register.lines[-1].why


def test_the_stream_comes_through_as_it_is_sent(front: Front) -> None:
    with requests.get(front.url + "/api/v1/events", headers={"Cookie": "sso=vera"}, stream=True, timeout=20) as answer:
        lines = answer.iter_lines()
        assert any(line == b"event: board" for line in lines)
        front.served.box.publish(a_board(findings=()))
        assert any(line == b"event: board" for line in lines)
