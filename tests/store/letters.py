"""Incidents and letters for the tests of the outbox."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from tests.builders import CLUSTER
from tests.fakes.clock import START

from trimtab.model.advice import Severity, Subject
from trimtab.model.oncall import Incident, Message, Verb
from trimtab.model.outbox import Claimed, Letter, Posting
from trimtab.store.history import History

LEASE_SECONDS = 60.0


def an_incident(number: int = 1, **changes: object) -> Incident:
    return Incident(
        **{
            "id": f"abc-I{number}",
            "number": number,
            "incident": f"device/{number}",
            "cluster": CLUSTER,
            "rule": "device_fault",
            "severity": Severity.CRITICAL,
            "subject": Subject(cluster=CLUSTER, node="gpu-00"),
            "title": f"fault {number}",
            "first_line": f"fault {number}",
            "opened_at": START,
            "changed_at": START,
            "finding": number,
            **changes,
        }
    )


def a_message(incident: Incident, verb: Verb = Verb.OPEN, **changes: object) -> Message:
    return Message(
        **{
            "id": "",
            "key": incident.key,
            "verb": verb,
            "sequence": 0,
            "at": START,
            "opened_at": START,
            "cluster": CLUSTER,
            "rule": incident.rule,
            "severity": incident.severity,
            "subject": incident.subject,
            "first_line": incident.first_line,
            "title": incident.title,
            **changes,
        }
    )


def opening(number: int = 1, *, targets: Iterable[str] = ("pd",)) -> Posting:
    incident = an_incident(number, paged_at=START)
    letters = tuple(Letter(target=target, message=a_message(incident)) for target in targets)
    return Posting(incident=incident, was=None, letters=letters)


def follow(history: History, number: int, verb: Verb, *, targets: Iterable[str] = ("pd",), **changes: object) -> None:
    """One more letter about an incident, as the bell would post it."""
    was = history.incident(number)
    assert was is not None
    letters = tuple(
        Letter(target=target, message=a_message(was, verb), **changes)
        for target in targets  # type: ignore[arg-type]
    )
    assert history.post([Posting(incident=was, was=was, letters=letters)]) == 1


def claim(history: History, *, owner: str = "w1", at_seconds: float = 0.0, target: str = "pd") -> Claimed | None:
    return history.claim(target, owner=owner, at=START + timedelta(seconds=at_seconds), lease_seconds=LEASE_SECONDS)


def done(history: History, claimed: Claimed | None, **what: object) -> bool:
    assert claimed is not None
    return history.delivered(claimed, at=START, **what)  # type: ignore[arg-type]
