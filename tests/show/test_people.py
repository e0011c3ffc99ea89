"""People over a real listener: tokens, sessions, roles, what a page must send, and what is written down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import requests
from tests.fakes.clock import FakeClock
from tests.fakes.people import TOKEN, Served, a_board, a_recommendation, serving
from tests.fakes.register import FakeRegister

from trimtab.model.command import CommandState
from trimtab.model.people import Role
from trimtab.show.api_routes import Scope
from trimtab.show.api_table import ROUTES
from trimtab.show.auth import CSRF_HEADER, Knock
from trimtab.show.passes import FRESH_SECONDS, NOTED_SECONDS, digest

FINGERPRINT = {"fingerprint": a_recommendation().fingerprint}
APPROVE = "/api/v1/recommendations/11/approve"
DAY_SECONDS = 86400.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(board=a_board(), web=tmp_path, wall=FakeClock()) as running:
        yield running


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One listener for the tests that change nothing."""
    with serving(board=a_board(), web=tmp_path_factory.mktemp("web"), wall=FakeClock()) as running:
        yield running


def give(served: Served, name: str = "anna", role: str = "operator", **more: object) -> str:
    """A new token's secret, given over the API."""
    answer = served.post("/api/v1/tokens", {"name": name, "role": role, **more})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["secret"])


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def sign_in(served: Served, secret: str, **headers: str) -> requests.Session:
    """A browser that signed in."""
    browser = requests.Session()
    answer = browser.post(served.url + "/api/v1/sign-in", json={"token": secret}, headers=headers, timeout=5)
    assert answer.status_code == 200, answer.text
    browser.headers.update({"Origin": served.url, CSRF_HEADER: answer.json()["csrf"]})
    return browser


def told(served: Served) -> list[tuple[str, str]]:
    return [(line.who, line.what) for line in served.register.lines]


def test_a_token_is_256_random_bits_and_only_its_hash_is_kept(served: Served) -> None:
    first, second = give(served), give(served)
    assert re.fullmatch(r"trimtab_[A-Za-z0-9_-]{43}", first)
    assert first != second
    kept = served.register.token_rows[1]
    assert kept.sha256 == digest(first)
    assert first not in repr(served.register.token_rows) + served.get("/api/v1/tokens").text
    assert told(served)[0] == ("operator", "gave a token")


def test_a_named_token_acts_under_its_persons_name_whatever_it_claims(served: Served) -> None:
    headers = {**bearer(give(served)), "X-Trimtab-Who": "ben"}
    answer = requests.post(served.url + "/api/v1/pause", json={"reason": "x"}, headers=headers, timeout=5)
    assert answer.status_code == 200
    assert served.memory.lines[-1].who == "anna"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
@pytest.mark.parametrize("role", Role)
def test_every_route_is_for_the_roles_that_it_says(steady: Served, route: object, role: Role) -> None:
    assert hasattr(route, "scope")
    _, secret = steady.door.passes.give_token(name="anna", role=role, lasts_seconds=None, by="operator")
    url = steady.url + route.path.replace("{id}", "4711").replace("{name}", "x")
    answer = requests.request(route.method, url, json={"nobody": "reads this"}, headers=bearer(secret), timeout=10)
    allowed = route.scope.needed is None or role.covers(route.scope.needed)
    if route.scope in (Scope.OPEN, Scope.METRICS):
        return
    assert (answer.status_code == 403 and "needs the role" in answer.text) is not allowed


def test_roles_contain_each_other_but_the_webhooks() -> None:
    covers = {role: {needed for needed in Role if role.covers(needed)} for role in Role}
    assert covers == {
        Role.VIEWER: {Role.VIEWER},
        Role.OPERATOR: {Role.VIEWER, Role.OPERATOR},
        Role.ADMIN: {Role.VIEWER, Role.OPERATOR, Role.ADMIN},
        Role.WEBHOOK: {Role.WEBHOOK},
    }


def test_a_viewer_who_approves_is_refused_and_written_down(served: Served) -> None:
    for browser, who in (
        (sign_in(served, give(served, "vera", "viewer")), "vera (page)"),
        (requests.Session(), "vera"),
    ):
        if who == "vera":
            browser.headers.update(bearer(give(served, "vera", "viewer")))
        answer = browser.post(served.url + APPROVE, json=FINGERPRINT, timeout=5)
        assert answer.status_code == 403
        assert answer.json()["error"] == f"This needs the role operator; {who} has the role viewer. Nothing was done."
        assert (who, f"refused POST {APPROVE}") in told(served)
        browser.close()
    assert served.memory.stored[11].state is CommandState.PROPOSED


def test_an_operator_approves_by_name_and_only_what_was_shown(served: Served) -> None:
    with sign_in(served, give(served)) as browser:
        stale = browser.post(served.url + APPROVE, json={"fingerprint": "0" * 16}, timeout=5)
        assert (stale.status_code, served.memory.stored[11].state) == (409, CommandState.PROPOSED)
        assert browser.post(served.url + APPROVE, json=FINGERPRINT, timeout=5).status_code == 200
    assert served.memory.stored[11].state is CommandState.APPROVED
    assert served.memory.stored[11].approved_by == "anna (page)"


def test_a_revoked_token_is_dead_at_once_and_so_are_its_sessions(served: Served) -> None:
    secret = give(served)
    with sign_in(served, secret) as browser:
        assert browser.get(served.url + "/api/v1/board", timeout=5).status_code == 200
        assert served.post("/api/v1/tokens/1/revoke", {"reason": "left the team"}).status_code == 200
        assert browser.get(served.url + "/api/v1/board", timeout=5).status_code == 401
    assert requests.get(served.url + "/api/v1/board", headers=bearer(secret), timeout=5).status_code == 401
    assert ("operator", "revoked a token") in told(served)
    assert served.post("/api/v1/tokens/99/revoke", {}).status_code == 404


def test_with_a_revoked_token_its_links_are_over_opened_or_not(served: Served) -> None:
    secret = give(served)

    def new_link() -> str:
        answer = requests.post(served.url + "/api/v1/links", json={}, headers=bearer(secret), timeout=5)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["url"])

    opened, unused = new_link(), new_link()
    with requests.Session() as browser:
        browser.get(opened, timeout=5)
        assert browser.get(served.url + "/api/v1/me", timeout=5).json()["name"] == "anna"
        assert served.post("/api/v1/tokens/1/revoke", {"reason": "left the team"}).status_code == 200
        assert browser.get(served.url + "/api/v1/me", timeout=5).status_code == 401
    with requests.Session() as browser:
        browser.get(unused, timeout=5)
        assert browser.get(served.url + "/api/v1/me", timeout=5).status_code == 401
    assert [line for line in served.register.lines if line.what == "signed in"][1:] == []


def test_a_token_runs_out_and_so_do_its_sessions(served: Served) -> None:
    secret = give(served, days=0.25)
    with sign_in(served, secret) as browser:
        served.wall.advance(DAY_SECONDS / 4 - 1)
        assert browser.get(served.url + "/api/v1/me", timeout=5).json()["name"] == "anna"
        served.wall.advance(1)
        assert browser.get(served.url + "/api/v1/me", timeout=5).status_code == 401
        assert requests.get(served.url + "/api/v1/me", headers=bearer(secret), timeout=5).status_code == 401
        answer = browser.post(served.url + "/api/v1/sign-in", json={"token": secret}, timeout=5)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert not served.get("/api/v1/tokens").json()["tokens"][0]["is_good"]


def test_when_a_token_was_last_used_is_noted_once_a_minute(served: Served) -> None:
    secret = give(served)
    for _ in range(3):
        requests.get(served.url + "/api/v1/me", headers=bearer(secret), timeout=5)
        served.wall.advance(NOTED_SECONDS - 1)
    used = served.register.token_rows[1].last_used_at
    assert used == served.wall.now() - timedelta(seconds=NOTED_SECONDS - 1)


def test_a_name_is_a_name(served: Served) -> None:
    for name in ("", "a b", "anna\n", "x" * 65, "(page)", "-x"):
        assert served.post("/api/v1/tokens", {"name": name, "role": "viewer"}).status_code == 422, name
    assert served.post("/api/v1/tokens", {"name": "Operator", "role": "viewer"}).status_code == 409
    assert served.register.token_rows == {}


def test_the_session_cookie_is_strict_and_no_script_reads_it(served: Served, tmp_path: Path) -> None:
    body = {"token": give(served)}
    answer = requests.post(served.url + "/api/v1/sign-in", json=body, timeout=5)
    cookie = answer.headers["set-cookie"].lower()
    assert ("httponly" in cookie, "samesite=strict" in cookie, "path=/" in cookie) == (True, True, True)
    assert "secure" not in cookie
    (tmp_path / "tls").mkdir()
    with serving(board=a_board(), web=tmp_path / "tls", public_url="https://trimtab.example") as behind_tls:
        answer = requests.post(behind_tls.url + "/api/v1/sign-in", json={"token": TOKEN}, timeout=5)
        assert "secure" in answer.headers["set-cookie"].lower()


def test_a_session_that_the_browser_brought_along_is_never_adopted(served: Served) -> None:
    name = "trimtab_session_" + served.url.rpartition(":")[2]
    secret = give(served)
    planted = {"Cookie": f"{name}=planted-by-somebody"}
    answer = requests.post(served.url + "/api/v1/sign-in", json={"token": secret}, headers=planted, timeout=5)
    assert answer.cookies[name] not in ("", "planted-by-somebody")
    assert requests.get(served.url + "/api/v1/me", headers=planted, timeout=5).status_code == 401


def test_signing_in_anew_ends_the_session_before(served: Served) -> None:
    with sign_in(served, give(served)) as browser:
        (before,) = browser.cookies.values()
        answer = browser.post(served.url + "/api/v1/sign-in", json={"token": TOKEN}, timeout=5)
        assert answer.json()["role"] == "admin"
        (after,) = browser.cookies.values()
        assert before != after
        browser.get(f"{served.url}/open/{served.door.new_link()}", timeout=5)
        assert len(served.register.session_rows) == 1
    for dead in (before, after):
        assert served.door.caller(Knock(session=dead)) is None


def test_an_act_by_cookie_needs_the_pages_origin_and_its_own_token(served: Served) -> None:
    with sign_in(served, give(served)) as browser:
        good = browser.headers[CSRF_HEADER]
        with sign_in(served, give(served, "ben")) as other:
            bens = other.headers[CSRF_HEADER]
        for origin, csrf in (
            (served.url, None),
            (served.url, ""),
            (served.url, bens),
            (served.url, good.decode() if isinstance(good, bytes) else good[:-1]),
            ("http://evil.example", good),
            ("null", good),
            (None, good),
        ):
            browser.headers.update({"Origin": origin, CSRF_HEADER: csrf})
            answer = browser.post(served.url + "/api/v1/pause", json={"reason": "x"}, timeout=5)
            assert (answer.status_code, served.memory.paused) == (403, False), (origin, csrf)
        assert ("anna (page)", "refused POST /api/v1/pause") in told(served)
        browser.headers.update({"Origin": served.url, CSRF_HEADER: good})
        assert browser.post(served.url + "/api/v1/pause", json={"reason": "x"}, timeout=5).status_code == 200


def test_another_page_cannot_sign_our_visitors_in(served: Served) -> None:
    body = {"token": give(served)}
    answer = requests.post(
        served.url + "/api/v1/sign-in", json=body, headers={"Origin": "http://evil.example"}, timeout=5
    )
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    form = requests.post(served.url + "/api/v1/sign-in", data=body, timeout=5)
    assert (form.status_code, "set-cookie" in form.headers) == (415, False)


def test_a_webhooks_token_opens_webhooks_alone(served: Served) -> None:
    secret = give(served, "alertmanager", "webhook")
    answer = requests.post(served.url + "/api/v1/sign-in", json={"token": secret}, timeout=5)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    for path in ("/api/v1/board", "/api/v1/me", "/api/v1/events", "/api/v1/stream"):
        assert requests.get(served.url + path, headers=bearer(secret), timeout=5).status_code in (401, 403)


def test_who_am_i(served: Served) -> None:
    assert served.get("/api/v1/me", headers={"X-Trimtab-Who": "carl"}).json() == {
        "name": "operator:carl",
        "role": "admin",
        "signed_in_by": "token",
        "csrf": "",
        "session_id": None,
        "expires_at": None,
    }
    with sign_in(served, give(served, "vera", "viewer")) as browser:
        me = browser.get(served.url + "/api/v1/me", timeout=5).json()
    assert (me["name"], me["role"], me["signed_in_by"], me["session_id"]) == ("vera", "viewer", "token", 1)
    assert me["expires_at"] == "2026-11-02T21:00:00Z"


def test_signing_out_ends_the_session_on_the_server(served: Served) -> None:
    with sign_in(served, give(served)) as browser:
        (kept,) = browser.cookies.values()
        answer = browser.post(served.url + "/api/v1/sign-out", json={}, timeout=5)
        assert (answer.status_code, browser.cookies.values()) == (200, [])
    assert served.door.caller(Knock(session=kept)) is None
    assert told(served)[-1] == ("anna", "signed out")
    assert served.post("/api/v1/sign-out", {}).status_code == 409


def test_one_ends_ones_own_sessions_and_an_admin_anybodys(served: Served) -> None:
    with sign_in(served, give(served)) as annas, sign_in(served, give(served, "ben")) as bens:
        shown = annas.get(served.url + "/api/v1/sessions", timeout=5).json()["sessions"]
        assert [(one["who"], one["is_this"]) for one in shown] == [("anna", True)]
        assert annas.post(served.url + "/api/v1/sessions/2/end", json={}, timeout=5).status_code == 404
        assert bens.get(served.url + "/api/v1/me", timeout=5).status_code == 200
        everybody = served.get("/api/v1/sessions").json()["sessions"]
        assert [one["who"] for one in everybody] == ["anna", "ben"]
        assert served.post("/api/v1/sessions/2/end", {}).status_code == 200
        assert bens.get(served.url + "/api/v1/me", timeout=5).status_code == 401
        assert annas.post(served.url + "/api/v1/sessions/1/end", json={}, timeout=5).status_code == 200
        assert annas.get(served.url + "/api/v1/me", timeout=5).status_code == 401
    assert ("operator", "ended a session of ben") in told(served)


def test_a_restart_signs_nobody_out_and_open_pages_go_on_working(served: Served, tmp_path: Path) -> None:
    with sign_in(served, give(served)) as browser:
        (secret,) = browser.cookies.values()
        csrf = browser.headers[CSRF_HEADER]
    (tmp_path / "again").mkdir()
    with serving(board=a_board(), web=tmp_path / "again", wall=served.wall, register=served.register) as again:
        port = again.url.rpartition(":")[2]
        headers = {"Cookie": f"trimtab_session_{port}={secret}", "Origin": again.url, CSRF_HEADER: str(csrf)}
        answer = requests.post(again.url + "/api/v1/pause", json={"reason": "x"}, headers=headers, timeout=5)
        assert answer.status_code == 200
        assert again.memory.lines[-1].who == "anna (page)"


def test_who_is_signed_in_stays_so_while_the_database_is_away(served: Served) -> None:
    with sign_in(served, give(served)) as browser:
        assert browser.get(served.url + "/api/v1/board", timeout=5).status_code == 200
        served.register.is_away = True
        served.wall.advance(FRESH_SECONDS + 1)
        assert browser.get(served.url + "/api/v1/board", timeout=5).status_code == 200
        unknown = requests.get(served.url + "/api/v1/board", headers=bearer("trimtab_" + "x" * 43), timeout=5)
        assert unknown.status_code == 503  # not 401: it may be a good one
        assert served.get("/api/v1/board").status_code == 200  # the operator's own token needs no database
        served.wall.advance(12 * 3600.0)
        assert browser.get(served.url + "/api/v1/board", timeout=5).status_code == 401


def test_what_is_taken_away_while_it_is_read_is_not_believed_afterwards(served: Served) -> None:
    secret = give(served)
    served.register.at_read = lambda: revoke_once(served)
    requests.get(served.url + "/api/v1/me", headers=bearer(secret), timeout=5)
    assert requests.get(served.url + "/api/v1/me", headers=bearer(secret), timeout=5).status_code == 401


def revoke_once(served: Served) -> None:
    served.register.at_read = lambda: None
    served.door.passes.revoke(1, by="operator")


def test_a_token_that_another_daemon_revoked_is_dead_within_seconds(served: Served) -> None:
    secret = give(served)
    assert requests.get(served.url + "/api/v1/me", headers=bearer(secret), timeout=5).status_code == 200
    reads = served.register.reads
    assert requests.get(served.url + "/api/v1/me", headers=bearer(secret), timeout=5).status_code == 200
    assert served.register.reads == reads  # believed without asking
    FakeRegister.revoke_person_token(served.register, 1, served.wall.now(), served.register.lines[0])
    served.wall.advance(FRESH_SECONDS)
    assert requests.get(served.url + "/api/v1/me", headers=bearer(secret), timeout=5).status_code == 401


def test_a_link_is_for_ones_own_role_at_most_and_never_for_an_admins(served: Served) -> None:
    vera = bearer(give(served, "vera", "viewer"))
    assert served.post("/api/v1/links", {"role": "operator"}, headers=vera).status_code == 403
    for headers, role in ((vera, "viewer"), ({}, "operator")):
        with requests.Session() as browser:
            browser.get(served.post("/api/v1/links", {}, headers=headers).json()["url"], timeout=5)
            assert browser.get(served.url + "/api/v1/me", timeout=5).json()["role"] == role


def test_every_kind_of_answer_has_the_security_headers(steady: Served) -> None:
    asked = {
        200: ("GET", "/api/v1/me", {"Authorization": f"Bearer {TOKEN}"}),
        401: ("GET", "/api/v1/me", {}),
        403: ("POST", "/api/v1/sign-in", {"Origin": "http://evil.example"}),
        404: ("GET", "/nothing", {}),
        405: ("PUT", "/api/v1/me", {}),
        422: ("POST", "/api/v1/sign-in", {}),
    }
    for status, (method, path, headers) in asked.items():
        answer = requests.request(method, steady.url + path, headers=headers, json={}, timeout=5)
        assert answer.status_code == status
        policy = answer.headers["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"):
            assert part in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers


def test_links_in_messages_change_nothing(served: Served) -> None:
    with sign_in(served, give(served)) as browser:
        before = (dict(served.memory.stored), served.memory.paused, len(served.memory.lines))
        for path in ("/r/11", "/f/31", "/node/gpu-01", "/?approve=11", "/r/11?approve=yes"):
            assert browser.get(served.url + path, timeout=5).status_code == 200
        assert browser.get(served.url + APPROVE, timeout=5).status_code == 405
        assert (dict(served.memory.stored), served.memory.paused, len(served.memory.lines)) == before
