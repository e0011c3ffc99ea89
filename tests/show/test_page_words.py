"""Every text of the page is said through the catalogue: each key that is used stands in it, and none stands unused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import trimtab.show
from trimtab.model.advice import Action, Severity
from trimtab.model.board import CellState
from trimtab.model.cluster import WorkloadState
from trimtab.model.command import CommandState, Mode
from trimtab.model.oncall import Pager
from trimtab.model.people import Role
from trimtab.model.standing import Answer
from trimtab.show.catalogue import LOCALES, Catalogue, source

STATIC = Path(trimtab.show.__file__).parent / "web" / "static"
CALL = re.compile(r"\b(t|known|plural)\(")
LITERAL = re.compile(r'"([a-z0-9][\w-]*)"')
SECTION = re.compile(r"^## The page.*?(?=^## End of the page)", re.MULTILINE | re.DOTALL)

FAMILIES = {
    "action-": Action,
    "cell-": CellState,
    "command-": CommandState,
    "incident-pager-": Pager,
    "job-": WorkloadState,
    "mode-": Mode,
    "owner-": [*Answer],
    "role-": [Role.VIEWER, Role.OPERATOR, Role.ADMIN],
    "severity-": Severity,
    "standing-": CommandState,
    "step-": ("waiting", "doing", "done", "given-back"),
    "cause-": ("scheduling", "network", "hardware", "host", "code"),
    "quiet-": ("silence", "maintenance"),
    "quiet-tag-": ("silence", "maintenance"),
    "fleet-group-": ("rack", "queue", "job", "model", "none"),
    "fleet-order-": ("name", "free"),
    "measure-": ("activity", "temperature", "power", "clock", "memory", "findings"),
    "scrubber-span-": ("10800", "86400", "604800"),
    "reject-": ("deadline", "owner", "wrong", "cost", "hand"),
    "picture-": ("before", "after"),
    "waits-": ("job", "size", "queue", "for", "why", "do", "state", "priority"),
    "job-fact-": ("state", "size", "queue", "priority", "checkpoint", "lost", "recommended"),
    "heat-col-": ("rank", "where", "mean", "median"),
    "heat-": (
        "activity_ratio", "sm_clock_hertz", "power_watts", "temperature_celsius", "memory_used_bytes",
        "dram_active_ratio", "nvlink_bytes_per_second", "pcie_bytes_per_second",
    ),
}  # fmt: skip
"""Keys that are put together in the page, and what the daemon may put there."""

OPEN_FAMILIES = ("metric-", "rule-", "count-")
"""Names that the daemon may add to: the page shows the bare name where the catalogue has none (`known`)."""


def calls(text: str) -> Iterator[tuple[str, str]]:
    """Each call of `t`, `known` or `plural` with its arguments, brackets balanced."""
    for found in CALL.finditer(text):
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[at], 0)
            at += 1
        yield found[1], text[found.end() : at - 1]


def first_of(arguments: str) -> str:
    depth = 0
    for at, letter in enumerate(arguments):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if letter == "," and not depth:
            return arguments[:at]
    return arguments


def used() -> tuple[set[str], set[str]]:
    """Keys that the page says by name, and beginnings of those that it puts together."""
    keys, families = set(), set()
    for path in STATIC.glob("*.js"):
        for name, arguments in calls(path.read_text()):
            if name == "plural":
                keys |= {f"count-{noun}" for noun in LITERAL.findall(arguments)}
                continue
            key = first_of(arguments)
            families |= {part.partition("${")[0] for part in re.findall(r"`([^`]*)`", key)}
            # A condition that chooses the key is not one: only what stands at its ends counts.
            chosen = re.sub(r"`[^`]*`|[\w.?!]+ [!=]==? \"[^\"]*\"", "", key)
            keys |= set(LITERAL.findall(chosen))
    return keys, families


def page_keys() -> set[str]:
    found = SECTION.search(source("en"))
    assert found is not None
    return set(re.findall(r"^([a-z][\w-]*) *=", found[0], re.MULTILINE))


@pytest.mark.parametrize("locale", LOCALES)
def test_every_key_that_the_page_says_is_in_the_catalogue(locale: str) -> None:
    keys, families = used()
    assert len(keys) > 250
    spoken = Catalogue(locale)
    assert {key for key in keys if not spoken.knows(key)} == set()
    unknown = {family for family in families if family not in FAMILIES and family not in OPEN_FAMILIES}
    assert unknown == set(), "name its members in FAMILIES"
    put_together = {family + str(member) for family in families & FAMILIES.keys() for member in FAMILIES[family]}
    assert {key for key in put_together if not spoken.knows(key)} == set()


def test_every_word_of_the_page_is_said_somewhere() -> None:
    keys, families = used()
    put_together = {family + str(member) for family in families & FAMILIES.keys() for member in FAMILIES[family]}
    means = {f"mode-{mode}-means" for mode in Mode}
    said = keys | put_together | means
    unused = {key for key in page_keys() - said if not key.startswith(OPEN_FAMILIES)}
    assert unused == set()


def test_no_sentence_stands_in_the_code() -> None:
    """A literal with two words in it that is shown is a text that nobody translates."""
    allowed = {"I do it by hand", "not now: the job has a deadline", "its owner says no", "the finding is wrong",
               "it costs too much"}  # fmt: skip
    shown = re.compile(r"(?:h\([^\n]*?, |text: |aria-label\": |title: )\"([A-Za-z][a-z]+ [^\"]+)\"")
    for path in STATIC.glob("*.js"):
        found = {text for text in shown.findall(path.read_text()) if text not in allowed and " " in text}
        classes = {text for text in found if re.fullmatch(r"[a-z -]+", text)}
        assert found - classes == set(), path.name


def test_chinese_is_chinese() -> None:
    """A text that is the same in both languages was forgotten, unless it is a name."""
    english, chinese = Catalogue("en"), Catalogue("zh-CN")
    same = {
        key
        for key in page_keys()
        if english.say(key, n=2, count=2) == chinese.say(key, n=2, count=2) and re.search("[a-z]{3}", english.say(key))
    }
    assert same <= {"tip-held-by", "heat-col-rank"}
