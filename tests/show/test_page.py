"""The page in a real browser: opens by its link, shows the hall, decides, follows the stream, fits a phone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
import requests
from tests.browser import CHROMIUM, Page, browsing
from tests.fakes.hall import NOW, WEB, a_hall, a_hall_served, bring_back, make_room
from tests.fakes.past import HallPast
from tests.fakes.people import Served, a_breaker, a_veto

from trimtab.model.board import ReleaseRow
from trimtab.model.command import CommandState, Mode, Outcome, Refusal
from trimtab.model.standing import Answer, OwnerAnswer, StandingKind
from trimtab.show.circumstances import Circumstances

pytestmark = pytest.mark.skipif(
    shutil.which(CHROMIUM) is None, reason="Chromium is missing. Install it: apt-get install chromium"
)

WIRE_BYTES_MAX = 150_000
NOT_HERE = re.compile(r"status of (404|503).*/api/v1/(incidents|fleet/metrics)")
"""What this hall does not tell; the browser says so in its console, and the page goes on without."""
READY = "document.querySelector('#todo .row, #todo .empty')"


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with browsing() as page:
        yield page


@pytest.fixture
def served() -> Iterator[Served]:
    with a_hall_served(past=HallPast()) as running:
        yield running


@pytest.fixture
def page(browser: Page, served: Served) -> Iterator[Page]:
    """The start view, signed in; the test fails on any console error or policy violation."""
    browser.problems.clear()
    browser.size(1400, 860)
    browser.send("Network.setCacheDisabled", cacheDisabled=True)
    browser.open(f"{served.url}/open/{served.door.new_link()}")
    browser.until(READY)
    yield browser
    problems = [text for text in browser.problems if not NOT_HERE.search(text)]
    browser.open("about:blank#away")
    assert problems == []


def row(page: Page, name: str) -> str:
    """The text of a recommendation's row."""
    found = page.ask(
        f"[...document.querySelectorAll('#todo .command')].find(el => el.innerText.startsWith('{name} '))?.innerText"
    )
    return str(found or "")


def inked(page: Page, selector: str) -> float:
    """The share of a canvas that is painted."""
    return float(
        page.ask(
            f"(() => {{ const c = document.querySelector({json.dumps(selector)});"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n / (d.length / 4); })()"
        )
    )


def test_the_link_opens_the_start_view(page: Page, served: Served) -> None:
    assert page.ask("location.pathname") == "/"
    assert page.text("#cluster") == "hall-a"
    assert page.text("#mode") == "mode approve"
    assert page.text("#beat").startswith("beat ")
    assert "126" in page.text("#strip .tile:first-child")
    assert "gpu-13 GPU 3 fell off the bus (XID 79)" in page.text("#wrong")
    assert "placement: 14 free, never 8 together" in page.text("#waits")
    assert "No report from gpu-17" in page.text("#fleet .blind")
    assert "gain 31.4 GPU-h in 1 h · cost 2.1 GPU-h · now · expires" in row(page, "R11")
    cookies = page.send("Network.getCookies", urls=[served.url])["cookies"]
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]


def test_the_fleet_is_drawn_and_read_by_pointer_and_keyboard(page: Page) -> None:
    assert 0.3 < inked(page, "#fleet .fleet-box canvas") < 0.95
    page.ask("document.querySelector('.fleet-box .overlay').focus()")
    page.key("ArrowDown")
    page.until("!document.querySelector('.tip').hidden")
    assert page.text(".tip").startswith("gpu-00 GPU 0\nworking · pretrain-7\nSM activity")
    page.key("ArrowRight")
    page.until("document.querySelector('.tip').innerText.startsWith('gpu-00 GPU 1')")
    lit = "highlighted: pretrain-7 (48 GPUs, 6 nodes, 2 racks)"
    page.until(f"document.querySelector('#fleet .highlighted').innerText === {json.dumps(lit)}")
    page.key("Enter")
    page.until("document.querySelector('#detail h2')?.innerText === 'gpu-00 GPU 1'")
    page.until("document.querySelectorAll('#detail .uplot').length === 4")
    page.key("Escape")
    page.until("document.querySelector('#detail').hidden")


def test_approving_sends_the_fingerprint_and_the_row_changes(page: Page, served: Served) -> None:
    page.click("#todo .command .primary")
    page.until("document.querySelector('#todo').innerText.includes('approved by operator (page)')")
    command = served.memory.stored[11]
    assert (command.state, command.approved_fingerprint) == (
        CommandState.APPROVED,
        bring_back().recommendation.fingerprint,
    )
    assert "approve\n" not in row(page, "R11")


def test_a_no_of_the_api_stands_where_the_button_is(page: Page, served: Served) -> None:
    changed = replace(bring_back().recommendation, writes=bring_back().recommendation.writes[:2])
    served.memory.stored[11] = replace(bring_back(), recommendation=changed)
    page.click("#todo .command .primary")
    page.until("document.querySelector('#todo .error')")
    sentence = "The steps of R11 have changed since you saw them. Look again, then approve."
    assert sentence in row(page, "R11")
    assert served.memory.stored[11].state is CommandState.PROPOSED
    page.problems[:] = [text for text in page.problems if "409" not in text]  # the browser's own line about it


def test_the_stream_changes_the_numbers_and_keeps_what_is_typed(page: Page, served: Served) -> None:
    page.click(".search input")
    page.type("gpu-0")
    served.box.publish(a_hall(at=NOW + timedelta(seconds=5), findings=(), commands=(), refusals=(), mode=Mode.OBSERVE))
    page.until("document.querySelector('#mode').innerText === 'mode observe'")
    assert page.text("#todo .empty") == "Nothing is recommended in mode observe."
    assert page.text("#wrong .empty").startswith("Nothing is wrong with what is seen. 183 of 192 GPUs report.")
    assert page.ask("document.activeElement === document.querySelector('.search input')")
    assert page.ask("document.querySelector('.search input').value") == "gpu-0"
    assert page.ask("document.querySelector('#strip polyline') !== null")


def test_search_opens_what_it_finds(page: Page) -> None:
    page.key("/", "/")
    page.type("llama")
    page.until("document.querySelector('#found [aria-selected=true]')")
    page.key("Enter")
    page.until("document.querySelector('#detail h2')?.innerText === 'llama-70b'")
    assert page.ask("location.pathname") == "/job/research/llama-70b"
    page.until("document.querySelectorAll('#detail .node-list li').length === 4")


def test_a_recommendation_shows_what_it_rests_on_and_what_it_does(page: Page) -> None:
    page.click('a[aria-label="why R11"]')
    page.until("document.querySelectorAll('#detail .uplot').length === 2")
    text = page.text("#detail")
    for wanted in (
        "Cordon gpu-13, bring llama-70b back with spare gpu-23",
        "llama-70b-2 gpu-13 → gpu-23, 8 GPUs",
        "gain\n31.4 GPU-h in 1 h",
        "7 of 8 GPUs answer. 7 GPUs against 8 GPUs",
        "gpu-23 is the only spare: after this no node is kept for faults.",
        "cordon gpu-13\nwaiting",
        "32 GPU-hours are lost each hour.",
        "right in 46 of 49, last wrong on 12 Nov",
        "trimtab approve R11",
    ):
        assert wanted in text
    assert all(inked(page, f".picture canvas[aria-label^='{side}']") > 0.2 for side in ("before", "after"))


def test_rejecting_takes_words_and_says_so(page: Page, served: Served) -> None:
    page.click('a[aria-label="why R12"]')
    page.click("#detail [aria-expanded]")
    page.click("#detail form input[name=words]")
    page.type("the owner wants to finish tonight")
    served.box.publish(a_hall(at=NOW + timedelta(seconds=5)))
    page.until("document.querySelector('#beat').innerText === 'beat 0 s ago'")
    page.key("Enter", "\r")
    page.until("document.querySelector('#detail .standing').innerText.startsWith('rejected')")
    command = served.memory.stored[12]
    assert (command.state, command.reason) == (CommandState.REJECTED, "the owner wants to finish tonight")


def test_steps_tick_off_and_the_outcome_stands_beside_the_forecast(page: Page, served: Served) -> None:
    page.click('a[aria-label="why R11"]')
    begun = replace(bring_back(), state=CommandState.SUBMITTED, approved_by="operator", approved_at=NOW)
    served.box.publish(a_hall(at=NOW + timedelta(seconds=5), commands=(begun, make_room())))
    page.until("document.querySelectorAll('#detail .step.done').length === 3")
    settled = replace(begun, state=CommandState.SETTLED, settled_at=NOW, changed_at=NOW)
    outcome = Outcome(
        command_id=11, measured_at=NOW, is_good=True, sentence="llama-70b runs on 32 GPUs again",
        gpu_hours_lost=1.9, gpu_hours_saved=29.8, gpus_unlocked=32, seconds_to_settle=140,
        seconds_forecast=95, gpu_hours_lost_forecast=2.1, seats_planned=4, seats_hit=3,
    )  # fmt: skip
    served.box.publish(a_hall(at=NOW + timedelta(seconds=9), commands=(settled, make_room()), outcomes={11: outcome}))
    page.until("document.querySelector('#detail').innerText.includes('What came of it')")
    text = page.text("#detail")
    for line in (
        "runs again after\t95 s\t2 min",
        "GPU-hours expected over the horizon, less the cost\t–\t29.8 GPU-h",
        "GPU-hours lost (measured)\t2.1 GPU-h\t1.9 GPU-h",
        "seats as planned\t4\t3",
    ):
        assert line in text
    assert "undo…" in text


def test_how_it_is_carried_out_stands_with_lines_to_copy_owners_and_gates(page: Page, served: Served) -> None:
    page.click('a[aria-label="why R11"]')
    page.until("document.querySelector('#detail .steps')")
    assert page.ask("document.querySelector('#detail .lines')") is None
    asked = OwnerAnswer(asked_at=NOW, deadline=NOW + timedelta(minutes=5))
    no = replace(asked, answer=Answer.NO, answered_at=NOW, said="the paper is due")
    recommendation = replace(
        bring_back().recommendation,
        steps=("kubectl cordon gpu-13", "kubectl --namespace research patch job llama-70b -p '{\"spec\": 1}'"),
        way="Kueue stops it whole and starts it on its seats",
        way_seconds=95.0,
        gates={"gpu-13": "a diagnostic run without errors"},
    )
    told = replace(
        bring_back(),
        recommendation=recommendation,
        state=CommandState.APPROVED,
        approved_by="anna",
        answers={"research/llama-70b": asked, "research/eval-9": no},
        noticed_at=NOW,
    )
    served.box.publish(a_hall(at=NOW + timedelta(seconds=5), commands=(told,), notice_seconds=600.0))
    page.until("document.querySelector('#detail .lines')")
    assert page.ask("document.querySelector('#detail .lines').textContent") == "\n".join(recommendation.steps)
    text = page.text("#detail")
    for part in (
        "Kueue stops it whole and starts it on its seats. Expected: 95 s until all of it runs again.",
        "llama-70b: asked at",
        "eval-9: no at",
        ": the paper is due",
        "; it begins at",
        "Before it returns to service\ngpu-13: a diagnostic run without errors.",
    ):
        assert part in text


def test_what_stands_beside_the_plan_is_said_and_can_be_answered(page: Page, served: Served) -> None:
    assert page.text("#notices") == ""
    assert (
        page.ask("document.querySelector('#todo details.vetoes, #todo details.notes, #todo details.foreign')") is None
    )
    for fact in (a_breaker(), a_veto()):
        served.memory.stand(fact, what=fact.name, at=NOW)
    around = Circumstances(
        pauses=("Paused in the cluster itself: control plane upgrade.",),
        why_not_written="the lease is held by hall-b-1",
        breakers=(a_breaker(),),
        vetoes=(a_veto(),),
        notes=("we may not list devicetaintrules.resource.k8s.io",),
        release=ReleaseRow(asked_by="anna", asked_at=NOW, at=NOW, given_back=("x",), left=("trimtab:9f:R1: cordon",)),
    )
    foreign = Refusal(rule="foreign_mark", sentence="trimtab:9f:R3 is of another daemon and is left alone.")
    board = a_hall(at=NOW + timedelta(seconds=5), circumstances=around, refusals=(foreign,), is_paused=True)
    served.box.publish(board)
    page.until("document.querySelector('#todo details.vetoes')")
    said = page.text("#notices")
    for part in (
        "Paused in the cluster itself: control plane upgrade. What has begun is finished or undone.",
        "Nothing is written from here: the lease is held by hall-b-1.",
        "Stopped: device_fault made 6 of the last 7 cordons",
        "1 given back, 1 left: trimtab:9f:R1: cordon.",
    ):
        assert part in said
    assert "Of other daemons, left alone: 1" in page.text("#todo")
    assert "Not read in the cluster: 1" in page.text("#todo")
    page.click("#notices button")
    page.until("!document.querySelector('#notices').innerText.includes('Stopped:')")
    assert served.memory.standing(StandingKind.BREAKER) == ()
    page.click("#todo details.vetoes summary")
    page.click("#todo details.vetoes button")
    page.until("!document.querySelector('#todo details.vetoes')")
    assert served.memory.standing(StandingKind.VETO) == ()


def test_pausing_asks_why_and_resuming_does_not(page: Page, served: Served) -> None:
    page.click("#pause button")
    page.click("#pause input")
    page.type("switch work in rack r2")
    page.key("Enter", "\r")
    page.until("document.querySelector('#notices').innerText.startsWith('Paused: nothing new is started.')")
    assert served.memory.is_paused()
    page.click("#pause button")
    page.until("document.querySelector('#notices').innerText === ''")
    assert not served.memory.is_paused()


def test_signed_out_is_said_with_the_way_back(browser: Page, served: Served) -> None:
    browser.problems.clear()
    browser.send("Network.clearBrowserCookies")
    browser.open(f"{served.url}/r/11")
    browser.until("document.querySelector('#notices').innerText.includes('trimtab link')")
    browser.until("document.querySelector('#person').innerText === 'signed out'")
    assert all("401" in text for text in browser.problems)
    browser.open("about:blank#away")


def test_a_daemon_that_is_gone_is_said(page: Page, served: Served) -> None:
    served.box.close()
    served.listener.stop()
    page.until("document.querySelector('#notices').innerText.startsWith('No word from the daemon for')", 30)
    assert "trying again" in page.text("#notices")
    page.problems.clear()  # the browser's own lines about the refused connections


def test_a_text_that_looks_like_markup_is_text(page: Page, served: Served) -> None:
    evil = "<img src=x onerror=document.title='owned'>"
    changed = replace(bring_back(), recommendation=replace(bring_back().recommendation, reason=evil))
    served.box.publish(a_hall(at=NOW + timedelta(seconds=5), commands=(changed,)))
    page.until("document.querySelector('#todo').innerText.includes('onerror')")
    assert page.ask("document.querySelector('#todo img')") is None


def test_everything_before_data_weighs_at_most_150_kb(browser: Page, served: Served) -> None:
    browser.wire.clear()
    browser.open(f"{served.url}/open/{served.door.new_link()}")
    browser.until(READY)
    ours = {url: size for url, size in browser.wire.items() if "/api/" not in url}
    on_demand = ("uplot.js", "uplot.css")
    listed = [path for path in (WEB / "static").rglob("*.*s") if path.suffix in (".js", ".css")]
    listed = [path for path in listed if path.name not in on_demand]
    assert {path.name for path in listed} <= {url.rpartition("/")[2] for url in ours}
    assert sum(ours.values()) <= WIRE_BYTES_MAX
    browser.open("about:blank#away")


def test_no_markup_carries_script_or_style() -> None:
    document = (WEB / "index.html").read_text()
    assert "style=" not in document
    assert "<style" not in document
    assert document.count("<script ") == document.count("<script src=")
    for path in (WEB / "static").glob("*.js"):
        source = path.read_text()
        assert not any(word in source for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval("))
        assert source.count("\n") <= 400


@pytest.mark.parametrize("path", ["/", "/r/11", "/f/29", "/node/gpu-12", "/job/research/llama-70b"])
def test_a_phone_shows_it_without_scrolling_sideways(page: Page, served: Served, path: str) -> None:
    page.size(390, 844, scale=2, is_phone=True)
    page.open(served.url + path)
    page.until(READY)
    assert page.ask("document.documentElement.scrollWidth") <= 390
    button = "document.querySelector('#todo [aria-label=\"approve R11\"]')"
    page.until(button)
    box = page.ask(f"(() => {{ const b = {button}.getBoundingClientRect(); return [b.left, b.right, b.height]; }})()")
    assert box[0] >= 0
    assert box[1] <= 390
    assert box[2] >= 44


def test_a_fleet_of_12_500_nodes_is_drawn_node_by_node(page: Page, served: Served) -> None:
    hall = a_hall()
    many = tuple(
        replace(hall.nodes[i % 24], name=f"node-{i:05d}", rack=f"r{i // 32:03d}", cells=hall.nodes[i % 24].cells)
        for i in range(12_500)
    )
    served.box.publish(replace(hall, at=NOW + timedelta(seconds=5), nodes=many))
    page.click("#fleet .fleet-table summary")
    page.until("document.querySelectorAll('#fleet .fleet-table tbody tr').length === 200", 60)
    assert page.text("#fleet .fleet-table p") == "and 191 more"
    assert inked(page, "#fleet .fleet-box canvas") > 0.2
    page.ask("document.querySelector('.fleet-box .overlay').focus()")
    page.key("ArrowDown")
    page.until("document.querySelector('.tip').innerText.startsWith('node-00000\\n8 working')")
    for _ in range(7):
        page.key("+", "+")
    page.until("!document.querySelector('#fleet .zoom button:nth-child(2)').disabled")
    page.key("ArrowDown")
    page.until("/^node-\\d+ GPU \\d/.test(document.querySelector('.tip').innerText)")
    page.key("0", "0")
    page.until("document.querySelector('#fleet .zoom button').disabled")


def test_the_static_files_come_compressed_and_whole(served: Served) -> None:
    plain = requests.get(served.url + "/static/app.js", headers={"Accept-Encoding": "identity"}, timeout=5)
    packed = requests.get(served.url + "/static/app.js", headers={"Accept-Encoding": "gzip"}, timeout=5)
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text == (WEB / "static/app.js").read_text()
