"""The page's pictures in docs/pictures: `python -m tests.screenshots [--url URL --link LINK]`.

Without arguments a demo is started for them; with --url and --link (a one-time link) a daemon that runs is shown.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.browser import BrowserError, Page, browsing

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
STORIES_SECONDS = 90.0
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
    """The start view once all three stories are advised on, then the first recommendation that has charts."""
    url = link.partition("/open/")[0]
    page.size(1400, 860)
    page.prefer(color_scheme="dark")
    page.open(link)
    page.until(ADVISED, STORIES_SECONDS)
    page.until("document.querySelector('#strip polyline')?.getAttribute('points').split(' ').length > 12", 60)
    page.picture(pictures / "page.png")
    names = page.ask(
        "[...document.querySelectorAll('#todo ul.rows > .command')].map(row => row.querySelector('a').pathname)"
    )
    for name in names:
        page.open(url + name)
        page.until("document.querySelector('#detail .picture canvas')")
        with contextlib.suppress(BrowserError):
            page.until(CHARTED, 5)
            break
    page.picture(pictures / "recommendation.png")


def main() -> None:
    """Parse and take."""
    parser = argparse.ArgumentParser(description="Take the pictures of the page.")
    parser.add_argument("--url", help="the daemon's address; the link says it too")
    parser.add_argument("--link", help="a one-time link: trimtab link")
    parser.add_argument("--into", type=Path, default=PICTURES)
    given = parser.parse_args()
    source = contextlib.nullcontext(given.link) if given.link else a_demo()
    with source as link, browsing() as page:
        take(page, link, given.into)
        for problem in page.problems:
            print(problem, file=sys.stderr)
    print(*sorted(path.name for path in given.into.glob("*.png")))


if __name__ == "__main__":
    main()
