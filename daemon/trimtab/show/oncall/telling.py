"""What the bell makes postings with: openings, news, endings, and the summary of what was too many."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from trimtab.model.advice import Finding, OpenFinding, Severity, Subject
from trimtab.model.oncall import Incident, Pager, Verb
from trimtab.model.outbox import Posting
from trimtab.show.catalogue import Catalogue
from trimtab.show.oncall.budget import Recipients
from trimtab.show.oncall.letters import Letters
from trimtab.show.oncall.quiet import Quiet
from trimtab.show.oncall.routes import Concern, Router
from trimtab.show.oncall.wording import News, first_line, summary_sentence

SUMMARY = "summary"
"""Rule of the incident that speaks for those that were too many."""
_ENGLISH = Catalogue()


class ToldMemory(Protocol):
    """What a beat reads; the history satisfies it."""

    @property
    def ledger(self) -> str:
        """Whose incidents these are."""
        ...

    def open_incidents(self) -> tuple[Incident, ...]:
        """All that stand."""
        ...

    def next_incident_number(self) -> int:
        """The first number that no incident has had."""
        ...

    def told_targets(self, numbers: Iterable[int]) -> Mapping[int, frozenset[str]]:
        """Incident number -> targets that were told of it."""
        ...

    def finding(self, finding_id: int) -> OpenFinding | None:
        """One finding, open or closed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Teller:
    """What postings are made with."""

    cluster: str
    memory: ToldMemory
    router: Router
    letters: Letters
    quiet: Quiet

    def posting(
        self,
        incident: Incident,
        was: Incident,
        news: News,
        *,
        skipping: Collection[str] = (),
        told_of: Mapping[int, frozenset[str]] | None = None,
    ) -> Posting:
        """News for everybody who was told of the incident, also by way of another target.

        `told_of`: incident -> targets, where that was read already.
        """
        if incident.pager is not Pager.OUTBOX:
            return Posting(incident=incident, was=was)
        if told_of is None:
            told_of = self.memory.told_targets([incident.number])
        handed_on = told_of.get(incident.number, frozenset())
        told = self.letters.known(incident.told, handed_on)
        if not told:
            return Posting(incident=incident, was=was)
        others = self.letters.for_others(news) if news.verb is Verb.RESOLVE else None
        return Posting(
            incident=incident, was=was, letters=self.letters.to(told, news, skipping=skipping), for_others=others
        )

    def opening(
        self,
        incident: Incident,
        was: Incident | None,
        finding: Finding,
        concern: Concern,
        *,
        at: datetime,
        told: Recipients | None = None,
        change: str = "",
    ) -> Posting:
        """Tell everybody on the routes (or `told`) that it is wrong."""
        if incident.pager is not Pager.OUTBOX:
            return Posting(incident=incident, was=was)
        recipients = self.router.recipients(finding, concern) if told is None else told
        if not recipients:
            return Posting(incident=incident, was=was)
        after = replace(
            incident,
            told={**incident.told, **recipients},
            paged_at=incident.paged_at or at,
            worst=incident.severity,
            quiet="",
            changed_at=at,
        )
        news = News(verb=Verb.OPEN, incident=after, at=at, finding=finding, change=change)
        return Posting(incident=after, was=was, letters=self.letters.to(recipients, news))

    def closing(
        self, incident: Incident, *, at: datetime, why: str, told_of: Mapping[int, frozenset[str]] | None = None
    ) -> Posting:
        """It is over: told to whoever was told that it began, whatever is silenced."""
        after = replace(counted(incident, at), closed_at=at, changed_at=at, close_reason=why, quiet="")
        return self.posting(after, incident, News(verb=Verb.RESOLVE, incident=after, at=at), told_of=told_of)


def open_summary(teller: Teller, number: int, members: list[Incident], whom: Recipients, at: datetime) -> Posting:
    """One incident for these, told to whom they were too many for."""
    incident = shown(
        Incident(
            id=f"{teller.memory.ledger}-I{number}",
            number=number,
            cluster=teller.cluster,
            rule=SUMMARY,
            severity=Severity.WARNING,
            worst=Severity.WARNING,
            subject=Subject(cluster=teller.cluster),
            title="",
            opened_at=at,
            changed_at=at,
            incident=SUMMARY,
            sentence=summary_sentence(members, _ENGLISH),
            told=whom,
            paged_at=at,
            members_told=len(members),
        )
    )
    news = News(verb=Verb.OPEN, incident=incident, at=at, members=members)
    return Posting(incident=incident, was=None, letters=teller.letters.to(whom, news))


def tell_summary(teller: Teller, was: Incident, members: list[Incident], new: Recipients, at: datetime) -> Posting:
    """How many it speaks for now; to targets in `new` it opens."""
    after = shown(
        replace(
            was,
            told={**was.told, **new},
            members_told=len(members),
            changed_at=at,
            sentence=summary_sentence(members, _ENGLISH),
        )
    )
    update = News(verb=Verb.UPDATE, incident=after, at=at, change="summary", members=members)
    posting = teller.posting(after, was, update, skipping=set(new))
    opening = News(verb=Verb.OPEN, incident=after, at=at, members=members)
    return replace(posting, letters=(*posting.letters, *teller.letters.to(new, opening)))


def shown(incident: Incident) -> Incident:
    """With the line that lists show, and with the title that it keeps from its opening on."""
    line = first_line(News(verb=Verb.OPEN, incident=incident, at=incident.opened_at), _ENGLISH)
    return replace(incident, first_line=line, title=incident.title or line)


def counted(incident: Incident, at: datetime) -> Incident:
    """With what it has cost until now."""
    since = incident.changed_at or incident.opened_at
    hours = max((at - since).total_seconds(), 0.0) / 3600.0
    return replace(incident, gpu_hours_lost=incident.gpu_hours_lost + incident.loss_gpus * hours, changed_at=at)
