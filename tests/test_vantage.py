"""Who pages for a finding, as /metrics says it: nobody without targets, and the same as before with the store away."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from tests.fakes.clock import START

from trimtab.errors import StoreError
from trimtab.model.advice import Severity, Subject
from trimtab.model.oncall import Incident, Pager
from trimtab.model.outbox import LetterState, OutboxCounts
from trimtab.show.oncall.pager import Arbiter
from trimtab.vantage import OnCallLook


class Memory:
    """Incidents and an outbox, or a store that is out of reach."""

    def __init__(self, *incidents: Incident) -> None:
        self.incidents = incidents
        self.error: StoreError | None = None

    def outbox_counts(self) -> OutboxCounts:
        if self.error is not None:
            raise self.error
        return OutboxCounts(letters={("ops", LetterState.READY): 2}, oldest_waiting_at={"ops": START})

    def open_incidents(self) -> tuple[Incident, ...]:
        return self.incidents

    def pager_switch(self) -> Pager | None:
        return None

    def switch_pager(self, pager: Pager, **_: Any) -> None:
        raise AssertionError("nobody asked for it")


def an_incident(finding: int | None, pager: Pager, *, is_drill: bool = False) -> Incident:
    return Incident(
        id=f"I{finding}", cluster="hall-a", rule="device_fault", severity=Severity.CRITICAL, title="lost",
        subject=Subject(cluster="hall-a"), opened_at=START, finding=finding, pager=pager, is_drill=is_drill,
    )  # fmt: skip


def look(memory: Memory, *, has_targets: bool = True, setting: Pager = Pager.OUTBOX) -> OnCallLook:
    counts: Any = SimpleNamespace(attempts_total=Counter({("ops", "delivered"): 3}))
    history: Any = memory
    targets = ("pager",) if has_targets else ()
    return OnCallLook(history, Arbiter(setting=setting, switch=memory), counts, targets=targets)


def test_each_finding_says_who_opened_its_incident() -> None:
    memory = Memory(an_incident(31, Pager.OUTBOX), an_incident(32, Pager.ALERTMANAGER), an_incident(33, Pager.NONE),
                    an_incident(34, Pager.OUTBOX, is_drill=True), an_incident(None, Pager.OUTBOX))  # fmt: skip
    facts = look(memory).facts(START + timedelta(seconds=40))
    assert facts is not None
    assert facts.pagers == {31: "outbox", 32: "alertmanager", 33: "none"}
    assert (facts.pager, facts.oldest_waiting_seconds, facts.messages) == (
        "outbox",
        {"ops": 40.0},
        {("ops", "ready"): 2},
    )
    assert facts.attempts_total == {("ops", "delivered"): 3}


def test_an_outbox_without_targets_pages_nobody_so_that_rules_may() -> None:
    facts = look(Memory(an_incident(31, Pager.OUTBOX), an_incident(33, Pager.NONE)), has_targets=False).facts(START)
    assert facts is not None
    assert (facts.pager, facts.pagers) == ("", {31: "", 33: "none"})


def test_a_store_that_is_away_hands_no_finding_from_one_pager_to_the_other() -> None:
    memory = Memory(an_incident(31, Pager.OUTBOX))
    seen = look(memory)
    before = seen.facts(START)
    memory.error = StoreError("the disk is full")
    assert seen.facts(START + timedelta(hours=1)) == before
    assert look(memory).facts(START) is None
