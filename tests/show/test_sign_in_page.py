"""The sign-in form in a real browser: who is not signed in is asked to, at the address that they came for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser import CHROMIUM, INSTALL, Page, browsing
from tests.fakes.hall import a_hall_served
from tests.fakes.people import TOKEN, Served

from trimtab.model.command import CommandState
from trimtab.model.people import Role
from trimtab.show.auth import Knock

pytestmark = pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=INSTALL)

AXE = (Path(__file__).parent.parent / "fixtures" / "axe" / "axe.min.js").read_text(encoding="utf-8")
FORM = "document.querySelector('#sign-in')?.open"
ROLE = "document.body.dataset.role"
LIVE, SAY, SIGNIN = (
    f"import(new URL('{name}.js', document.querySelector('script[src*=signin]').src))"
    for name in ("live", "say", "signin")
)
"""The page's own modules: their address has the edition in it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with browsing() as page:
        yield page


@pytest.fixture
def served() -> Iterator[Served]:
    with a_hall_served() as running:
        yield running


@pytest.fixture
def page(browser: Page, served: Served) -> Iterator[Page]:
    browser.problems.clear()
    browser.send("Network.clearBrowserCookies")
    yield browser
    browser.open("about:blank#away")


def sign_in(page: Page, token: str) -> None:
    page.ask(f"document.querySelector('#sign-in-token').value = {token!r}")
    page.ask("document.querySelector('#sign-in form').requestSubmit()")


def policy_problems(page: Page) -> list[str]:
    """What the page's own policy forbade."""
    return [each for each in page.problems if "policy" in each.lower()]


def test_who_is_not_signed_in_gets_the_form_and_stays_at_the_address(page: Page, served: Served) -> None:
    _, secret = served.door.passes.give_token(name="anna", role=Role.OPERATOR, lasts_seconds=None, by="operator")
    page.open(f"{served.url}/r/11")
    page.until(FORM)
    assert page.ask("document.activeElement.id") == "sign-in-token"
    sign_in(page, "trimtab_" + "x" * 43)
    page.until("!document.querySelector('#sign-in .error').hidden")
    assert "not known" in page.text("#sign-in .error")
    sign_in(page, secret)
    page.until(f"{ROLE} === 'operator'")
    assert page.ask("location.pathname") == "/r/11"
    assert not page.ask(FORM)
    assert [line.what for line in served.register.lines if line.who == "anna"] == ["signed in"]
    assert page.ask("document.cookie") == ""  # HttpOnly: no script reads it
    assert policy_problems(page) == []


def test_escape_does_not_leave_the_form_for_what_is_not_there(page: Page, served: Served) -> None:
    page.open(served.url)
    page.until(FORM)
    page.key("Escape")
    page.ask("new Promise((turned) => requestAnimationFrame(() => setTimeout(turned)))")  # `close` has been heard
    assert page.ask(FORM)


def test_a_session_that_an_admin_ends_asks_to_sign_in_again(page: Page, served: Served) -> None:
    page.open(f"{served.url}/open/{served.door.new_link(who='operator:ben')}")
    page.until(f"{ROLE} === 'operator'")
    (session,) = served.door.passes.sessions()
    served.post(f"/api/v1/sessions/{session.id}/end", {})
    page.ask(f"{LIVE}.then((live) => live.get('/api/v1/me').catch(() => 0))")
    page.until(FORM)
    assert page.text("#sign-in .error")
    assert served.door.caller(Knock(authorization=f"Bearer {TOKEN}")) is not None


def test_signing_out_ends_the_session_on_the_server(page: Page, served: Served) -> None:
    page.open(f"{served.url}/open/{served.door.new_link()}")
    page.until(f"{ROLE} === 'operator'")
    assert len(served.door.passes.sessions()) == 1
    page.ask(f"{SIGNIN}.then((signin) => {{ signin.signOut(); }})")
    page.until(FORM)
    assert served.door.passes.sessions() == ()


def test_a_viewers_page_offers_no_decision_and_a_forced_one_is_refused(page: Page, served: Served) -> None:
    secret = served.door.passes.give_token(name="vera", role=Role.VIEWER, lasts_seconds=None, by="operator")[1]
    page.open(served.url)
    page.until(FORM)
    sign_in(page, secret)
    page.until(f"{ROLE} === 'viewer'")
    page.until("document.querySelector('#todo .command')")
    assert page.ask("document.querySelectorAll('#todo button.primary').length") == 0
    fingerprint = served.memory.stored[11].recommendation.fingerprint
    said = page.ask(
        f"{LIVE}.then((live) => live.post('/api/v1/recommendations/11/approve',"
        f" {{fingerprint: '{fingerprint}'}}).catch((error) => error.message))"
    )
    assert said == "This needs the role operator; vera (page) has the role viewer. Nothing was done."
    assert served.memory.stored[11].state is CommandState.PROPOSED


def test_in_chinese_too(page: Page, served: Served) -> None:
    page.open(served.url)
    page.until(FORM)
    page.ask(f"{SAY}.then((say) => say.speak('zh-CN'))")
    page.until("document.querySelector('#sign-in-title').textContent === '登录 trimtab'")
    page.ask(f"{SAY}.then((say) => say.speak('en'))")
    page.until("document.querySelector('#sign-in-title').textContent === 'Sign in to trimtab'")


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_finds_nothing_serious_in_the_form(page: Page, served: Served, scheme: str) -> None:
    page.prefer(color_scheme=scheme)
    page.open(served.url)
    page.until(FORM)
    sign_in(page, "wrong")
    page.until("!document.querySelector('#sign-in .error').hidden")
    page.ask(AXE)
    found = page.ask(
        "axe.run('#sign-in').then((told) => told.violations.map((one) => `${one.impact} ${one.id}: ${one.help}`))"
    )
    assert found == []
