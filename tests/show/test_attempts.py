"""How often somebody may be wrong, and what outsiders can write into the audit: bounded, by a clock that we move."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.clock import FakeClock
from tests.fakes.people import TOKEN, Served, a_board, serving

from trimtab.errors import StoreError
from trimtab.model.people import Role
from trimtab.show.attempts import PEERS_MAX, Attempts, TooManyAttempts, network_of
from trimtab.show.refusals import LINES_PER_MINUTE_MAX, Answer, Refusals

WRONG = {"token": "trimtab_" + "x" * 43}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    bounds = {"failures_per_peer_per_minute": 5, "failures_per_minute": 1000}
    with serving(board=a_board(), web=tmp_path, wall=FakeClock(), **bounds) as running:
        yield running


def a_count(clock: FakeClock, per_peer: int = 5, in_all: int = 20) -> Attempts:
    return Attempts(clock=clock, per_peer_per_minute=per_peer, per_minute=in_all)


def may(attempts: Attempts, peer: str) -> bool:
    try:
        attempts.begin(peer)
    except TooManyAttempts:
        return False
    return True


def test_a_burst_is_let_in_then_one_at_a_time_as_the_minute_goes() -> None:
    clock = FakeClock()
    attempts = a_count(clock)
    assert [may(attempts, "10.0.0.7") for _ in range(7)] == [True] * 5 + [False] * 2
    with pytest.raises(TooManyAttempts, match=r"from 10\.0\.0\.7\. Try again in 12 s") as caught:
        attempts.begin("10.0.0.7")
    assert caught.value.retry_after_seconds == 12
    clock.advance(11.9)
    assert not may(attempts, "10.0.0.7")
    clock.advance(0.2)
    assert [may(attempts, "10.0.0.7") for _ in range(2)] == [True, False]


def test_one_who_is_wrong_holds_up_nobody_else_until_all_together_are_too_many() -> None:
    attempts = a_count(FakeClock())
    for peer in range(4):
        assert all(may(attempts, f"10.0.0.{peer}") for _ in range(5))
        assert not may(attempts, f"10.0.0.{peer}")
    with pytest.raises(TooManyAttempts, match="in all"):
        attempts.begin("10.0.0.99")


def test_who_is_right_is_never_held_up_by_themselves() -> None:
    attempts = a_count(FakeClock())
    for _ in range(100):
        attempts.begin("10.0.0.7")
        attempts.was_right("10.0.0.7")
    assert may(attempts, "10.0.0.7")


def test_attempts_at_once_count_too() -> None:
    attempts, gate = a_count(FakeClock(), in_all=1000), threading.Barrier(16)

    def one(_: int) -> bool:
        gate.wait()
        return may(attempts, "10.0.0.7")

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(one, range(16))) == 5


def test_one_host_is_one_peer_however_many_addresses_it_has() -> None:
    attempts = a_count(FakeClock())
    assert [may(attempts, f"2001:db8:0:7::{number:x}") for number in range(7)] == [True] * 5 + [False] * 2
    assert may(attempts, "2001:db8:0:8::1")
    assert network_of("::ffff:10.0.0.7") == "10.0.0.7"


def test_peers_are_remembered_up_to_a_bound() -> None:
    attempts = a_count(FakeClock(), in_all=10**9)
    for number in range(PEERS_MAX + 10):
        attempts.begin(f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
    assert len(attempts._peers) == PEERS_MAX


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from("ab")), max_size=80))
def test_in_no_minute_more_than_twice_the_bound_is_looked_at(steps: list[tuple[float, str]]) -> None:
    clock = FakeClock()
    attempts, let_in = a_count(clock), []
    for wait, peer in steps:
        clock.advance(wait)
        if may(attempts, peer):
            let_in.append((clock.monotonic_seconds(), peer))
    for begin, peer in let_in:
        assert sum(1 for at, who in let_in if who == peer and begin <= at < begin + 60) <= 10


def test_guessing_at_the_form_ends_with_429_and_a_right_token_waits_too(served: Served) -> None:
    url, statuses = served.url + "/api/v1/sign-in", []
    for _ in range(7):
        answer = requests.post(url, json=WRONG, timeout=5)
        statuses.append(answer.status_code)
    assert statuses == [401] * 5 + [429] * 2
    assert answer.headers["retry-after"] == "12"
    assert "Try again in 12 s" in answer.json()["error"]
    assert requests.post(url, json={"token": TOKEN}, timeout=5).status_code == 429  # not even looked at
    served.wall.advance(12)
    assert requests.post(url, json={"token": TOKEN}, timeout=5).status_code == 200
    what = [line.what for line in served.register.lines]
    assert what == ["refused to sign in", "held up sign-ins", "signed in"]
    counted = served.door.refusals.answers_total()
    assert {name: count for name, count in counted.items() if count} == {"wrong": 5, "held_up": 3, "signed_in": 1}


def test_guessing_bearer_tokens_and_links_is_the_same_bucket(served: Served) -> None:
    headers = {"Authorization": f"Bearer {WRONG['token']}"}
    got = [requests.get(served.url + "/api/v1/board", headers=headers, timeout=5).status_code for _ in range(4)]
    assert got == [401] * 4
    assert requests.get(f"{served.url}/open/guess", timeout=5).status_code == 403
    assert requests.get(f"{served.url}/open/guess", timeout=5).status_code == 429
    assert requests.get(served.url + "/api/v1/board", headers=headers, timeout=5).status_code == 429


def test_tokens_in_use_go_on_working_beside_somebody_who_guesses(served: Served) -> None:
    _, secret = served.door.passes.give_token(name="anna", role=Role.VIEWER, lasts_seconds=None, by="operator")
    good = {"Authorization": f"Bearer {secret}"}
    assert requests.get(served.url + "/api/v1/board", headers=good, timeout=5).status_code == 200
    for _ in range(6):
        requests.post(served.url + "/api/v1/sign-in", json=WRONG, timeout=5)
    assert requests.get(served.url + "/api/v1/board", headers=good, timeout=5).status_code == 200
    assert served.get("/api/v1/board").status_code == 200  # nor is the operator's own held up


def test_a_database_that_is_away_holds_nobody_up_afterwards(served: Served) -> None:
    _, secret = served.door.passes.give_token(name="anna", role=Role.VIEWER, lasts_seconds=None, by="operator")
    url, good = served.url + "/api/v1/sign-in", {"Authorization": f"Bearer {secret}"}
    served.register.is_away = True
    for _ in range(6):
        assert requests.post(url, json={"token": secret}, timeout=5).status_code == 503
        assert requests.get(served.url + "/api/v1/me", headers=good, timeout=5).status_code == 503
    served.register.is_away = False
    assert requests.post(url, json={"token": secret}, timeout=5).status_code == 200


def test_ten_thousand_guesses_leave_a_few_lines_in_the_audit() -> None:
    clock, lines = FakeClock(), []
    refusals = Refusals(clock=clock, write=lambda *line: lines.append(line))
    for _ in range(10_000):
        refusals.tell(Answer.WRONG, who="peer 10.0.0.7", what="refused to sign in", why="a wrong token")
    assert lines == [("peer 10.0.0.7", "refused to sign in", "a wrong token")]
    clock.advance(60)
    refusals.tell(Answer.WRONG, who="peer 10.0.0.7", what="refused to sign in", why="a wrong token")
    assert lines[1:] == [
        ("peer 10.0.0.7", "refused to sign in", "a wrong token (9999 more like it since the last line)")
    ]


def test_from_ten_thousand_addresses_too() -> None:
    clock, lines = FakeClock(), []
    refusals = Refusals(clock=clock, write=lambda *line: lines.append(line))
    for number in range(10_000):
        refusals.tell(Answer.WRONG, who=f"peer {number}", what="refused to sign in", why="a wrong token")
    assert len(lines) == LINES_PER_MINUTE_MAX
    clock.advance(60)
    refusals.tell(Answer.WRONG, who="peer 9999", what="refused to sign in", why="a wrong token")
    assert lines[-1][2] == "a wrong token (1 more like it since the last line)"


def test_a_refusal_stands_although_its_line_cannot_be_kept() -> None:
    def away(*_: str) -> None:
        raise StoreError("the database is out of reach")

    Refusals(clock=FakeClock(), write=away).tell(
        Answer.WRONG, who="peer 10.0.0.7", what="refused to sign in", why="a wrong token"
    )
