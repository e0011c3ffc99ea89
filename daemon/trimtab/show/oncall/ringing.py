"""One beat of the bell: every open finding beside its incident, and what is to be told of the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from trimtab.model.advice import Finding, OpenFinding, Severity
from trimtab.model.oncall import Incident, Pager, Verb
from trimtab.model.outbox import Posting
from trimtab.show.oncall.budget import Recipients, Room
from trimtab.show.oncall.routes import Concern
from trimtab.show.oncall.telling import SUMMARY, Teller, counted, open_summary, shown, tell_summary
from trimtab.show.oncall.wording import News

LOSS_CHANGE_GPUS = 1.0
"""A loss that changed by less is not worth a row."""


class Ringing:
    """One beat being put together."""

    def __init__(
        self, teller: Teller, *, at: datetime, pager: Pager, openings: Mapping[str, int], openings_max: int
    ) -> None:
        """Read what stands."""
        self.postings: list[Posting] = []
        self._teller = teller
        self._at = at
        self._pager = pager
        self._room = Room(openings, most=openings_max)
        standing = teller.memory.open_incidents()
        self._drills = [one for one in standing if one.is_drill]
        self._summary = next((one for one in standing if one.rule == SUMMARY), None)
        self._standing = {one.incident: one for one in standing if not one.is_drill and one.rule != SUMMARY}
        self._seen: set[str] = set()
        self._number: int | None = None
        self._summary_number: int | None = None if self._summary is None else self._summary.number
        self._summed: dict[str, Recipients] = {}
        self._members = {one.number: one for one in self._standing.values() if one.summed_in is not None}

    # --- what stands

    def look_at(self, found: OpenFinding, concern: Concern) -> None:
        """One open finding: new to people, changed, or as it was told."""
        name = found.finding.incident
        self._seen.add(name)
        incident = self._standing.get(name)
        if incident is None:
            if not found.finding.is_history_only and self._is_worth_telling(found.finding, concern):
                self._page(self._new(found, concern), None, found.finding, concern)
            return
        fresh = _refreshed(incident, found, concern, self._at)
        if self._is_nobodys(incident, found.finding, concern):
            fresh = replace(fresh, pager=self._pager)
        if fresh.pager is not Pager.OUTBOX:
            self._keep(fresh, incident)
        elif incident.paged_at is None:
            self._not_told_yet(fresh, incident, found.finding, concern)
        else:
            self._go_on(fresh, incident, found, concern)

    def _is_nobodys(self, incident: Incident, finding: Finding, concern: Concern) -> bool:
        """Whether no pager has it yet, so that whoever pages now takes it over: a switch must leave none to nobody."""
        if incident.pager is self._pager or incident.pager is Pager.ALERTMANAGER:
            return False
        if incident.pager is Pager.NONE:
            return True
        is_waiting = bool(incident.quiet) or incident.summed_in is not None
        is_told = incident.paged_at is not None
        return not is_told and not is_waiting and not self._teller.router.recipients(finding, concern)

    def _is_worth_telling(self, finding: Finding, concern: Concern) -> bool:
        """What wakes nobody and is on no route is for the page alone."""
        return finding.severity is not Severity.INFO or bool(self._teller.router.recipients(finding, concern))

    def _new(self, found: OpenFinding, concern: Concern) -> Incident:
        finding, number = found.finding, self._next_number()
        return shown(
            Incident(
                id=f"{self._teller.memory.ledger}-I{number}",
                number=number,
                cluster=self._teller.cluster,
                rule=finding.rule,
                severity=finding.severity,
                subject=finding.subject,
                title="",
                opened_at=finding.began_at or found.opened_at,
                changed_at=self._at,
                queue=concern.queue,
                owner=concern.owner,
                incident=finding.incident,
                finding=found.id,
                pager=self._pager,
                worst=finding.severity,
                action=finding.action,
                sentence=finding.sentence,
                impact=finding.impact,
                victims=tuple(sorted(set(finding.workloads_hit))),
                loss_gpus=finding.loss_gpus,
            )
        )

    def _page(
        self, incident: Incident, was: Incident | None, finding: Finding, concern: Concern, *, change: str = ""
    ) -> None:
        """Tell it, unless it is to be quiet, or too much at once."""
        if incident.pager is Pager.OUTBOX and self._is_quiet(incident, was):
            return
        is_critical = incident.severity is Severity.CRITICAL
        recipients = self._teller.router.recipients(finding, concern) if incident.pager is Pager.OUTBOX else {}
        told, summed = self._room.divide(recipients, is_exempt=is_critical)
        if summed:
            incident = replace(incident, summed_in=self._number_of_summary(), quiet="")
            self._summed[incident.incident] = summed
        posting = self._teller.opening(incident, was, finding, concern, at=self._at, told=told, change=change)
        if posting.incident.summed_in is not None:
            self._members[posting.incident.number] = posting.incident
        if was is None or posting.letters or _differs(posting.incident, was):
            self.postings.append(posting)

    def _is_quiet(self, incident: Incident, was: Incident | None) -> bool:
        """Whether a silence or a window keeps us from paging; noted once, with its audit line."""
        why = self._teller.quiet.why_quiet(incident, self._at)
        if why is None:
            return False
        before = was.quiet if was is not None else ""
        if was is None or before != why:
            line = ("trimtab", f"{incident.name} pages nobody", why)
            after = replace(incident if was is None else was, quiet=why, changed_at=self._at)
            self.postings.append(Posting(incident=after, was=was, audited=() if before else (line,)))
        return True

    def _not_told_yet(self, fresh: Incident, incident: Incident, finding: Finding, concern: Concern) -> None:
        if incident.summed_in is not None and finding.severity is not Severity.CRITICAL:
            self._keep(fresh, incident)
            return
        self._page(fresh, incident, finding, concern, change="late" if incident.quiet else "")

    def _go_on(self, fresh: Incident, incident: Incident, found: OpenFinding, concern: Concern) -> None:
        finding = found.finding
        change, is_loud = _change(incident, finding)
        is_snoozed = found.snoozed_until is not None and self._at < found.snoozed_until
        if not change or (is_snoozed and not is_loud):
            self._keep(fresh, incident)
            return
        if self._is_quiet(fresh, incident):
            return
        after = replace(fresh, worst=max(incident.worst, finding.severity, key=lambda one: one.rank), quiet="")
        new = self._only_for_louder(after, finding, concern) if is_loud else {}
        told = replace(after, told={**after.told, **new})
        news = News(verb=Verb.UPDATE, incident=told, at=self._at, finding=finding, is_loud=is_loud, change=change)
        posting = self._teller.posting(told, incident, news, skipping=set(new))
        opening = News(verb=Verb.OPEN, incident=told, at=self._at, finding=finding)
        self.postings.append(replace(posting, letters=(*posting.letters, *self._teller.letters.to(new, opening))))

    def _only_for_louder(self, incident: Incident, finding: Finding, concern: Concern) -> Recipients:
        """Targets that only the higher severity leads to: for them it opens now."""
        recipients = self._teller.router.recipients(finding, concern)
        new = {name: whom for name, whom in recipients.items() if name not in incident.told}
        told, _ = self._room.divide(new, is_exempt=finding.severity is Severity.CRITICAL)
        return told

    def _keep(self, fresh: Incident, incident: Incident) -> None:
        """Keep what the ending needs, without a word to anybody."""
        if incident.quiet and incident.paged_at and self._teller.quiet.why_quiet(incident, self._at) is None:
            self.postings.append(Posting(incident=replace(_only_loss(fresh, incident), quiet=""), was=incident))
            return
        is_told_elsewhere = fresh.pager is not Pager.OUTBOX and _differs(fresh, incident)
        if is_told_elsewhere or abs(fresh.loss_gpus - incident.loss_gpus) >= LOSS_CHANGE_GPUS:
            kept = fresh if fresh.pager is not Pager.OUTBOX else _only_loss(fresh, incident)
            self.postings.append(Posting(incident=kept, was=incident))

    # --- what is over

    def close_the_rest(self, closed: Mapping[int, OpenFinding]) -> None:
        """Incidents whose finding no longer stands."""
        over = [incident for name, incident in self._standing.items() if name not in self._seen]
        told_of = self._teller.memory.told_targets([one.number for one in over]) if over else {}
        for incident in over:
            found = closed.get(incident.finding or 0)
            if found is None and incident.finding is not None:
                found = self._teller.memory.finding(incident.finding)
            why = (found.close_reason if found is not None else None) or "it no longer holds"
            self.postings.append(self._teller.closing(incident, at=self._at, why=why, told_of=told_of))
            self._members.pop(incident.number, None)

    def end_drills(self) -> None:
        """Drills whose time is over."""
        for one in self._drills:
            if one.ends_at is not None and one.ends_at <= self._at:
                self.postings.append(self._teller.closing(one, at=self._at, why="the drill is over"))

    # --- too much at once

    def _number_of_summary(self) -> int:
        if self._summary_number is None:
            self._summary_number = self._next_number()
        return self._summary_number

    def sum_up(self) -> None:
        """One incident for all that were too many: opened, told again when they double, closed after the last."""
        members = list(self._members.values())
        whom = {name: told for one in self._summed.values() for name, told in one.items()}
        if self._summary is None:
            if whom and self._summary_number is not None:
                posting = open_summary(self._teller, self._summary_number, members, whom, self._at)
                # Its members already name it: it is written before them.
                self.postings.insert(0, posting)
            return
        if not members:
            self.postings.append(self._teller.closing(self._summary, at=self._at, why="all of them are over"))
            return
        new = {name: told for name, told in whom.items() if name not in self._summary.told}
        if new or len(members) >= 2 * max(self._summary.members_told, 1):
            self.postings.append(tell_summary(self._teller, self._summary, members, new, self._at))

    def _next_number(self) -> int:
        self._number = self._teller.memory.next_incident_number() if self._number is None else self._number + 1
        return self._number


def _change(incident: Incident, finding: Finding) -> tuple[str, bool]:
    """What changed against what was told, and whether that is to sound again."""
    if finding.severity.rank > incident.worst.rank:
        return "worse", True
    if set(finding.workloads_hit) - set(incident.victims):
        return "victims", True
    if finding.severity.rank != incident.severity.rank:
        return ("worse" if finding.severity.rank > incident.severity.rank else "better"), False
    if finding.action is not incident.action:
        return "action", False
    return "", False


def _refreshed(incident: Incident, found: OpenFinding, concern: Concern, at: datetime) -> Incident:
    """The incident as the finding says it now."""
    finding = found.finding
    return shown(
        replace(
            counted(incident, at),
            finding=found.id,
            severity=finding.severity,
            action=finding.action,
            sentence=finding.sentence,
            impact=finding.impact,
            subject=finding.subject,
            victims=tuple(sorted({*incident.victims, *finding.workloads_hit})),
            owner=concern.owner or incident.owner,
            queue=concern.queue or incident.queue,
            loss_gpus=finding.loss_gpus,
            changed_at=at,
        )
    )


def _only_loss(fresh: Incident, incident: Incident) -> Incident:
    """What was told stays as it was told; whom it hits and what it costs is as it is now."""
    return replace(
        incident,
        impact=fresh.impact,
        loss_gpus=fresh.loss_gpus,
        gpu_hours_lost=fresh.gpu_hours_lost,
        changed_at=fresh.changed_at,
    )


def _differs(fresh: Incident, incident: Incident) -> bool:
    """Whether anything that is shown changed; moments and running sums alone are no news."""
    same = replace(fresh, changed_at=incident.changed_at, gpu_hours_lost=incident.gpu_hours_lost,
                   loss_gpus=incident.loss_gpus)  # fmt: skip
    return same != incident
