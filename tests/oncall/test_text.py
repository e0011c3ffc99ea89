"""Cutting and wording: nothing is cut in the middle of a character, and the first line stays."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oncall.scenes import a_message

from trimtab.model.oncall import KEY_BYTES_MAX, incident_key
from trimtab.show.oncall.sender import ELLIPSIS, cut_bytes, utf8_bytes, utf16_units
from trimtab.show.oncall.text import fitted, headline, links, one_line, plain

TEXTS = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("受影响🔥é\n a")), max_size=300)
SIZES = st.sampled_from([utf8_bytes, utf16_units])


@given(text=TEXTS, limit=st.integers(0, 400), size=SIZES)
def test_a_cut_fits_is_a_beginning_and_stands_in_whole_characters(
    text: str, limit: int, size: Callable[[str], int]
) -> None:
    cut = cut_bytes(text, limit, size=size)
    assert size(cut) <= limit
    assert cut.encode().decode() == cut
    kept = cut.removesuffix(ELLIPSIS) if not text.startswith(cut) else cut
    assert text.startswith(kept)
    if size(text) <= limit:
        assert cut == text


@given(text=TEXTS, limit=st.integers(0, 400), size=SIZES)
def test_the_first_line_is_whole_wherever_it_fits(text: str, limit: int, size: Callable[[str], int]) -> None:
    first = text.split("\n", maxsplit=1)[0]
    cut = cut_bytes(text, limit, size=size)
    if size(first) <= limit:
        assert cut.split("\n")[0] == first


@given(text=TEXTS, limit=st.integers(4, 400))
def test_no_room_is_wasted(text: str, limit: int) -> None:
    cut = cut_bytes(text, limit)
    first = text.split("\n", maxsplit=1)[0]
    if utf8_bytes(text) > limit and utf8_bytes(first) + 4 <= limit and " " not in text:
        assert utf8_bytes(cut) > limit - 4


@given(text=TEXTS, limit=st.integers(200, 2000))
def test_a_fitted_body_fits_with_its_escapes(text: str, limit: int) -> None:
    def build(kept: str) -> bytes:
        return json.dumps({"text": kept, "more": "x" * 20}).encode()

    body = fitted(build, text * 10, limit)
    assert len(body) <= limit
    kept = json.loads(body)["text"]
    assert len(build(text * 10)) > limit or kept == text * 10


@given(
    first=TEXTS,
    lines=st.lists(TEXTS, max_size=5),
    repeated=st.integers(1, 200),
    limit=st.integers(200, 3000),
    size=SIZES,
)
def test_plain_text_keeps_first_line_and_links(
    first: str, lines: list[str], repeated: int, limit: int, size: Callable[[str], int]
) -> None:
    message = a_message(first_line=first, lines=tuple(line * repeated for line in lines))
    text = plain(message, limit, size=size)
    assert size(text) <= limit
    tail = "".join(f"\n{link.text}: {link.href}" for link in links(message))
    if size(headline(message)) + size(tail) + 4 <= limit:
        assert text.startswith(headline(message))
        assert ("\n" + text).endswith(tail)


@given(TEXTS)
def test_one_line_is_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1
    assert one_line(line) == line


@given(cluster=st.text(max_size=300), incident=st.text(max_size=300))
def test_a_key_is_at_most_255_bytes_and_one_incidents_own(cluster: str, incident: str) -> None:
    key = incident_key(cluster, incident)
    assert utf8_bytes(key) <= KEY_BYTES_MAX
    assert key != incident_key(cluster, incident + "x")


@pytest.mark.parametrize(
    ("limit", "cut"),
    [
        (100, "hall-a: stopped\nabcdef"),
        (22, "hall-a: stopped\nabcdef"),
        (21, "hall-a: stopped\nab…"),
        (19, "hall-a: stopped\n…"),
        (18, "hall-a: stopped"),
        (15, "hall-a: stopped"),
        (14, "hall-a: sto…"),
        (2, "ha"),
    ],
)
def test_what_a_cut_looks_like(limit: int, cut: str) -> None:
    assert cut_bytes("hall-a: stopped\nabcdef", limit) == cut


def test_marks_go_before_the_first_line_in_the_readers_language() -> None:
    message = a_message(first_line="一号厅：停止", is_drill=True, is_repeat=True, locale="zh-CN")
    assert headline(message) == "【演练】 【可能重复】 一号厅：停止"
