"""What a silence matches, as Alertmanager itself would say: RE2, anchored, a missing label is the empty text. Pure.

What cannot be told here with certainty is None: then Alertmanager is asked, and without its answer nobody is kept
asleep.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from functools import lru_cache

from trimtab.model.alerts import Matcher, Silence

PATTERN_CHARACTERS_MAX = 1000
VALUE_CHARACTERS_MAX = 200
REPEATS_MAX = 3
"""Python's matcher tries ways one after the other, RE2 does not: what could take long is not tried here."""

_REPEAT = re.compile(r"(?<!\\)(?:[*+]|\{\d*,\d*\})")
_READ_OTHERWISE = re.compile(r"\[\[:|\{,|\(\?[a-zA-Z]*L|\\[zZ]")
"""Patterns that Python compiles and reads otherwise than RE2: POSIX classes, `{,n}`, and ends of text."""


def matches(silence: Silence, labels: Mapping[str, str]) -> bool | None:
    """Whether a silence mutes an alert of these labels; None = we cannot tell."""
    if not silence.matchers:
        return None
    told = [_holds(matcher, labels.get(matcher.name, "")) for matcher in silence.matchers]
    if False in told:
        return False
    return None if None in told else True


def _holds(matcher: Matcher, value: str) -> bool | None:
    if not matcher.is_regex:
        return (value == matcher.value) is matcher.is_equal
    pattern = compiled(matcher.value)
    if pattern is None or len(value) > VALUE_CHARACTERS_MAX:
        return None
    return (pattern.fullmatch(value) is not None) is matcher.is_equal


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern for `fullmatch`, where Python surely reads it as RE2 does and in bounded time; else None."""
    if len(pattern) > PATTERN_CHARACTERS_MAX or _READ_OTHERWISE.search(pattern) or _is_costly(pattern):
        return None
    if not pattern.isascii() and "(?i" in pattern:
        return None  # case of other alphabets: RE2 folds it, our ASCII matcher does not
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "possible nested set": a class that the two may read otherwise
            return re.compile(pattern, re.ASCII)
    except (re.error, RecursionError, OverflowError, Warning):
        return None


def _is_costly(pattern: str) -> bool:
    """Whether trying could take long: something repeated within what is repeated, or many repeats in a row."""
    if re.search(r"\)(?:[*+]|\{)", pattern):
        return True
    parts = [pattern] if "(" in pattern.strip("()") else pattern.strip("()").split("|")
    return any(len(_REPEAT.findall(part)) > REPEATS_MAX for part in parts)
