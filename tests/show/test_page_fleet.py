"""The fleet picture: MIG splits a cell, a blind rack is hatched, any metric colours it, a job's cells are linked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.browser import CHROMIUM, INSTALL, Page, browsing
from tests.builders import a_reading, a_window
from tests.fakes.hall import NOW, a_hall, a_hall_served
from tests.fakes.past import HallPast
from tests.fakes.people import Served

from trimtab.model.board import Board, CellState, NodeRow

pytestmark = pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=INSTALL)

READY = "document.querySelector('#todo .row, #todo .empty') && document.body.dataset.role"
PIXELS = (
    "(c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const found = new Map();"
    "for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) {"
    " const k = `${d[i]},${d[i + 1]},${d[i + 2]}`; found.set(k, (found.get(k) || 0) + 1); }"
    "return [...found].filter(([, n]) => n > 40).map(([k]) => k); })(document.querySelector(%s))"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with browsing() as page:
        yield page


@pytest.fixture
def served() -> Iterator[Served]:
    readings = {
        "gpu-00": [
            a_reading("gpu-00", index, values={"power_watts": 600.0, "pcie_replays_total": 10.0 * index})
            for index in range(8)
        ]
    }
    window = a_window(readings, at=NOW)
    with a_hall_served(past=HallPast(), window=lambda: window) as running:
        yield running


@pytest.fixture
def page(browser: Page, served: Served) -> Iterator[Page]:
    browser.problems.clear()
    browser.size(1400, 860)
    browser.prefer(color_scheme="dark")
    browser.open(f"{served.url}/open/{served.door.new_link()}")
    browser.until(READY)
    yield browser
    policy = [text for text in browser.problems if "policy" in text.lower() or "Error" in text]
    browser.open("about:blank#away")
    assert policy == []


def shown(page: Page, served: Served, board: Board) -> None:
    served.box.publish(replace(board, at=board.at + timedelta(seconds=5)))
    page.until(f"document.querySelector('#cluster').innerText === {json.dumps(board.cluster)}")


def colours(page: Page, selector: str = ".fleet-box canvas") -> set[str]:
    page.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return set(page.ask(PIXELS % json.dumps(selector)))


def with_node(board: Board, name: str, **changes: object) -> Board:
    nodes = tuple(replace(node, **changes) if node.name == name else node for node in board.nodes)  # type: ignore[arg-type]
    return replace(board, nodes=nodes, cluster="hall-b")


def test_mig_splits_the_cell_and_each_instance_is_told(page: Page, served: Served) -> None:
    node = next(one for one in a_hall().nodes if one.name == "gpu-00")
    first, *others = node.cells
    busy = [
        replace(first, uuid=f"{first.uuid}/{number}", activity_ratio=ratio) for number, ratio in ((1, 0.05), (2, 0.97))
    ]
    free = replace(first, uuid=f"{first.uuid}/3", activity_ratio=None, workload=None, state=CellState.FREE)
    instances = (*busy, free)
    shown(page, served, with_node(a_hall(), "gpu-00", cells=(*instances, *others)))
    page.ask("document.querySelector('.fleet-box .overlay').focus()")
    page.key("ArrowDown")
    page.until("document.querySelector('.tip').innerText.includes('97 %')")
    lines = page.text(".tip")
    assert [word in lines for word in ("5.0 %", "97 %", "free")] == [True, True, True]
    page.key("ArrowRight")
    page.until("document.querySelector('.tip').innerText.startsWith('gpu-00 GPU 1')")


def test_a_blind_rack_is_hatched_in_its_place_and_never_nothing(page: Page, served: Served) -> None:
    before = colours(page)

    def silent(node: NodeRow) -> NodeRow:
        if node.rack != "r1":
            return node
        cells = tuple(replace(cell, state=CellState.SILENT, activity_ratio=None) for cell in node.cells)
        return replace(node, is_silent=True, cells=cells)

    hall = a_hall()
    shown(page, served, replace(hall, cluster="hall-b", nodes=tuple(map(silent, hall.nodes))))
    after = colours(page)
    assert "58,69,84" in after - before, "the hatching's own colour"
    page.ask("document.querySelector('.fleet-box .overlay').focus()")
    page.key("ArrowDown")
    page.until("document.querySelector('.tip').innerText.includes('silent: no fresh report')")
    assert "SM activity" not in page.text(".tip")


def test_any_metric_of_the_readings_colours_the_fleet(page: Page) -> None:
    select = "document.querySelector('#fleet select')"
    page.until(f"[...{select}.options].some((one) => one.value === 'pcie_replays_total')")
    page.ask(
        f"{select}.value = 'pcie_replays_total'; {select}.dispatchEvent(new Event('change', {{bubbles: true}})); 0"
    )
    page.until("document.querySelector('#fleet .legend .scale').innerText.includes('70')")
    page.ask("document.querySelector('.fleet-box .overlay').focus()")
    page.key("ArrowDown")
    for _ in range(3):
        page.key("ArrowRight")
    page.until("document.querySelector('.tip').innerText.includes('pcie replays total 30')")


def test_a_jobs_cells_are_lit_and_linked_across_racks(page: Page, served: Served) -> None:
    dark = colours(page, ".fleet-box .overlay")
    assert dark == set()
    page.open(served.url + "/job/research/llama-70b")
    page.until("document.querySelector('#detail h2')?.innerText === 'llama-70b'")
    page.until("document.querySelector('#fleet .highlighted').innerText.endsWith('(32 GPUs, 4 nodes, 3 racks)')")
    assert "230,237,243" in colours(page, ".fleet-box .overlay"), "the links"


def test_zoom_and_pan_by_wheel_drag_and_keys(page: Page) -> None:
    wheel = (
        "(c => { const b = c.getBoundingClientRect(); const e = new WheelEvent('wheel', { clientX: b.x + 90,"
        " clientY: b.y + 40, deltaY: -400, bubbles: true, cancelable: true, ctrlKey: %s }); c.dispatchEvent(e);"
        " return e.defaultPrevented; })(document.querySelector('.fleet-box .overlay'))"
    )
    assert page.ask(wheel % "false") is False, "the page scrolls"
    assert page.ask(wheel % "true") is True
    page.until("document.querySelector('#fleet .zoom button').innerText === 'whole'")
    page.ask("document.querySelector('#fleet .zoom button').click()")  # a beat may move it under a mouse
    page.until("document.querySelector('#fleet .zoom button').disabled")
    page.ask("document.querySelector('.fleet-box .overlay').focus()")
    page.key("+", "+")
    page.until("document.querySelector('#fleet .zoom button').innerText === 'whole'")
    page.key("0", "0")
    page.until("document.querySelector('#fleet .zoom button').disabled")


def test_the_table_says_what_the_picture_shows(page: Page) -> None:
    page.click("#fleet .fleet-table summary")
    page.until("document.querySelectorAll('#fleet .fleet-table tbody tr').length === 3")
    assert page.text("#fleet .fleet-table tbody tr").split()[:4] == ["rack", "r1", "64", "46"]
    page.click("#fleet .fleet-table tbody button")
    page.until("document.querySelectorAll('#fleet .fleet-table tbody tr').length === 8")
    page.click("#fleet .fleet-table tbody a")
    page.until("document.querySelector('#detail h2')?.innerText.startsWith('gpu-00')")
