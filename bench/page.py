"""How fast the page is at 12,500 nodes of 8 GPUs: first paint, hover, zoom, a beat; and what a beat weighs on the wire.

Headless Chromium opens the real application over a generated board. `python bench/page.py [--nodes N] [--times N]`.
Aims: first paint within 1 s, hover and zoom within 50 ms. The peer is the same board as rows of JSON (/api/v1/board).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.browser import Page, browsing
from tests.fakes.clock import FakeClock
from tests.fakes.people import FakeMemory, listening

import trimtab.show
from board import AT, a_cluster
from trimtab.clock import SystemClock
from trimtab.issue.verdicts import Verdicts
from trimtab.model.board import Board, CellState, NodeRow
from trimtab.model.command import Mode
from trimtab.settings import DaemonSettings, IssueSettings
from trimtab.show.api import people_app
from trimtab.show.board import BoardBox, Published, build_board
from trimtab.show.columns import Columns, change, frame, packed

WEB = Path(trimtab.show.__file__).parent / "web"
PAINTED = "performance.getEntriesByName('fleet-painted')[0]?.startTime"
FIRST_PAINT_MS_AIM, REACTION_MS_AIM = 1000.0, 50.0

MEASURE = """
(async () => {
  const canvas = document.querySelector('.fleet-box .overlay');
  const box = canvas.getBoundingClientRect();
  const frame = () => new Promise((done) => requestAnimationFrame(() => { const c = new MessageChannel();
    c.port1.onmessage = done; c.port2.postMessage(0); }));
  const act = async (type, x, y, more = {}) => {
    const where = { clientX: box.x + x, clientY: box.y + y, bubbles: true, cancelable: true };
    await frame();
    const began = performance.now();
    const Kind = type === 'wheel' ? WheelEvent : PointerEvent;
    canvas.dispatchEvent(new Kind(type, { ...where, ...more }));
    const handled = performance.now();
    await frame();
    return [handled - began, performance.now() - began];
  };
  const at = (i) => [20 + ((i * 97) % (box.width - 40)), 20 + ((i * 61) % (box.height - 40))];
  const found = { hover: [], zoom: [], pan: [] };
  for (let i = 0; i < TIMES; i += 1) found.hover.push(await act('pointermove', ...at(i)));
  for (let i = 0; i < TIMES; i += 1) {
    const deltaY = i % 10 < 6 ? -300 : 300;
    found.zoom.push(await act('wheel', box.width / 2, box.height / 2, { ctrlKey: true, deltaY }));
    found.hover.push(await act('pointermove', ...at(i)));
  }
  const id = { pointerId: 1, button: 0 };
  await act('wheel', 200, 200, { ctrlKey: true, deltaY: -400 });
  canvas.setPointerCapture = () => {};
  await act('pointerdown', 200, 200, id);
  const drag = (i) => act('pointermove', 200 + (i % 7) * 9, 200 + (i % 5) * 7, id);
  for (let i = 0; i < TIMES; i += 1) found.pan.push(await drag(i));
  await act('pointerup', 200, 200, id);
  return found;
})()
"""


def a_board(nodes: int) -> Board:
    """A fleet at work: every tenth rack has a fault, a silent node, somebody idle, and free GPUs in between."""
    snapshot, window = a_cluster(nodes)
    return build_board(
        cluster="bench", at=AT, window=window, snapshot=snapshot, findings=(), commands=(), mode=Mode.APPROVE,
        is_paused=False,
    )  # fmt: skip


def a_beat_later(board: Board, beat: int) -> Board:
    """The same fleet with every GPU's numbers moved, as they do from beat to beat."""
    rnd = random.Random(beat)

    def node(row: NodeRow) -> NodeRow:
        cells = tuple(
            replace(
                cell,
                activity_ratio=round(rnd.betavariate(8, 2), 3),
                temperature_celsius=55.0 + rnd.randrange(14),
                power_watts=480.0 + rnd.randrange(200),
                state=CellState.LOST if rnd.random() < 0.0002 else cell.state,
            )
            for cell in row.cells
        )
        return replace(row, cells=cells)

    return replace(board, at=AT + timedelta(seconds=5 * beat), nodes=tuple(map(node, board.nodes)))


def first_paint(page: Page, url: str, *, is_cached: bool) -> float:
    page.send("Network.setCacheDisabled", cacheDisabled=not is_cached)
    page.open("about:blank#away")
    page.open(url + "/")
    return float(page.until(PAINTED, 60))


def paint_cpu(page: Page, url: str) -> float:
    """What the page's own thread computed from the navigation until the paint, in ms of CPU."""
    page.open("about:blank#away")
    page.send("Performance.enable", timeDomain="threadTicks")
    page.open(url + "/")
    page.until(PAINTED, 60)
    found = {one["name"]: one["value"] for one in page.send("Performance.getMetrics")["metrics"]}
    page.send("Performance.disable")
    return float(found["TaskDuration"]) * 1e3


def beat_taken(page: Page, box: BoardBox, board: Board) -> float:
    """The longest that the page stood still while it took a beat in and drew it, in ms."""
    page.ask(
        "window.still = 0; window.last = performance.now(); window.watching = true;"
        "(function look(now) { window.still = Math.max(window.still, performance.now() - window.last);"
        " window.last = performance.now(); if (window.watching) requestAnimationFrame(look); })(); 0"
    )
    box.publish(board)
    shown = json.dumps(board.at.isoformat().replace("+00:00", "Z"))
    page.until(f"performance.getEntriesByName('beat-shown').some((one) => one.detail === {shown})", 60)
    return float(page.ask("window.watching = false; window.still"))


def said(name: str, values: list[float], aim: float | None = None) -> None:
    values = sorted(values)
    middle, high = statistics.median(values), values[min(int(len(values) * 0.95), len(values) - 1)]
    word = "met" if aim is None or high <= aim else "median met" if middle <= aim else "MISSED"
    verdict = "" if aim is None else f"   aim {aim:.0f} ms: {word}"
    print(f"{name:<34}{middle:>9.1f} ms median{high:>9.1f} ms p95{verdict}")


def wire(board: Board, later: Board) -> None:
    rows = Published(board=board, sequence=1)
    old, new = Columns(board), Columns(later)
    whole, told = frame(old, 1), change(old, new, base=1, sequence=2) or b""
    print(f"{'on the wire, MB':<34}{'plain':>9}{'gzip':>9}")
    for name, plain, zipped in (
        ("rows (/api/v1/board), each beat", len(rows.json), len(rows.gzip)),
        ("columns, once", len(whole), len(packed(whole))),
        ("UUIDs, once, after the paint", len(old.uuids), len(packed(old.uuids))),
        ("changes, each beat", len(told), len(packed(told))),
    ):
        print(f"  {name:<32}{plain / 1e6:>9.2f}{zipped / 1e6:>9.2f}")


def measure(url: str, page: Page, box: BoardBox, board: Board, times: int) -> None:
    page.open(url + "/")
    page.until(PAINTED, 60)
    said("first paint, nothing cached", [first_paint(page, url, is_cached=False) for _ in range(5)], FIRST_PAINT_MS_AIM)
    said("first paint, files cached", [first_paint(page, url, is_cached=True) for _ in range(5)], FIRST_PAINT_MS_AIM)
    said("  of it computed by the page", [paint_cpu(page, url) for _ in range(5)])
    found: Any = page.ask(MEASURE.replace("TIMES", str(times)))
    for name in ("hover", "zoom", "pan"):
        said(f"{name}, handled", [one[0] for one in found[name]], REACTION_MS_AIM)
        said(f"{name}, until the frame is out", [one[1] for one in found[name]], REACTION_MS_AIM)
    beats = [beat_taken(page, box, a_beat_later(board, beat)) for beat in range(2, 6)]
    said("longest stop in a beat", beats)
    rows = "(async () => {const t = performance.now(); const r = await fetch('/api/v1/board'); await r.json();"
    said(
        "peer: rows fetched and parsed",
        [float(page.ask(rows + "return performance.now() - t; })()")) for _ in range(3)],
    )


def main() -> None:
    """Parse, serve, measure."""
    parser = argparse.ArgumentParser(description="Measure the page in headless Chromium.")
    parser.add_argument("--nodes", type=int, default=12_500)
    parser.add_argument("--times", type=int, default=60)
    parser.add_argument("--picture", type=Path, help="where to put a picture of the page at the end")
    given = parser.parse_args()
    board = a_beat_later(a_board(given.nodes), 1)
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print(f"{given.nodes} nodes, {board.strip.gpus_total} GPUs, {len(board.jobs)} jobs")
    wire(board, a_beat_later(board, 2))
    settings = DaemonSettings(cluster="bench", issue=IssueSettings(mode=Mode.APPROVE))
    clock, memory, box = FakeClock(AT), FakeMemory(), BoardBox()
    box.publish(board)

    def app(door: Any) -> Any:
        return people_app(
            settings=settings, box=box, decisions=Verdicts(ledger=memory, clock=clock, settings=settings),
            memory=memory, door=door, clock=clock, checks=lambda: (), exposition=lambda _: (b"", "text/plain"),
            web_directory=WEB,
        )  # fmt: skip

    with listening(app, box=box, clock=clock, wall=SystemClock(), memory=memory) as served, browsing() as page:
        page.size(1400, 860)
        page.open(f"{served.url}/open/{served.door.new_link()}")
        page.until(PAINTED, 120)
        measure(served.url, page, box, board, given.times)
        if given.picture:
            page.picture(given.picture)
        problems = [text for text in page.problems if "/api/v1/" not in text]
        print(json.dumps(problems) if problems else "no errors in the page")


if __name__ == "__main__":
    main()
