"""The page's pictures in docs/pictures: `python -m tests.screenshots [--link LINK]`.

Without arguments a demo is started for them; with --link (a one-time link) a daemon that runs is shown. The Chinese
picture needs a Chinese font: apt-get install fonts-wqy-zenhei.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

from tests.browser import BrowserError, Page, browsing
from tests.digest.digests import an_example

from trimtab.show.digest.render import as_html

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
STORIES_SECONDS = 120.0
PAST_MINUTES = 5
"""How far back the scrubber's picture looks."""
ADVISED = "document.querySelectorAll('#todo ul.rows > .command').length >= 3"
CHARTED = (
    "(n => n > 0 && n === document.querySelectorAll('#detail .uplot').length)"
    "(document.querySelectorAll('#detail .chart').length)"
)


@contextlib.contextmanager
def a_demo() -> Iterator[str]:
    """A demo of our own; its one-time link."""
    command = [str(Path(sys.executable).parent / "trimtab"), "demo", "--speed", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for line in process.stdout or ():
                if found := re.search(r"http://\S+/open/\S+", line):
                    yield found[0]
                    break
            else:
                raise SystemExit("The demo printed no link to its page.")
        finally:
            process.terminate()


def take(page: Page, link: str, pictures: Path) -> None:
    """The start view once all three stories are advised on, then its views, a moment of the past, a phone, Chinese."""
    url = link.partition("/open/")[0]
    page.size(1400, 860)
    page.prefer(color_scheme="dark")
    page.open(link)
    page.until(ADVISED, STORIES_SECONDS)
    page.until("document.querySelector('#strip polyline')?.getAttribute('points').split(' ').length > 12", 60)
    page.picture(pictures / "page.png")
    recommendation(page, url, pictures / "recommendation.png")
    job(page, url, pictures / "job.png")
    scrubber(page, url, pictures / "scrubber.png")
    page.open(url + "/")
    page.until(ADVISED, STORIES_SECONDS)
    page.click("#language [lang='zh-CN']")
    page.until("document.documentElement.lang === 'zh-CN'")
    settled(page)
    page.picture(pictures / "zh.png")
    page.click("#language [lang='en']")
    page.size(390, 844, scale=2, is_phone=True)
    page.prefer(color_scheme="light")
    page.open(url + "/")
    page.until(ADVISED, STORIES_SECONDS)
    settled(page)
    page.picture(pictures / "phone.png")


def settled(page: Page) -> None:
    """Two frames and half a second: what was asked for has come and is drawn."""
    page.ask("new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 500))")


def recommendation(page: Page, url: str, picture: Path) -> None:
    """The first recommendation that has charts."""
    names = page.ask(
        "[...document.querySelectorAll('#todo ul.rows > .command')].map(row => row.querySelector('a').pathname)"
    )
    for name in names:
        page.open(url + name)
        page.until("document.querySelector('#detail .picture canvas')")
        with contextlib.suppress(BrowserError):
            page.until(CHARTED, 8)
            break
    settled(page)
    page.picture(picture)


def job(page: Page, url: str, picture: Path) -> None:
    """The job that a straggler holds back, its clocks by rank; the first that is hit where there is none."""
    jobs = page.ask(
        "fetch('/api/v1/board').then((r) => r.json()).then((b) => b.findings"
        ".sort((x, y) => (y.finding.rule === 'straggler') - (x.finding.rule === 'straggler'))"
        ".flatMap((f) => f.finding.workloads_hit).filter((id) => b.jobs.some((j) => j.id === id && j.gpus.length)))"
    )
    page.open(f"{url}/job/{jobs[0]}")
    select = "document.querySelector('.heat-head select')"
    page.until(select)
    for place, value in ((1, "sm_clock_hertz"), (2, "900")):
        chosen = f"document.querySelector('.heat-head select:nth-child({place})')"
        page.ask(f"{chosen}.value = '{value}'; {chosen}.dispatchEvent(new Event('change', {{bubbles: true}})); 0")
    page.until("document.querySelector('.heat canvas')?.height > 100", 60)
    settled(page)
    page.ask("document.querySelector('.heat-head').parentElement.scrollIntoView({block: 'center'})")
    page.picture(picture)


def scrubber(page: Page, url: str, picture: Path) -> None:
    """The hall as it was some minutes ago, marked as past."""
    page.open(url + "/")
    page.until("document.querySelector('#scrubber input')")
    at = page.ask(
        "fetch('/api/v1/trends?since_seconds=86400').then((r) => r.json())"
        f".then((t) => new Date(Date.parse(t.until) - {PAST_MINUTES} * 60000).toISOString())"
    )
    page.open(f"{url}/?at={at}")
    page.until("document.querySelector('#notices .past b')", 60)
    settled(page)
    page.picture(picture)


def digest(page: Page, picture: Path) -> None:
    """An example of the weekly digest: a demo has no week behind it."""
    text = as_html(an_example(), locale="en", zone=UTC)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digest.html"
        path.write_text(text, encoding="utf-8")
        page.size(820, 1500)
        page.prefer(color_scheme="light")
        page.open(path.as_uri())
        page.picture(picture)


def main() -> None:
    """Parse and take."""
    parser = argparse.ArgumentParser(description="Take the pictures of the page.")
    parser.add_argument("--link", help="a one-time link: trimtab link")
    parser.add_argument("--into", type=Path, default=PICTURES)
    parser.add_argument("--keep-last", action="store_true", help="also what was shown at the end, however it ended")
    given = parser.parse_args()
    source = contextlib.nullcontext(given.link) if given.link else a_demo()
    began = time.monotonic()
    with source as link, browsing() as page:
        try:
            take(page, link, given.into)
        finally:
            if given.keep_last:
                page.picture(given.into / "last.png")
        digest(page, given.into / "digest.png")
        for problem in page.problems:
            print(json.dumps(problem), file=sys.stderr)
    print(*sorted(path.name for path in given.into.glob("*.png")), f"in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
