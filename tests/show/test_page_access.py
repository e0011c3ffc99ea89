"""The page for everybody: axe-core on each view, keys alone, both languages, roles, names that are markup, a phone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.browser import CHROMIUM, INSTALL, Page, browsing
from tests.fakes.hall import NOW, a_hall, a_hall_served
from tests.fakes.past import HallPast
from tests.fakes.people import Served

from trimtab.model.alerts import AlertPlace, AlertState, ForeignAlert, Quiet
from trimtab.model.command import CommandState
from trimtab.model.people import Role

pytestmark = pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=INSTALL)

AXE = (Path(__file__).parent.parent / "fixtures" / "axe" / "axe.min.js").read_text(encoding="utf-8")
READY = "document.querySelector('#todo .row, #todo .empty') && document.body.dataset.role"
VIEWS = {
    "start": ("/", "#fleet canvas"),
    "recommendation": ("/r/11", "#detail .uplot"),
    "make room": ("/r/12", "#detail .picture canvas"),
    "finding": ("/f/29", "#detail .uplot"),
    "node": ("/node/gpu-12", "#detail .uplot"),
    "job": ("/job/research/llama-70b", "#detail .heat canvas"),
    "waiting job": ("/job/research/eval-9", "#detail .causes"),
    "queue": ("/queue/research", "#detail .quota"),
    "past": ("/?at=2026-11-02T12:00:00Z", "#notices .past b"),
}
RUN_AXE = """
const runOnly = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
return axe.run(document, { runOnly }).then((found) =>
  found.violations.filter((one) => one.impact === 'serious' || one.impact === 'critical')
    .map((one) => `${one.id}: ${one.help}: ${one.nodes.map((n) => n.target.join(' ') + ' ' + (n.any[0]?.message || ''))
      .slice(0, 4).join(' | ')}`))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with browsing() as page:
        yield page


@pytest.fixture
def served() -> Iterator[Served]:
    quiet = Quiet(
        kind="maintenance", name="M3", about="rack r3", until=NOW + timedelta(hours=1), who="anna", why="switches",
        findings=("F30",),
    )  # fmt: skip
    alert = ForeignAlert(
        fingerprint="a1", starts_at=NOW - timedelta(minutes=3), state=AlertState.FIRING, name="SwitchPortDown",
        labels={}, annotations={"summary": "port 7 of the switch in r3 is down"}, place=AlertPlace(node="gpu-17"),
        heard_at=NOW,
    )  # fmt: skip
    with a_hall_served(replace(a_hall(), quiet=(quiet,), alerts=(alert,)), past=HallPast()) as running:
        yield running


@pytest.fixture
def page(browser: Page, served: Served) -> Iterator[Page]:
    yield from opened(browser, served)


def opened(browser: Page, served: Served, role: Role = Role.OPERATOR) -> Iterator[Page]:
    browser.problems.clear()
    browser.size(1400, 860)
    browser.prefer(color_scheme="light", reduced_motion="no-preference")
    browser.open(f"{served.url}/open/{served.door.new_link(role=role)}")
    browser.until(READY)
    browser.ask("localStorage.clear()")
    yield browser
    policy = [text for text in browser.problems if "policy" in text.lower() or "Error" in text]
    browser.open("about:blank#away")
    assert policy == []


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(page: Page, served: Served, view: str, scheme: str) -> None:
    path, ready = VIEWS[view]
    page.size(1400, 3600)  # all of it at once: what scrolls under the scrubber is not hidden for good
    page.prefer(color_scheme=scheme, reduced_motion="reduce")
    page.open(served.url + path)
    page.until(READY)
    page.until(f"document.querySelector({json.dumps(ready)})")
    page.ask("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.ask(AXE + "; 0")
    assert page.ask("(() => {" + RUN_AXE + "})()") == []


def test_axe_finds_nothing_serious_in_what_opens_over_the_page(page: Page) -> None:
    page.click("#pause button")
    page.until("document.querySelector('#pause form')")
    page.click(".search input")
    page.type("gpu-1")
    page.until("document.querySelector('#found [aria-selected=true]')")
    page.ask(AXE + "; 0")
    assert page.ask("(() => {" + RUN_AXE + "})()") == []


def focused(page: Page) -> str:
    return str(
        page.ask("(e => e.getAttribute('aria-label') || e.innerText || e.id || e.tagName)(document.activeElement)")
    )


def tab_to(page: Page, label: str, most: int = 60) -> None:
    seen = []
    for _ in range(most):
        page.key("Tab")
        seen.append(focused(page))
        if seen[-1].startswith(label):
            outline = page.ask("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"{label} has the focus and does not show it"
            return
    raise AssertionError(f"{label} is not reached by Tab: {seen}")


def test_keys_alone_are_enough_to_look_reject_and_pause(page: Page, served: Served) -> None:
    page.key("Tab")
    assert focused(page) == "Skip to what to do"
    page.key("Enter", "\r")
    page.until("document.activeElement.id === 'todo'")
    tab_to(page, "why R12")
    page.key("Enter", "\r")
    page.until("document.querySelector('#detail h2')?.innerText.startsWith('R12')")
    page.until("document.activeElement.tagName === 'H2'")
    tab_to(page, "reject")
    page.key("Enter", "\r")
    tab_to(page, "reject R12")
    page.key("Enter", "\r")
    page.until("document.querySelector('#detail .standing').innerText.startsWith('rejected')")
    assert served.memory.stored[12].state is CommandState.REJECTED
    page.key("Escape")
    page.until("document.querySelector('#detail').hidden")
    page.ask("document.querySelector('#mode').scrollIntoView(); document.querySelector('.brand').focus()")
    tab_to(page, "pause")
    page.key("Enter", "\r")
    page.until("document.querySelector('#pause input')")
    page.key("Tab")
    page.type("switch work")
    page.key("Enter", "\r")
    page.until("document.querySelector('#notices').innerText.includes('Paused')")
    assert served.memory.is_paused()


def test_chinese_is_one_press_away_everywhere_and_remembered(page: Page, served: Served) -> None:
    page.click("#language [lang='zh-CN']")
    page.until("document.querySelector('#todo-title').innerText === '要做什么'")
    for view, (path, ready) in VIEWS.items():
        page.open(served.url + path)
        page.until(READY)
        page.until(f"document.querySelector({json.dumps(ready)})")
        assert page.ask("document.documentElement.lang") == "zh-CN"
        raw = page.ask(
            "[...document.querySelectorAll('body *')].flatMap((e) => [...e.childNodes].filter((n) => n.nodeType === 3)"
            ".map((n) => n.data.trim()))"
            ".filter((s) => /^[a-z]+(-[a-z0-9]+)+$/.test(s) && !/^[a-z]+-\\d+[a-z]?$/.test(s))"
        )
        names = {job.name for job in a_hall().jobs} | {job.id for job in a_hall().jobs}
        assert {text for text in raw if text not in names} <= {"hall-a", "make-room"}, f"keys without a text in {view}"
    page.open(served.url + "/r/11")
    page.until(READY)
    assert page.text("#detail .primary") == "批准"
    assert "每小时" not in page.text("#strip")
    page.click("#language [lang='en']")
    page.until("document.querySelector('#todo-title').innerText === 'What to do'")


def test_the_browsers_language_is_the_first_guess(page: Page, served: Served) -> None:
    page.send("Emulation.setUserAgentOverride", userAgent="test", acceptLanguage="zh-CN")
    page.open(served.url + "/")
    page.until("document.querySelector('#todo-title')?.innerText === '要做什么'")
    page.send("Emulation.setUserAgentOverride", userAgent="test", acceptLanguage="en-GB")


def test_a_viewer_sees_everything_and_no_button_that_decides(browser: Page, served: Served) -> None:
    for page in opened(browser, served, Role.VIEWER):
        page.until("document.body.dataset.role === 'viewer'")
        page.until("document.querySelector('#person').innerText.includes('viewer')")
        page.open(served.url + "/r/11")
        page.until(READY)
        page.until("document.querySelector('#detail .steps')")
        decide = "#todo .primary, #detail .decisions button, #pause button"
        assert page.ask(f"document.querySelector({json.dumps(decide)})") is None
        assert "An operator may approve it here, or by: trimtab approve R11" in page.text("#detail")


def test_names_that_are_markup_are_names(page: Page, served: Served) -> None:
    evil = "<img src=x onerror=document.title='owned'>"
    hall = a_hall(at=NOW + timedelta(seconds=5))
    nodes = (
        replace(hall.nodes[0], name=evil, rack=evil, model=evil, cordoned_by=evil, is_cordoned=True,
                cells=tuple(replace(cell, uuid=f"{evil}{cell.index}") for cell in hall.nodes[0].cells)),
        *hall.nodes[1:],
    )  # fmt: skip
    jobs = tuple(replace(job, name=evil, queue=evil, why=f"{evil} {job.why}") for job in hall.jobs)
    queues = tuple(replace(queue, name=evil, cohort=evil, held_by=evil) for queue in hall.queues)
    served.box.publish(replace(hall, nodes=nodes, jobs=jobs, queues=queues, blind=(evil,), notes=(evil,)))
    page.until("document.querySelector('#waits').innerText.includes('onerror')")
    page.ask("document.querySelector('.fleet-box .overlay').focus()")
    page.key("ArrowDown")
    page.until("document.querySelector('.tip').innerText.includes('onerror')")
    page.click("#fleet .fleet-table summary")
    page.until("document.querySelector('#fleet .fleet-table tbody').innerText.includes('onerror')")
    page.click("#waits .queue-line a")
    page.until("document.querySelector('#detail .quota')")
    page.click(".search input")
    page.type("onerror")
    page.until("document.querySelector('#found [aria-selected=true]')")
    page.key("Enter", "\r")
    page.until("document.querySelector('#detail h2')?.innerText.includes('onerror')")
    assert page.ask("document.querySelectorAll('body img, body script').length") == 0
    assert page.ask("document.title") == "(2) hall-a · trimtab"


def test_what_keeps_people_asleep_is_said(page: Page) -> None:
    assert "Maintenance: rack r3 pages nobody until" in page.text("#notices .quiet")
    assert "Kept quiet by it: F30" in page.text("#notices .quiet")
    assert "in maintenance" in page.text("#wrong")
    page.click("#todo details.alerts summary")
    said = "SwitchPortDown gpu-17 port 7 of the switch in r3 is down. 3 min ago"
    page.until(f"document.querySelector('#todo details.alerts').innerText.includes({json.dumps(said)})")


def test_a_pods_name_leads_to_its_job(page: Page) -> None:
    page.click(".search input")
    page.type("llama-70b-2")
    page.until("document.querySelector('#found [aria-selected=true]')")
    page.key("Enter", "\r")
    page.until("document.querySelector('#detail h2')?.innerText === 'llama-70b'")


def test_every_grouping_and_colour_draws(page: Page) -> None:
    for what, options in {
        "Group by": ("queue", "job", "model", "none", "rack"),
        "Order": ("free", "name"),
        "Colour by": ("temperature", "findings", "activity"),
    }.items():
        for option in options:
            select = f"document.querySelector('#fleet select[aria-label=\"{what}\"]')"
            page.ask(f"{select}.value = '{option}'; {select}.dispatchEvent(new Event('change', {{bubbles: true}})); 0")
            page.until(f"{select}.value === '{option}'")
            page.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            painted = page.ask(
                "(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 === 3 && v)"
                ".length)(document.querySelector('.fleet-box canvas'))"
            )
            assert painted > 10_000, (what, option)


def test_a_phone_sees_approves_and_pauses(page: Page, served: Served) -> None:
    page.size(390, 844, scale=2, is_phone=True)
    for path in ("/queue/research", "/job/research/llama-70b", "/?at=2026-11-02T12:00:00Z"):
        page.open(served.url + path)
        page.until(READY)
        assert page.ask("document.documentElement.scrollWidth") <= 390
    page.open(served.url + "/")
    page.until(READY)
    page.until("document.querySelector('#person button')?.innerText == 'sign out'")
    assert page.ask("document.querySelector('#todo').getBoundingClientRect().top") < 844 / 3, "what to do comes soon"
    page.click("#todo .command .primary")
    page.until("document.querySelector('#todo').innerText.includes('approved by operator')")
    assert served.memory.stored[11].state is CommandState.APPROVED
    page.click("#pause button")
    page.click("#pause input")
    page.type("no moves tonight")
    page.key("Enter", "\r")
    page.until("document.querySelector('#notices').innerText.includes('Paused')")
