"""The page's time: the scrubber shows the hall as it was, marked as past; a job's ranks stand over time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.browser import CHROMIUM, INSTALL, Page, browsing
from tests.fakes.hall import NOW, a_hall_served
from tests.fakes.past import FAULT_AT, HallPast
from tests.fakes.people import Served

pytestmark = pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=INSTALL)

READY = "document.querySelector('#todo .row, #todo .empty')"
MARKED = "document.querySelector('#scrubber [role=status]').innerText.startsWith('3 findings opened, 1 ')"
PAST = "document.body.classList.contains('is-past') && document.querySelector('#notices .past')"


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with browsing() as page:
        yield page


@pytest.fixture
def past() -> HallPast:
    return HallPast()


@pytest.fixture
def served(past: HallPast) -> Iterator[Served]:
    with a_hall_served(past=past) as running:
        yield running


@pytest.fixture
def page(browser: Page, served: Served) -> Iterator[Page]:
    browser.problems.clear()
    browser.size(1400, 860)
    browser.open(f"{served.url}/open/{served.door.new_link()}")
    browser.until(READY)
    browser.until("document.querySelector('#todo .primary')")
    yield browser
    policy = [text for text in browser.problems if "policy" in text.lower() or "Error" in text]
    browser.open("about:blank#away")
    assert policy == []


def slide_to(page: Page, seconds: float) -> None:
    """Drag the slider to a moment, as the pointer does: input after input."""
    page.ask(
        f"(to => {{ const s = document.querySelector('#scrubber input');"
        f"for (const share of [0.4, 0.8, 1]) {{ s.value = Number(s.max) + (to - Number(s.max)) * share;"
        f"s.dispatchEvent(new Event('input', {{ bubbles: true }})); }} }})({seconds})"
    )


def at(page: Page) -> str:
    return str(page.ask("new URLSearchParams(location.search).get('at')"))


def test_dragged_back_every_part_shows_that_moment_marked_as_past(page: Page, past: HallPast) -> None:
    page.until(MARKED)
    assert "fell off the bus" in page.text("#wrong")
    slide_to(page, NOW.timestamp() - 6 * 3600)
    page.until(PAST)
    page.until("document.querySelector('#strip .tile-value').innerText === '158'")
    assert page.text("#notices .past").startswith("This is the past: 2 Nov ")
    assert "Nothing here can be decided. Each number is a mean over 60 s." in page.text("#notices .past")
    assert page.text("#beat").startswith("as of 2 Nov ")
    assert "fell off the bus" not in page.text("#wrong")
    assert "95.3 %" in page.text("#strip"), "what the boards said then"
    assert "stranded for" not in page.text("#fleet .legend"), "for whom is not kept"
    assert page.ask("document.querySelector('#todo .primary')") is None
    assert page.ask("document.querySelector('#pause button')") is None
    assert abs((past.asked[-1] - NOW).total_seconds() + 6 * 3600) <= 300
    assert len(past.asked) == 1, "a drag asks once it rests, not at each step"
    page.click("#notices .past button")
    page.until("!document.body.classList.contains('is-past')")
    page.until("document.querySelector('#todo .primary')")
    assert at(page) == "None"


def test_new_boards_come_in_behind_the_past_and_do_not_move_it(page: Page, served: Served) -> None:
    slide_to(page, NOW.timestamp() - 3600)
    page.until(PAST)
    shown = page.text("#beat")
    served.box.publish(served.box.latest().board)  # type: ignore[union-attr]
    page.until("true")
    assert page.text("#beat") == shown


def test_a_link_with_a_moment_opens_it_and_keeps_it_from_view_to_view(page: Page, served: Served) -> None:
    page.open(f"{served.url}/job/research/llama-70b?at=2026-11-02T12:00:00Z")
    page.until(PAST)
    page.until("document.querySelector('#detail h2')?.innerText === 'llama-70b'")
    page.until("document.querySelector('.heat canvas')?.height > 300")  # it moves what stands below
    page.click("#detail .node-list a")
    page.until("document.querySelector('#detail h2')?.innerText === 'gpu-05 GPU 0'")
    assert at(page) == "2026-11-02T12:00:00Z"
    page.ask("history.back()")
    page.until("document.querySelector('#detail h2')?.innerText === 'llama-70b'")
    assert page.ask("document.body.classList.contains('is-past')")


def test_what_is_known_of_a_finding_only_from_later_says_so(page: Page, served: Served) -> None:
    page.open(f"{served.url}/f/31?at=2026-11-02T12:00:00Z")
    page.until("document.querySelector('#detail .notice.warn')?.innerText.includes('as it was said later')")
    page.click("#notices .past button")
    page.until("!document.body.classList.contains('is-past')")
    page.until("!document.querySelector('#detail .notice.warn')")


def test_a_moment_of_which_nothing_was_kept_says_so(page: Page, served: Served) -> None:
    page.open(f"{served.url}/?at=2026-10-20T12:00:00Z")
    page.until("document.querySelector('#notices .warn')?.innerText.includes('2026-10-20')")
    page.until("document.querySelector('#todo h2')")
    for part in ("#strip", "#main"):
        hidden = page.ask(f"getComputedStyle(document.querySelector('{part}')).visibility")
        assert hidden == "hidden", "the numbers of now are not shown as those of then"
    assert page.text("#beat") == ""
    page.click("#notices .warn button")
    page.until("document.querySelector('#todo .primary')")


def test_an_address_with_a_moment_that_is_none_says_so_and_shows_nothing(page: Page, served: Served) -> None:
    page.open(f"{served.url}/?at=garbage")
    page.until("document.querySelector('#notices .warn')?.innerText.startsWith('garbage in the address is no moment')")
    page.until("document.querySelector('#todo h2')")
    assert page.ask("getComputedStyle(document.querySelector('#main')).visibility") == "hidden"
    page.click("#notices .warn button")
    page.until("document.querySelector('#todo .primary')")
    assert page.ask("getComputedStyle(document.querySelector('#main')).visibility") == "visible"
    assert at(page) == "None"


def test_the_scrubber_goes_by_keys_from_mark_to_mark_and_back_to_now(page: Page, past: HallPast) -> None:
    page.until(MARKED)
    page.ask("document.querySelector('#scrubber input').focus()")
    page.key("PageDown")
    page.until(PAST)
    page.until("document.querySelector('#notices .past b')?.innerText.includes('This is the past')")
    assert past.asked[-1] == FAULT_AT
    page.key("PageDown")
    page.until(f"new URLSearchParams(location.search).get('at') === {json.dumps('2026-11-02T13:50:00Z')}")
    page.key("End")
    page.until("!document.body.classList.contains('is-past')")


def test_the_strip_has_the_day_and_its_change(page: Page) -> None:
    page.until("document.querySelector('#strip .change')")
    assert "since 1 Nov" in page.text("#strip .tile")
    assert page.ask("document.querySelectorAll('#strip .tile:first-child polyline').length") == 2, "a gap is a gap"


def test_a_jobs_ranks_stand_over_time_with_the_suspect_marked(page: Page) -> None:
    page.click("#waits a.job")
    page.open(page.ask("location.origin") + "/job/research/llama-70b")
    page.until("document.querySelector('.heat canvas')?.height > 300")
    assert page.text("#detail .suspect") == "▶ rank 2 (gpu-13 GPU 3) runs at 1.21 GHz, the median is 1.70 GHz."
    assert "hardware\tF31" in page.text("#detail .causes").replace("\n", "\t")
    page.ask("document.querySelector('.heat canvas').focus()")
    page.key("ArrowUp")
    page.until("document.querySelector('.heat .tip').innerText.includes('not known')")
    page.key("ArrowLeft")
    page.key("Enter", "\r")
    page.until("document.querySelector('#detail h2')?.innerText === 'gpu-13 GPU 3'")


def test_a_jobs_strip_opens_on_what_its_finding_was_seen_in(page: Page, served: Served) -> None:
    page.open(f"{served.url}/job/research/vision-3")
    page.until("document.querySelector('.heat-head select')?.value === 'temperature_celsius'")
    chosen = "document.querySelector('.heat-head select')"
    page.ask(f"{chosen}.value = 'power_watts'; {chosen}.dispatchEvent(new Event('change', {{bubbles: true}})); 0")
    page.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.ask(f"{chosen}.value") == "power_watts", "what somebody chose stays"


def test_where_the_languages_stand_does_not_move_when_the_daemon_says_who_is_here(page: Page) -> None:
    left = "document.querySelector('#language [lang=zh-CN]').getBoundingClientRect().left"
    page.until("document.querySelector('#person button')")
    was = page.ask(left)
    page.ask("document.dispatchEvent(new CustomEvent('trimtab:me', { detail: null }))")
    page.until("!document.querySelector('#person button')")
    assert page.ask(left) == was


def test_what_the_fleet_is_grouped_by_is_not_cut_and_its_choices_stand_in_one_row(page: Page) -> None:
    page.until("document.querySelector('#fleet .zoom button')")
    select = "document.querySelectorAll('#fleet .panel-head select')"
    assert page.ask(f"{select}[1].getBoundingClientRect().width") < 156, "not at its bound, so whole"
    top = ".getBoundingClientRect().top"
    apart = page.ask(f"Math.abs({select}[0]{top} - document.querySelector('#fleet .zoom'){top})")
    assert apart < 12


def test_a_simulated_clock_is_said_beside_the_beat(page: Page, served: Served) -> None:
    assert "simulated" not in page.text("#beat")
    board = served.box.latest().board  # type: ignore[union-attr]
    served.box.publish(replace(board, clock_speed=20.0, at=board.at + timedelta(seconds=5)))
    page.until("document.querySelector('#beat').innerText.includes('simulated clock × 20')")


def test_a_charts_peers_are_a_band(page: Page, served: Served) -> None:
    page.open(f"{served.url}/node/gpu-12")
    page.until("document.querySelectorAll('#detail .uplot').length === 4")
    assert page.text("#detail .chart figcaption").startswith("SM activity")
