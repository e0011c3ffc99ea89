"""Sends the digest when its time has come: once a week and target, over any number of restarts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol

from trimtab.model.advice import Severity, Subject
from trimtab.model.digest import Digest
from trimtab.model.oncall import FIRST_LINE_CHARACTERS_MAX, Message, Target, Verb, incident_key
from trimtab.model.outbox import Letter
from trimtab.model.past import GpuTimeState
from trimtab.settings import DigestSettings
from trimtab.show.catalogue import Catalogue
from trimtab.show.digest.desk import DigestDesk
from trimtab.show.digest.render import as_html, as_text
from trimtab.show.digest.words import Telling

LATE_MAX = timedelta(days=2)
"""A daemon that was away for longer when a digest was due sends none: the next one covers it."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
RULE = "digest"


class Notes(Protocol):
    """An outbox for what opens no incident."""

    def is_noted(self, target: str, rule: str, due: datetime) -> bool:
        """Whether the note of this rule that was due then was ever put in."""
        ...

    def note(self, letter: Letter, *, due: datetime, at: datetime) -> bool:
        """Put a letter in, once a rule, moment and target; whether it is new."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestPost:
    """Looks whether a digest is due, and puts it into the outbox."""

    settings: DigestSettings
    desk: DigestDesk
    notes: Notes
    targets: Mapping[str, Target]
    cluster: str

    def tick(self, now: datetime) -> str:
        """Send what is due; the sentence of what was done."""
        if not self.settings.targets:
            return "no digest is sent: [digest] targets is empty"
        due = last_due(self.settings, now, self.desk.zone)
        if now - due > LATE_MAX:
            return f"the digest of {due:%Y-%m-%d} was due too long ago"
        missing = [name for name in self.settings.targets if not self.notes.is_noted(name, RULE, due)]
        if not missing:
            return f"the digest of {due:%Y-%m-%d} is sent"
        # By the zone's clock, as `due` is: a week in which the clocks change has an hour more or less.
        since = (due.astimezone(self.desk.zone) - timedelta(days=self.settings.days)).astimezone(UTC)
        digest = self.desk.make(since=since, until=due, now=now)
        sent = [name for name in missing if self._send(digest, due, name)]
        return f"the digest of {due:%Y-%m-%d} goes to {', '.join(sent)}"

    def _send(self, digest: Digest, due: datetime, name: str) -> bool:
        letter = Letter(target=name, message=self.message(digest, self.targets[name], due=due))
        return self.notes.note(letter, due=due, at=digest.made_at)

    def message(self, digest: Digest, target: Target, *, due: datetime) -> Message:
        """The digest as one target gets it."""
        locale = target.locale or self.settings.locale
        telling = Telling(Catalogue(locale), self.desk.zone)
        first = telling.say("first-line", cluster=self.cluster, until=f"{due.astimezone(self.desk.zone):%Y-%m-%d}")
        first = first[:FIRST_LINE_CHARACTERS_MAX]
        is_whole_page = target.kind == "email"
        return Message(
            id=RULE,  # the outbox gives it its own, with its place
            key=incident_key(self.cluster, RULE),
            verb=Verb.NOTE,
            sequence=1,
            at=digest.made_at,
            opened_at=due,
            cluster=self.cluster,
            rule=RULE,
            severity=Severity.INFO,
            subject=Subject(cluster=self.cluster),
            first_line=first,
            title=first,
            lines=as_text(digest, locale=locale, zone=self.desk.zone),
            link=self.desk.page_url(),
            locale=locale,
            facts=_facts(digest),
            html=as_html(digest, locale=locale, zone=self.desk.zone) if is_whole_page else "",
        )


def last_due(settings: DigestSettings, now: datetime, zone: tzinfo) -> datetime:
    """The last moment, in UTC, at which a digest was due: by the zone's own clock, summer or winter."""
    local = now.astimezone(zone)
    back = (local.weekday() - WEEKDAYS.index(settings.weekday)) % 7
    day = local.date() - timedelta(days=back)
    due = datetime(day.year, day.month, day.day, settings.hour, tzinfo=zone)
    if due > local:
        day -= timedelta(days=7)
        due = datetime(day.year, day.month, day.day, settings.hour, tzinfo=zone)
    return due.astimezone(UTC)


def _facts(digest: Digest) -> Mapping[str, str]:
    """For machines: the figures of the first lines, in GPU-hours."""
    hours = digest.hours
    named = {f"gpu_hours_{state.value}": hours.of(state) for state in GpuTimeState}
    named |= {"gpu_hours_lost": hours.lost, "gpu_hours_total": hours.total}
    named |= {"gpu_hours_gained": sum(one.gained for one in digest.gains), "incidents": float(digest.incidents.opened)}
    return {name: f"{value:.3f}".rstrip("0").rstrip(".") for name, value in named.items()}
