"""The words: every language has every key, with the same arguments."""

from __future__ import annotations

import re

import pytest

from trimtab.detect.detector import catalogue as detectors
from trimtab.model.advice import Action, Severity
from trimtab.settings import DetectSettings
from trimtab.show.catalogue import LOCALES, Catalogue, source

KEY = re.compile(r"^([a-zA-Z][\w-]*) *=", re.MULTILINE)


def messages(locale: str) -> dict[str, str]:
    text = source(locale)
    starts = list(KEY.finditer(text))
    ends = [one.start() for one in starts[1:]] + [len(text)]
    return {one[1]: text[one.end() : end] for one, end in zip(starts, ends, strict=True)}


def arguments(text: str) -> set[str]:
    return set(re.findall(r"\$([a-zA-Z_]\w*)", text))


@pytest.mark.parametrize("locale", LOCALES[1:])
def test_every_language_has_the_same_keys_with_the_same_arguments(locale: str):
    english, other = messages("en"), messages(locale)
    assert english.keys() - other.keys() == set(), "not translated"
    assert other.keys() - english.keys() == set(), "translated, but nobody says it"
    assert {key for key in english if arguments(english[key]) != arguments(other[key])} == set()


@pytest.mark.parametrize("locale", LOCALES)
def test_no_key_is_written_twice(locale: str):
    keys = KEY.findall(source(locale))
    assert sorted(keys) == sorted(set(keys))


@pytest.mark.parametrize("locale", LOCALES)
def test_every_message_can_be_said(locale: str):
    spoken = Catalogue(locale)
    for key, text in messages(locale).items():
        said = spoken.say(key, **dict.fromkeys(arguments(text), 2))
        assert said.strip()
        assert "{" not in said, (key, said)


@pytest.mark.parametrize("locale", LOCALES)
def test_every_kind_of_finding_severity_and_action_has_its_words(locale: str):
    spoken = Catalogue(locale)
    rules = {one.name for one in detectors(DetectSettings(), spares_kept=1)}
    wanted = (
        {f"rule-{one}" for one in rules} | {f"severity-{one}" for one in Severity} | {f"action-{one}" for one in Action}
    )
    assert {key for key in wanted if not spoken.knows(key)} == set()


def test_an_unknown_language_speaks_english_and_an_unknown_key_is_an_error():
    assert Catalogue("xx").say("severity-critical") == "critical"
    assert Catalogue("zh-CN").say("severity-critical") == "严重"
    with pytest.raises(KeyError):
        Catalogue("en").say("nobody-wrote-this")
