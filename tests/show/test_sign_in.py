"""Who may come in: token, one-time link, cookie, Host and Origin; everything else stays outside."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from tests.fakes.clock import FakeClock
from tests.fakes.people import TOKEN, Served, a_board, serving
from tests.fakes.register import FakeRegister

from trimtab.errors import SettingsError
from trimtab.model.command import CommandState
from trimtab.show.api_routes import Scope
from trimtab.show.api_table import ROUTES
from trimtab.show.auth import CSRF_HEADER, Door, Knock, cookie_name
from trimtab.show.keys import client_file, operator_token, write_client_file
from trimtab.show.passes import SESSIONS_MAX


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(board=a_board(), web=tmp_path, wall=FakeClock()) as running:
        yield running


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One listener for the tests that change nothing."""
    with serving(board=a_board(), web=tmp_path_factory.mktemp("web"), wall=FakeClock()) as running:
        yield running


def raw_get(served: Served, path: str, **headers: str) -> tuple[int, str]:
    """A GET with exactly these headers: requests would put in its own Host."""
    lines = [f"GET {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    with socket.create_connection(("127.0.0.1", served.listener.port), timeout=5) as connection:
        connection.sendall(("\r\n".join([*lines, "Connection: close", "", ""])).encode())
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def a_door(**changes: object) -> Door:
    return Door(
        **{"token": TOKEN, "clock": FakeClock(), "register": FakeRegister(), "audit": lambda line: None, **changes}
    )  # type: ignore[arg-type]


def own(served: Served, page: requests.Session) -> dict[str, str]:
    """What our own page sends with each act."""
    return {"Origin": served.url, CSRF_HEADER: page.get(served.url + "/api/v1/me", timeout=5).json()["csrf"]}


@pytest.fixture
def page(served: Served) -> Iterator[requests.Session]:
    """A browser that opened a link."""
    with requests.Session() as session:
        session.get(f"{served.url}/open/{served.door.new_link()}", timeout=5)
        yield session


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_without_token_or_cookie_only_open_routes_answer(steady: Served, route: object) -> None:
    assert hasattr(route, "path")
    url = steady.url + route.path.replace("{id}", "11")
    body = {"token": "wrong"} if route.path.endswith("sign-in") else {"reason": "x", "seconds": 5}
    answer = requests.request(route.method, url, json=body, timeout=5)
    if route.scope is Scope.OPEN and route.method == "GET":
        assert answer.status_code == 200
    else:
        assert (answer.status_code, list(answer.json())) == (401, ["error"])
    assert steady.memory.stored[11].state is CommandState.PROPOSED
    assert not steady.memory.paused


@pytest.mark.parametrize(
    "authorization",
    ["Bearer wrong", f"Bearer {TOKEN}x", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}"],
)
def test_a_wrong_token_is_no_token(steady: Served, authorization: str) -> None:
    answer = requests.get(steady.url + "/api/v1/board", headers={"Authorization": authorization}, timeout=5)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="trimtab"'


def test_a_link_opens_the_page_once_and_leaves_a_strict_cookie(served: Served) -> None:
    secret = served.door.new_link()
    first = requests.get(f"{served.url}/open/{secret}", allow_redirects=False, timeout=5)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    second = requests.get(f"{served.url}/open/{secret}", allow_redirects=False, timeout=5)
    assert second.status_code == 403
    assert "used already" in second.text
    assert "set-cookie" not in second.headers


def test_a_link_is_dead_after_ten_minutes(served: Served) -> None:
    secret = served.door.new_link()
    served.wall.advance(601.0)
    assert requests.get(f"{served.url}/open/{secret}", allow_redirects=False, timeout=5).status_code == 403


def test_asking_about_a_link_does_not_use_it_up(served: Served) -> None:
    secret = served.door.new_link()
    assert requests.head(f"{served.url}/open/{secret}", timeout=5).status_code == 405
    assert requests.get(f"{served.url}/open/{secret}", allow_redirects=False, timeout=5).status_code == 303


def test_the_cookie_reads_and_decides_from_the_page_alone(served: Served, page: requests.Session) -> None:
    assert page.get(served.url + "/api/v1/board", timeout=5).status_code == 200
    body = {"reason": "x"}
    assert page.post(served.url + "/api/v1/pause", json=body, timeout=5).status_code == 403
    for origin in ("http://evil.example", f"{served.url}0", "null", "http://localhost"):
        answer = page.post(served.url + "/api/v1/pause", json=body, headers={"Origin": origin}, timeout=5)
        assert (answer.status_code, served.memory.paused) == (403, False)
    answer = page.post(served.url + "/api/v1/pause", json=body, headers=own(served, page), timeout=5)
    assert (answer.status_code, served.memory.paused) == (200, True)
    assert served.memory.lines[-1].who == "operator (page)"


def test_a_token_from_another_page_is_refused_too(served: Served) -> None:
    answer = served.post("/api/v1/pause", {"reason": "x"}, headers={"Origin": "http://evil.example"})
    assert (answer.status_code, served.memory.paused) == (403, False)


def test_a_session_ends(served: Served, page: requests.Session) -> None:
    served.wall.advance(12 * 3600.0 + 1)
    assert page.get(served.url + "/api/v1/board", timeout=5).status_code == 401


def test_new_links_need_the_token_not_the_cookie(served: Served, page: requests.Session) -> None:
    refused = page.post(served.url + "/api/v1/links", json={}, headers=own(served, page), timeout=5)
    assert refused.status_code == 403
    made = served.post("/api/v1/links", {}, headers={"X-Trimtab-Who": "anna"}).json()["url"]
    assert made.startswith(served.url + "/open/")
    assert page.get(made, timeout=5).status_code == 200
    answer = page.post(served.url + "/api/v1/pause", json={"reason": "x"}, headers=own(served, page), timeout=5)
    assert answer.status_code == 200
    assert served.memory.lines[-1].who == "operator:anna (page)"


@pytest.mark.parametrize("path", ["/", "/api/v1/board", "/metrics", "/static/app.js", "/openapi.json", "/open/x"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9740", "10.0.0.7", "", "localhost.evil.example", "[::1"]
)
def test_a_name_that_is_not_ours_is_refused(steady: Served, path: str, host: str) -> None:
    status, body = raw_get(steady, path, Host=host)
    assert status in (400, 403)
    assert "trimtab_paused" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9740", "127.0.0.1", "127.8.8.8:1", "[::1]:9740"])
def test_the_host_itself_goes_by_several_names(steady: Served, host: str) -> None:
    assert raw_get(steady, "/", Host=host)[0] == 200


def test_the_token_opens_under_any_name(steady: Served) -> None:
    status, _ = raw_get(steady, "/api/v1/board", Host="gpu-daemon.example", Authorization=f"Bearer {TOKEN}")
    assert status == 200
    assert raw_get(steady, "/healthz", Host="10.0.0.7")[0] == 200


def test_behind_a_proxy_the_public_address_counts(tmp_path: Path) -> None:
    with serving(board=a_board(), web=tmp_path, public_url="https://trimtab.example/") as served:
        assert raw_get(served, "/", Host="trimtab.example")[0] == 200
        link = served.post("/api/v1/links", {}).json()["url"]
        assert link.startswith("https://trimtab.example/open/")
        secret = link.rpartition("/")[2]
        answer = requests.get(f"{served.url}/open/{secret}", allow_redirects=False, timeout=5)
        assert "secure" in answer.headers["set-cookie"].lower()
        origin = {"Origin": "https://trimtab.example"}
        assert served.post("/api/v1/pause", {"reason": "x"}, headers=origin).status_code == 200


def test_metrics_are_open_on_this_host_only_while_no_token_is_set(served: Served, tmp_path: Path) -> None:
    assert raw_get(served, "/metrics", Host="localhost") == (200, "trimtab_paused 0\n")
    assert raw_get(served, "/metrics", Host="localhost", X_Forwarded_For="10.1.1.1")[0] == 401
    with serving(board=a_board(), web=tmp_path, metrics_token="m" * 43) as guarded:
        assert raw_get(guarded, "/metrics", Host="localhost")[0] == 401
        assert guarded.get("/metrics").status_code == 200
        assert guarded.get("/metrics", headers={"Authorization": f"Bearer {'m' * 43}"}).status_code == 200
        assert guarded.get("/api/v1/board", headers={"Authorization": f"Bearer {'m' * 43}"}).status_code == 401


def test_metrics_off_loopback_need_a_token() -> None:
    door = a_door(listen_host="0.0.0.0")
    assert not door.may_read_metrics(Knock(peer="127.0.0.1"), host="127.0.0.1")
    assert door.may_read_metrics(Knock(peer="10.0.0.7", authorization=f"Bearer {TOKEN}"), host="x")


def test_on_a_wildcard_address_literal_addresses_are_ours_and_names_are_not() -> None:
    door = a_door(listen_host="0.0.0.0")
    assert door.is_host_known("10.0.0.7:9740")
    assert not door.is_host_known("evil.example:9740")
    assert a_door(listen_host="gpu-head").is_host_known("gpu-head:9740")


def test_sessions_are_bounded_and_the_oldest_goes() -> None:
    door = a_door()
    sessions = [door.redeem(door.new_link()) for _ in range(SESSIONS_MAX + 1)]
    assert door.caller(Knock(session=sessions[0])) is None
    assert door.caller(Knock(session=sessions[1])) is not None


def test_who_is_asking_cannot_break_the_audit_line() -> None:
    door = a_door()
    said = "anna\n2026 bob approved" + "x" * 99
    caller = door.caller(Knock(authorization=f"Bearer {TOKEN}", said_who=said))
    assert caller is not None
    assert caller.who.startswith("operator:anna2026bobapproved")
    assert len(caller.who) <= len("operator:") + 64


def test_two_daemons_on_one_host_do_not_share_a_cookie() -> None:
    assert cookie_name("127.0.0.1:9740") == "trimtab_session_9740"
    assert cookie_name("[::1]:9750") == "trimtab_session_9750"
    assert cookie_name("trimtab.example") == "trimtab_session"


def test_the_operators_token_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    path = tmp_path / "operator.token"
    token = operator_token(path)
    assert (len(token), path.stat().st_mode & 0o777) == (43, 0o600)
    assert operator_token(path) == token
    path.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        operator_token(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(SettingsError, match="holds no token"):
        operator_token(path)


def test_the_client_file_is_private_and_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = client_file()
    for url in ("http://127.0.0.1:1", "http://127.0.0.1:2"):
        write_client_file(path, url=url, token=TOKEN)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == f'url = "http://127.0.0.1:2"\ntoken = "{TOKEN}"\n'
    assert list(path.parent.iterdir()) == [path]
