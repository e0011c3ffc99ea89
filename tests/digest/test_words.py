"""The digest in words: whole in both languages, safe with any name, and nothing but itself."""

from __future__ import annotations

import re
from datetime import UTC
from html.parser import HTMLParser

import pytest
from tests.digest.digests import HOSTILE, a_digest

from trimtab.model.digest import GpuHours
from trimtab.show.catalogue import LOCALES
from trimtab.show.digest.render import as_html, as_markdown, as_text
from trimtab.show.digest.words import span_text

VOID = {"meta", "img", "br", "link", "rect", "path", "input"}


class Reading(HTMLParser):
    """Reads a page: its tags, its text, whatever it would fetch, and whether each tag is ended."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.handlers: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("locale", LOCALES)
def test_the_page_is_whole_safe_and_fetches_nothing(locale: str) -> None:
    page = as_html(a_digest(), locale=locale, zone=UTC)
    read = Reading(page)
    assert (read.fetched, read.handlers) == ([], [])
    assert not {"script", "img", "link", "iframe", "a"} & set(read.tags)
    assert read.tags.count("svg") == 3
    assert "http" not in page.replace("http-equiv", "")
    assert HOSTILE in "".join(read.text), "a name is shown as it is"
    assert f'lang="{locale}"' in page


@pytest.mark.parametrize("locale", LOCALES)
def test_both_forms_say_the_same_figures(locale: str) -> None:
    digest = a_digest()
    page = " ".join("".join(Reading(as_html(digest, locale=locale, zone=UTC)).text).split())
    markdown = as_markdown(digest, locale=locale, zone=UTC)
    for figure in ("21,400", "2,310", "1,204", "612", "412", "380", "86.9 %", "GPU-58f1", "2.2 d", "R12"):
        assert figure in page, figure
        assert figure.replace("_", "\\_") in markdown, figure


def test_a_name_is_no_markup_in_markdown() -> None:
    markdown = as_markdown(a_digest(), locale="en", zone=UTC)
    queue_rows = [line for line in markdown.splitlines() if "onerror" in line and line.startswith("|")]
    assert queue_rows
    for row in queue_rows:
        assert re.search(r"(?<!\\)[`*\[<]", row) is None
    header = next(line for line in markdown.splitlines() if line.startswith("| queue"))
    cells = header.count("|") - header.count("\\|")
    assert {row.count("|") - row.count("\\|") for row in queue_rows} <= {cells, 4}


def test_no_share_without_its_base_and_nothing_known_is_no_zero() -> None:
    empty = a_digest(hours=GpuHours(), causes=(), queues=(), days=(), gains=(), prospects=(), offenders=())
    text = as_markdown(empty, locale="en", zone=UTC)
    assert "Nothing is kept of this time." in text
    assert "No goodput: no job held a GPU." in text
    assert "0.0 %" not in text
    assert "NaN" not in text


def test_a_message_begins_with_what_counts() -> None:
    lines = as_text(a_digest(), locale="en", zone=UTC)
    assert lines[0].startswith("Of 30,256 GPU-hours 20,597 did work that counted;")
    gave = "What the moves should give: Expected over the horizon 508 GPU-hours, after 26.0 that they really cost."
    assert any(line.startswith(gave) for line in lines)


@pytest.mark.parametrize(
    ("seconds", "said"), [(41.0, "41 s"), (720.0, "12 min"), (12_600.0, "3.5 h"), (181_440.0, "2.1 d")]
)
def test_spans_have_the_unit_that_is_read_easily(seconds: float, said: str) -> None:
    assert span_text(seconds) == said
