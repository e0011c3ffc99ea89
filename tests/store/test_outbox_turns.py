"""Whose turn it is in the outbox when one letter cannot be delivered, and acts that could not be done."""

from __future__ import annotations

from tests.fakes.clock import START
from tests.store.test_outbox import MINUTE, claim, done, history, opening

from trimtab.store.history import History

__all__ = ["history"]  # pytest finds fixtures by name here


def test_one_that_its_target_refuses_again_and_again_does_not_keep_the_others_waiting(history: History) -> None:
    history.post([opening(1), opening(2), opening(3)])
    seen = []
    for minute in range(6):
        taken = claim(history, at_seconds=60.0 * minute)
        assert taken is not None
        seen.append(taken.message.first_line)
        if taken.message.first_line == "fault 1":
            history.put_off(taken, until=START + (minute + 1) * MINUTE, error="500", is_unsure=False)
        else:
            done(history, taken)
    assert seen == ["fault 1", "fault 2", "fault 3", "fault 1", "fault 1", "fault 1"]


def test_an_act_that_could_not_be_done_is_new_when_it_comes_again(history: History) -> None:
    assert history.is_act_new("pagerduty/1", at=START)
    assert not history.is_act_new("pagerduty/1", at=START)
    history.forget_act("pagerduty/1")
    assert history.is_act_new("pagerduty/1", at=START)
