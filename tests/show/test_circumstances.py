"""Pauses as sentences, and a release that adds up from look to look."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.fakes.people import NOW

from trimtab.model.board import ReleaseRow
from trimtab.model.command import AuditLine
from trimtab.model.standing import Standing, StandingKind
from trimtab.show.circumstances import pause_sentences, release_row

PAUSED = AuditLine(at=NOW, who="operator:anna", what="paused", why="driver upgrade")
RELEASE = Standing(kind=StandingKind.RELEASE, name="all", since=NOW, who="operator:anna", why="release --all")
CORDON, TAINT = "trimtab:1ed9e0:R11: cordon of gpu-01", "trimtab:1ed9e0:R11: taint trimtab/seat on gpu-03"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ()),
        ({"is_paused": True, "paused": PAUSED}, ("Paused by operator:anna: driver upgrade.",)),
        ({"is_paused": True}, ("Paused.",)),
        ({"cluster_reason": ""}, ("Paused in the cluster itself: no reason given.",)),
        (
            {"is_paused": True, "paused": PAUSED, "cluster_reason": "An upgrade."},
            ("Paused by operator:anna: driver upgrade.", "Paused in the cluster itself: An upgrade."),
        ),
        (
            {"is_paused": True, "paused": PAUSED, "releases": (RELEASE,)},
            ("Everything is being given back for operator:anna.",),
        ),
    ],
)
def test_every_pause_that_stands_is_a_sentence(given: dict[str, object], said: tuple[str, ...]) -> None:
    nothing = {"paused": None, "is_paused": False, "cluster_reason": None, "releases": ()}
    assert pause_sentences(**{**nothing, **given}) == said  # type: ignore[arg-type]


def look(before: ReleaseRow | None, *, minutes: int = 0, **changes: object) -> ReleaseRow:
    asked = NOW + timedelta(minutes=minutes)
    given = {"asked_by": "anna", "asked_at": asked, "at": asked, "given_back": (), "left": (), "is_done": False}
    return release_row(before, **{**given, **changes})  # type: ignore[arg-type]


def test_what_a_look_no_longer_finds_was_given_back() -> None:
    waits = "R11 waits to release: the API server does not answer"
    first = look(None, given_back=("R11 held → undone",), left=(CORDON, TAINT, waits))
    second = look(first, left=(TAINT,))
    last = look(second, is_done=True)
    assert first.given_back == ("R11 held → undone",)
    assert second.given_back == ("R11 held → undone", CORDON)
    assert (last.given_back, last.left, last.is_done) == (("R11 held → undone", CORDON, TAINT), (), True)


def test_a_new_request_begins_anew() -> None:
    first = look(None, given_back=("R11 held → undone",), left=(CORDON,))
    assert look(first, minutes=5, left=(TAINT,)).given_back == ()
