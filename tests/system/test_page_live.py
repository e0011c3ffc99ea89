"""The page over a running demo: a fault comes, a person approves in the browser, and watches it settle."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.browser import CHROMIUM, INSTALL, browsing
from tests.system.processes import Running, eventually, free_port

pytestmark = pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=INSTALL)

SETTLE_SECONDS = 120.0


def test_what_is_approved_on_the_page_settles_before_ones_eyes(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    arguments = ("demo", "--nodes", "12", "--speed", "20", "--port", str(free_port()))
    demo = Running(*arguments, home=tmp_path, name="demo", env={"TMPDIR": str(scratch)})
    try:
        demo.start()
        eventually(lambda: "/open/" in demo.text(), said=demo.tail)
        found = re.search(r"http://\S+/open/\S+", demo.text())
        assert found is not None
        link, url = found[0], found[0].partition("/open/")[0]
        with browsing() as page:
            page.size(1400, 860)
            page.open(link)
            page.until("document.querySelector('#todo [aria-label=\"approve R1\"]')", SETTLE_SECONDS)
            # Any metric of the readings colours the fleet, and is in the tip.
            page.until("document.querySelectorAll('#fleet option[value=fp16_active_ratio]').length", SETTLE_SECONDS)
            select = "document.querySelector('#fleet .panel-head select')"
            page.ask(
                f"{select}.value = 'memory_clock_hertz'; {select}.dispatchEvent(new Event('change', {{bubbles: 1}}))"
            )
            page.ask("document.querySelector('.fleet-box .overlay').focus()")
            page.until("document.querySelector('#fleet .legend .scale').innerText.includes('GHz')")
            page.key("ArrowDown")
            page.until("document.querySelector('.tip').innerText.includes('memory clock')")

            page.click('#wrong [aria-label="I have it: I1"]')
            page.until("document.querySelector('#wrong .has-it, #wrong .error')?.innerText")
            assert page.text("#wrong .has-it, #wrong .error") == "operator:demo (page) has it"

            page.open(url + "/r/1")
            page.until("document.querySelector('#detail .primary')", SETTLE_SECONDS)
            page.click("#detail .primary")
            page.until("document.querySelector('#detail .standing').innerText.includes('approved')")
            page.until("document.querySelector('#detail .step.done')", SETTLE_SECONDS)
            page.until("document.querySelector('#detail .standing .pill').innerText === 'settled'", SETTLE_SECONDS)
            page.until("document.querySelector('#detail').innerText.includes('What came of it')", SETTLE_SECONDS)
            assert page.ask(
                "[...document.querySelectorAll('#detail .step')].every((s) => !s.matches('.waiting, .doing'))"
            )

            # What was done stands as a mark on the scrubber once a minute of it has been rolled up.
            page.until(
                "fetch('/api/v1/trends').then((r) => r.json()).then((t) => t.marks.some((m) => m.name === 'R1'))",
                SETTLE_SECONDS,
            )
            assert [text for text in page.problems if "policy" in text.lower() or "Error" in text] == []
        assert demo.stop() == 0
    finally:
        demo.close()
