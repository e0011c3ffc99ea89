"""Single sign-on by a proxy's headers: believed from listed peers alone, and what their groups are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.fakes.clock import FakeClock
from tests.fakes.people import TOKEN, Served, a_board, a_recommendation, serving

from trimtab.errors import SettingsError
from trimtab.model.command import CommandState
from trimtab.model.people import Role
from trimtab.settings import DaemonSettings, PeopleSettings, from_table
from trimtab.show.auth import CSRF_HEADER
from trimtab.show.proxied import Forged, Proxied, Proxies, proxies_of

ROLES = {"*": Role.VIEWER, "gpu-oncall": Role.OPERATOR, "gpu-admins": Role.ADMIN}
APPROVE = "/api/v1/recommendations/11/approve"
FINGERPRINT = {"fingerprint": a_recommendation().fingerprint}


def headers(**given: str | Sequence[str]) -> Callable[[str], Sequence[str]]:
    kept = {name.replace("_", "-").lower(): value for name, value in given.items()}

    def values(name: str) -> Sequence[str]:
        found = kept.get(name.lower(), ())
        return (found,) if isinstance(found, str) else found

    return values


def a_proxy(**changes: Any) -> Proxies:
    return Proxies(**{"peers": ("10.0.0.7", "fd00::/8"), "roles": ROLES, **changes})


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        ("", Role.VIEWER),
        ("research", Role.VIEWER),
        ("research, gpu-oncall", Role.OPERATOR),
        ("gpu-admins,gpu-oncall", Role.ADMIN),
        ("GPU-ADMINS", Role.VIEWER),
        (["research", "gpu-oncall"], Role.OPERATOR),
    ],
)
def test_the_highest_role_of_ones_groups_counts(groups: str | list[str], role: Role) -> None:
    found = a_proxy().who("10.0.0.7", headers(X_Forwarded_User="anna", X_Forwarded_Groups=groups))
    assert found == Proxied(name="anna", role=role)


def test_a_proxy_that_tells_no_groups_lets_none_of_a_clients_count() -> None:
    claims = headers(X_Forwarded_User="anna", X_Forwarded_Groups="gpu-admins")
    assert a_proxy(groups_header="").who("10.0.0.7", claims) == Proxied(name="anna", role=Role.VIEWER)
    assert a_proxy(groups_header="").who("10.0.0.8", headers(X_Forwarded_Groups="gpu-admins")) is None


def test_without_a_role_for_everybody_strangers_to_the_groups_have_none() -> None:
    only = a_proxy(roles={"gpu-oncall": Role.OPERATOR})
    assert only.who("10.0.0.7", headers(X_Forwarded_User="anna")) == Proxied(name="anna", role=None)


@pytest.mark.parametrize("peer", ["10.0.0.8", "127.0.0.1", "::1", "", "10.0.0.7.evil", "fc00::1"])
def test_from_anybody_else_the_headers_are_forged(peer: str) -> None:
    for given in (headers(X_Forwarded_User="anna"), headers(X_Forwarded_Groups="gpu-admins")):
        assert isinstance(a_proxy().who(peer, given), Forged)
    assert a_proxy().who(peer, headers(X_Forwarded_For="10.0.0.7")) is None


@pytest.mark.parametrize("peer", ["10.0.0.7", "::ffff:10.0.0.7", "fd00::1"])
def test_listed_peers_are_known_in_each_spelling(peer: str) -> None:
    assert a_proxy().who(peer, headers(X_Forwarded_User="anna")) == Proxied(name="anna", role=Role.VIEWER)


def test_a_proxy_that_appends_where_it_should_replace_is_not_believed() -> None:
    found = a_proxy().who("10.0.0.7", headers(X_Forwarded_User=["admin", "anna"]))
    assert isinstance(found, Forged)
    assert "does not strip" in found.why


def test_where_the_proxy_has_a_secret_its_address_alone_does_not_do() -> None:
    strict = a_proxy(secret="s" * 32)
    assert isinstance(strict.who("10.0.0.7", headers(X_Forwarded_User="anna")), Forged)
    wrong = headers(X_Forwarded_User="anna", X_Trimtab_Proxy_Secret="s" * 31)
    assert isinstance(strict.who("10.0.0.7", wrong), Forged)
    right = headers(X_Forwarded_User="anna", X_Trimtab_Proxy_Secret="s" * 32)
    assert strict.who("10.0.0.7", right) == Proxied(name="anna", role=Role.VIEWER)


@pytest.mark.parametrize(
    "told",
    ["alice, bob", "alice,bob", "anna\t(page) approved", "anna<script>", "anna smith", "x" * 65, "operator:root"],
)
def test_a_name_that_is_not_clean_is_nobodys_and_not_made_into_another(told: str) -> None:
    found = a_proxy().who("10.0.0.7", headers(X_Forwarded_User=told, X_Forwarded_Groups="gpu-admins"))
    assert isinstance(found, Forged)
    assert "no clean name" in found.why
    assert "\t" not in found.why


def test_blanks_around_a_name_and_an_empty_one_are_no_forgery() -> None:
    assert a_proxy().who("10.0.0.7", headers(X_Forwarded_User=" anna ")) == Proxied(name="anna", role=Role.VIEWER)
    assert a_proxy().who("10.0.0.7", headers(X_Forwarded_User=" ")) is None


def test_whose_attempts_count_is_the_last_that_is_no_proxy() -> None:
    proxies = a_proxy()
    told = headers(X_Forwarded_For="6.6.6.6, 192.0.2.4, 10.0.0.7")
    assert proxies.client("10.0.0.7", told) == "192.0.2.4"
    assert proxies.client("192.0.2.9", told) == "192.0.2.9"
    assert proxies.client("10.0.0.7", headers(X_Forwarded_For="nonsense")) == "10.0.0.7"


def test_settings_say_what_is_wrong_with_them(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"'10\.0\.0' is no address and no network"):
        proxies_of(PeopleSettings(proxy_peers=("10.0.0",), proxy_roles={"*": "viewer"}))
    with pytest.raises(SettingsError, match="nobody would have a role"):
        proxies_of(PeopleSettings(proxy_peers=("10.0.0.7",)))
    with pytest.raises(SettingsError, match="is no name of a header"):
        proxies_of(PeopleSettings(proxy_user_header="X Forwarded User"))
    with pytest.raises(SettingsError, match=r"people\.proxy_roles"):
        from_table({"people": {"proxy_roles": {"a": "webhook"}}}, DaemonSettings, where="x")


def ask(served: Served, method: str, path: str, **more: Any) -> requests.Response:
    return requests.request(method, served.url + path, timeout=5, **more)


def test_forged_headers_from_an_unlisted_peer_are_ignored_and_written_down(tmp_path: Path) -> None:
    forged = {"X-Forwarded-User": "root", "X-Forwarded-Groups": "gpu-admins", "X-Forwarded-For": "10.0.0.7"}
    with serving(board=a_board(), web=tmp_path, wall=FakeClock(), proxies=a_proxy()) as served:
        assert ask(served, "GET", "/api/v1/me", headers=forged).status_code == 401
        forged["Origin"] = served.url
        assert ask(served, "POST", APPROVE, headers=forged, json=FINGERPRINT).status_code == 401
        assert served.memory.stored[11].state is CommandState.PROPOSED
        (line,) = served.register.lines  # one for both: outsiders do not fill the audit
        assert (line.who, line.what) == ("peer 127.0.0.1", "ignored a proxy's headers")
        assert "no listed proxy" in line.why
        # Who has a right of their own keeps it, under their own name.
        assert served.get("/api/v1/me", headers=forged).json()["name"] == "operator"


def test_a_name_that_is_not_clean_has_no_right_and_is_written_down(tmp_path: Path) -> None:
    near = a_proxy(peers=("127.0.0.1",))
    with serving(board=a_board(), web=tmp_path, wall=FakeClock(), proxies=near) as served:
        two = {"X-Forwarded-User": "alice, bob", "X-Forwarded-Groups": "gpu-admins"}
        assert ask(served, "GET", "/api/v1/me", headers=two).status_code == 401
        (line,) = served.register.lines
        assert (line.what, "'alice, bob'" in line.why) == ("ignored a proxy's headers", True)


def test_whom_a_listed_proxy_signed_in_acts_under_their_name_and_role(tmp_path: Path) -> None:
    near = a_proxy(peers=("127.0.0.1",))
    with serving(board=a_board(), web=tmp_path, wall=FakeClock(), proxies=near) as served:
        vera = {"X-Forwarded-User": "vera@example.com", "Origin": served.url}
        me = ask(served, "GET", "/api/v1/me", headers=vera).json()
        assert (me["name"], me["role"], me["signed_in_by"]) == ("vera@example.com (proxy)", "viewer", "proxy")
        vera[CSRF_HEADER] = me["csrf"]
        assert ask(served, "POST", APPROVE, headers=vera, json=FINGERPRINT).status_code == 403
        assert served.register.lines[-1].who == "vera@example.com (proxy)"
        anna = {"X-Forwarded-User": "anna", "X-Forwarded-Groups": "gpu-oncall", "Origin": served.url}
        assert ask(served, "POST", APPROVE, headers=anna, json=FINGERPRINT).status_code == 403  # no token of the page
        assert (
            ask(served, "POST", APPROVE, headers={**anna, CSRF_HEADER: me["csrf"]}, json=FINGERPRINT).status_code == 403
        )
        anna[CSRF_HEADER] = ask(served, "GET", "/api/v1/me", headers=anna).json()["csrf"]
        evil = {**anna, "Origin": "http://evil.example"}
        assert ask(served, "POST", APPROVE, headers=evil, json=FINGERPRINT).status_code == 403
        assert ask(served, "POST", APPROVE, headers=anna, json=FINGERPRINT).status_code == 200
        assert served.memory.stored[11].approved_by == "anna (proxy)"


def test_who_is_in_no_group_of_ours_is_told_so(tmp_path: Path) -> None:
    near = a_proxy(peers=("127.0.0.1",), roles={"gpu-oncall": Role.OPERATOR})
    with serving(board=a_board(), web=tmp_path, wall=FakeClock(), proxies=near) as served:
        answer = ask(served, "GET", "/api/v1/board", headers={"X-Forwarded-User": "carl"})
        assert (answer.status_code, "people.proxy_roles" in answer.text) == (403, True)
        assert ask(served, "GET", "/api/v1/stream", headers={"X-Forwarded-User": "carl"}).status_code == 401


def test_a_bearer_of_the_proxys_own_kind_says_nothing_here_and_ours_comes_first(tmp_path: Path) -> None:
    near = a_proxy(peers=("127.0.0.1",))
    with serving(board=a_board(), web=tmp_path, wall=FakeClock(), proxies=near) as served:
        both = {"X-Forwarded-User": "anna", "Authorization": "Bearer eyJhbGciOi.x.y"}
        assert ask(served, "GET", "/api/v1/me", headers=both).json()["name"] == "anna (proxy)"
        both["Authorization"] = f"Bearer {TOKEN}"
        assert ask(served, "GET", "/api/v1/me", headers=both).json()["name"] == "operator"
        both["Authorization"] = "Bearer trimtab_" + "x" * 43
        assert ask(served, "GET", "/api/v1/me", headers=both).status_code == 401


def test_behind_a_listed_proxy_with_tls_the_cookie_is_for_tls_alone(tmp_path: Path) -> None:
    near = a_proxy(peers=("127.0.0.1",))
    tls = {"X-Forwarded-Proto": "https"}
    with serving(board=a_board(), web=tmp_path, wall=FakeClock(), proxies=near) as served:
        answer = ask(served, "POST", "/api/v1/sign-in", json={"token": TOKEN}, headers=tls)
        assert "secure" in answer.headers["set-cookie"].lower()
