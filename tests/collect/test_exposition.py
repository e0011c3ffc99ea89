"""The text format as exporters really write it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.field_cases import field_cases

from trimtab.collect.exposition import PageReader, is_exposition


def samples(text):
    return [(found.series.name, dict(found.series.labels), found.value) for found in PageReader().read(text).samples]


def test_help_and_type_may_come_first_twice_or_never():
    page = '# TYPE a gauge\n# HELP a x\na{b="1"} 2\n# HELP a x\n# TYPE a gauge\nc 3\n'
    assert samples(page) == [("a", {"b": "1"}, 2.0), ("c", {}, 3.0)]


def test_blanks_after_commas_a_trailing_comma_and_escapes_are_valid():
    assert samples('a{ b="1", c="x\\"y\\\\z\\n" , } 2 ') == [("a", {"b": "1", "c": 'x"y\\z\n'}, 2.0)]


def test_braces_in_a_label_value_do_not_end_the_labels():
    assert samples('a{b="{x}, y} 3"} 2 1712041875') == [("a", {"b": "{x}, y} 3"}, 2.0)]


@pytest.mark.parametrize(
    "bad", ['a{b="1"}', 'a{b="1"} N/A', 'a{b="1} 2', "a{b=1} 2", '{b="1"} 2', 'a{b="1"} 1 2 3', "9a 1", 'a{"x"} 1']
)
def test_one_bad_line_costs_itself_alone(bad):
    page = PageReader().read(f'x{{}} 1\n{bad}\ny{{g="0"}} 2\n')
    assert [found.value for found in page.samples] == [1.0, 2.0]
    assert (page.errors, page.error_texts) == (1, [bad])


def test_nan_and_infinities_are_numbers_of_the_format():
    values = [value for _, _, value in samples("a NaN\nb +Inf\nc -Inf\n")]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf]


def test_an_exemplar_is_cut_off():
    assert samples('a_total{b="1"} 2 # {trace="x"} 0.5 1.0') == [("a_total", {"b": "1"}, 2.0)]


def test_a_known_series_is_the_same_object_on_the_next_page():
    reader = PageReader()
    first, second = (reader.read('a{b="1"} 2').samples[0].series for _ in range(2))
    assert first is second


@pytest.mark.parametrize("found", field_cases("a-dcgm") + field_cases("d-exporters"), ids=str)
def test_every_page_of_the_field_is_read_without_an_error(found):
    page = PageReader().read("\n".join(line for line in found.text.splitlines() if not line.startswith("---")))
    assert page.errors == 0
    assert is_exposition(found.text)


@pytest.mark.parametrize(
    "found", [case for case in field_cases() if case.folder not in ("a-dcgm", "d-exporters")], ids=str
)
def test_nothing_else_is_taken_for_a_page(found):
    assert not is_exposition(found.text)


@given(st.text())
def test_no_text_raises(text):
    PageReader().read(text)
    is_exposition(text)
