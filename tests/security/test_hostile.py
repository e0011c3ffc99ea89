"""Each hostile request is refused with its sentence, told in the audit or counted, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.security.hall import Hall
from tests.security.hostile import Hostile
from tests.security.table import HOSTILE
from tests.system.processes import eventually

FIRED = [row for row in HOSTILE if row.fire is not None]
HELD_UP = "held_up"


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    made = Hall(tmp_path_factory.mktemp("hall"))
    try:
        yield made.up()
    finally:
        made.close()


@pytest.fixture(scope="module")
def before(hall: Hall) -> tuple[bool, int]:
    return hall.facts()


def rows() -> list[Hostile]:
    """Whoever guesses to the bound is held up for a while: that one comes last."""
    return sorted(FIRED, key=lambda row: row.answer == HELD_UP)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_it_is_refused_and_told(hall: Hall, before: tuple[bool, int], row: Hostile) -> None:
    counted = hall.answers().get(row.answer, 0.0)
    assert row.fire is not None
    came = row.fire(hall)
    if came.status:  # hung up on in the middle of what it still sent, the sender may see no answer
        assert came.status in row.statuses, came
        assert row.says in came.text
    if row.answer:
        eventually(lambda: hall.answers()[row.answer] > counted, said=hall.daemon.tail)
    if row.audit:
        assert row.audit in {what for _, what, _ in hall.audit()}
    assert hall.facts() == before


def test_the_daemon_took_no_harm(hall: Hall) -> None:
    hall.reports_again()
    hall.daemon.assert_had_no_trouble()
    lines = [line for line in hall.daemon.text().splitlines() if '"refused"' in line or "refused" in line]
    assert any("peer 127.0.0.1" in line and "refused a request to the people listener" in line for line in lines)
    assert any("refused a request to the ingest listener" in line for line in lines)
    assert any("refused reports" in line for line in lines)
    who = {name for name, what, _ in hall.audit() if what.startswith(("refused", "ignored", "held up"))}
    assert "peer 127.0.0.1" in who


def test_every_row_says_what_tells_of_it() -> None:
    for row in HOSTILE:
        assert row.audit or row.answer or row.told, row.name
        assert (row.fire is not None and row.statuses) or row.tests, row.name
    names = [row.name for row in HOSTILE]
    assert len(names) == len(set(names)) >= 30
