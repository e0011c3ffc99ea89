"""Gives findings an identity and a life: opened once per incident, changed with hysteresis, closed by rule.

`update` computes, `commit` makes it so: between the two the changes are written, and what could not be written is
computed again on the next beat, with the same ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from trimtab.detect.closing import (
    ENERGY,
    RESET_SEEN,
    Sight,
    clear_from,
    is_over,
    reset_seen_at,
    rule_of,
    sight_of,
    unproved,
)
from trimtab.detect.fleet import Fleet
from trimtab.detect.grouping import Sighting, groups_of
from trimtab.detect.hits import hit_now
from trimtab.detect.incident import MEMBERS, digest, members_of, moment_of, moment_text
from trimtab.model.advice import UNPROVED, Finding, FindingState, OpenFinding
from trimtab.model.window import Window

FLAP_SECONDS = 600.0
"""What comes back this soon after it was closed is the same finding."""
HOLD_SECONDS = 60.0
"""Better news, and other words for the same, wait this long before they are told."""
OPEN_AFTER_SECONDS: Mapping[str, float] = {"node_silent": 15.0, "clock_skew": 15.0, "contradiction": 120.0}
"""Rules whose sign must stand this long: a moment is no news."""
SETTLE_RULES = ("node_silent",)
SETTLE_SECONDS = 45.0
"""So long after its own start a daemon calls no node silent: an agent that could not reach it asks every 30 s."""

EASED_SINCE, UNSEEN_SINCE, UNSEEN_WHY = "eased_since", "unseen_since", "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one judgement changed, and all that stands after it. `touched` is to be kept, and news to nobody."""

    at: datetime
    opened: tuple[OpenFinding, ...] = ()
    changed: tuple[OpenFinding, ...] = ()
    closed: tuple[OpenFinding, ...] = ()
    touched: tuple[OpenFinding, ...] = ()
    after: tuple[OpenFinding, ...] = ()
    recently_closed: tuple[OpenFinding, ...] = ()
    pending: Mapping[str, datetime] = field(default_factory=dict)
    next_id: int = 1

    @property
    def sentence(self) -> str:
        """One line for the log: `1 opened (F31 gpu-07 GPU 3 fell off the bus), 0 changed, 1 closed; 4 open`."""
        named = "; ".join(f"{each.name} {each.finding.sentence}" for each in self.opened[:3])
        more = f"; and {len(self.opened) - 3} more" if len(self.opened) > 3 else ""
        opened = f"{len(self.opened)} opened" + (f" ({named}{more})" if named else "")
        return f"{opened}, {len(self.changed)} changed, {len(self.closed)} closed; {len(self.after)} open"


class Tracker:
    """Holds the open findings. One thread owns it; others read the published tuple."""

    def __init__(
        self, open_findings: Iterable[OpenFinding] = (), next_id: int = 1, *, settled_at: datetime | None = None
    ) -> None:
        """Go on from what the history holds: open findings, and those closed lately (they may come back).

        `settled_at`: until then, after a start, rules of SETTLE_RULES open nothing.
        """
        found = tuple(open_findings)
        self.open_findings: tuple[OpenFinding, ...] = tuple(
            sorted((each for each in found if each.state is FindingState.OPEN), key=lambda each: each.id)
        )
        self._recently_closed = tuple(each for each in found if each.state is FindingState.CLOSED)
        self._pending: Mapping[str, datetime] = {}
        self._settled_at = settled_at
        self._next_id = max([next_id, *(each.id + 1 for each in found)])

    def update(self, window: Window, findings: Iterable[Finding], *, judged: Collection[str] | None = None) -> Changes:
        """What these findings change. `judged` names the rules whose detectors ran; of others nothing is concluded."""
        beat = _Beat(window, next_id=self._next_id, judged=judged, pending=self._pending, settled_at=self._settled_at)
        flaps = [each for each in self._recently_closed if _is_recent(each, window.at)]
        for group in groups_of(findings, self.open_findings, flaps):
            beat.take(group.sightings, group.open, group.closed)
        return beat.changes(flaps)

    def snooze(self, finding_id: int, until: datetime | None, *, at: datetime) -> Changes:
        """Keep a finding quiet until then (None = no longer); only worse news breaks through."""
        after = tuple(
            replace(each, snoozed_until=until) if each.id == finding_id else each for each in self.open_findings
        )
        touched = tuple(each for each in after if each.id == finding_id)
        return Changes(
            at=at,
            touched=touched,
            after=after,
            recently_closed=self._recently_closed,
            pending=self._pending,
            next_id=self._next_id,
        )

    def commit(self, changes: Changes) -> None:
        """Make changes that were written down the present state."""
        self.open_findings = changes.after
        self._recently_closed = changes.recently_closed
        self._pending = changes.pending
        self._next_id = max(self._next_id, changes.next_id)


def _is_recent(closed: OpenFinding, at: datetime) -> bool:
    return closed.closed_at is not None and at - closed.closed_at <= timedelta(seconds=FLAP_SECONDS)


class _Beat:
    """One update being put together."""

    def __init__(
        self,
        window: Window,
        *,
        next_id: int,
        judged: Collection[str] | None,
        pending: Mapping[str, datetime],
        settled_at: datetime | None,
    ) -> None:
        self.window = window
        self.at = window.at
        self.fleet = Fleet(window)
        self.next_id = next_id
        self.judged = judged
        self.was_pending = pending
        self.settled_at = settled_at
        self.pending: dict[str, datetime] = {}
        self.opened: list[OpenFinding] = []
        self.changed: list[OpenFinding] = []
        self.closed: list[OpenFinding] = []
        self.touched: list[OpenFinding] = []
        self.after: list[OpenFinding] = []

    def take(
        self, sightings: Sequence[Sighting], standing: Sequence[OpenFinding], flaps: Sequence[OpenFinding]
    ) -> None:
        """One incident: what was seen of it now, and the findings that already stand for it."""
        if not sightings:
            for found in standing:
                self._absent(found)
            return
        told_as = min(standing, key=lambda found: found.id).finding.rule if standing else ""
        seen = max(sightings, key=lambda sighting: sighting.order(told_as))
        members = frozenset().union(*(sighting.members for sighting in sightings))
        names = {sighting.finding.incident for sighting in sightings} | {found.finding.incident for found in standing}
        if not standing:
            self._open(seen.finding, members | _aliases(names, seen.finding.incident), flaps)
            return
        keep, *others = sorted(standing, key=lambda found: found.id)
        for other in others:
            self._close(other, f"now part of {keep.name}")
        members |= _aliases(names, keep.finding.incident)
        self._seen(keep, seen.finding, members.union(*(members_of(other.finding) for other in others)))

    def changes(self, flaps: Sequence[OpenFinding]) -> Changes:
        """All of it as a value."""
        reopened = {each.id for each in self.opened}
        recent = [each for each in flaps if each.id not in reopened] + self.closed
        return Changes(
            at=self.at,
            opened=tuple(self.opened),
            changed=tuple(self.changed),
            closed=tuple(self.closed),
            touched=tuple(self.touched),
            after=tuple(sorted(self.after, key=lambda found: found.id)),
            recently_closed=tuple(recent),
            pending=self.pending,
            next_id=self.next_id,
        )

    # ---- opening ----

    def _open(self, finding: Finding, members: frozenset[str], flaps: Sequence[OpenFinding]) -> None:
        finding = _joined(finding, finding, members)
        wait = timedelta(seconds=OPEN_AFTER_SECONDS.get(finding.rule, 0.0))
        since = self.was_pending.get(finding.incident, self.at)
        is_too_soon = self.at - since < wait and not flaps
        is_settling = self.settled_at is not None and self.at < self.settled_at
        if is_too_soon or (is_settling and finding.rule in SETTLE_RULES):
            self.pending[finding.incident] = since
            return
        if flaps:
            self._reopen(max(flaps, key=lambda found: found.id), finding)
            return
        found = OpenFinding(
            id=self.next_id,
            finding=finding,
            opened_at=self.at,
            changed_at=self.at,
            last_seen_at=self.at,
            gate=rule_of(finding).gate,
        )
        self.next_id += 1
        self.opened.append(found)
        self.after.append(found)

    def _reopen(self, flap: OpenFinding, finding: Finding) -> None:
        members = members_of(finding) | _aliases({finding.incident}, flap.finding.incident)
        found = replace(
            flap,
            finding=_joined(flap.finding, finding, members),
            state=FindingState.OPEN,
            changed_at=self.at,
            last_seen_at=self.at,
            closed_at=None,
            close_reason=None,
            clear_since=None,
            gate=rule_of(finding).gate,
        )
        self.opened.append(found)
        self.after.append(found)

    # ---- going on ----

    def _seen(self, found: OpenFinding, finding: Finding, members: frozenset[str]) -> None:
        old = found.finding
        joined = _joined(old, finding, members)
        step = _step(old, joined)
        if _is_narrower(old, finding) or self._knows_less(old, finding):
            last_at = max(old.facts.get("last_at", ""), finding.facts.get("last_at", ""))
            joined, step = _as_it_was(old, joined, last_at=last_at), 0
        elif step < 0 and not self._has_held(old):
            since = old.facts.get(EASED_SINCE, moment_text(self.at))
            joined, step = _as_it_was(old, joined, **{EASED_SINCE: since}), 0
        elif step == 0 and joined.sentence != old.sentence and not self._may_reword(found):
            joined = replace(joined, sentence=old.sentence)
        joined = hit_now(joined, old, self.fleet)
        is_news = (joined.action, joined.severity, joined.sentence) != (old.action, old.severity, old.sentence)
        is_told = is_news and (step > 0 or not _is_snoozed(found, self.at))
        after = replace(
            found,
            finding=joined,
            last_seen_at=self.at,
            clear_since=None,
            gate=rule_of(joined).gate,
            changed_at=self.at if is_told else found.changed_at,
        )
        self.after.append(after)
        if is_told:
            self.changed.append(after)
        elif is_news or _is_worth_keeping(found, after):
            self.touched.append(after)

    def _knows_less(self, old: Finding, new: Finding) -> bool:
        """Lines that only slid out of the window are no news: what they said holds until a reset is seen."""
        if old.facts.get("kind") != "device" or old.facts.get("rests_on") != "events" or _step(old, new) > 0:
            return False
        if new.facts.get("last_at", "") > old.facts.get("last_at", ""):
            return False
        has_other_words = (old.action, old.severity, old.sentence) != (new.action, new.severity, new.sentence)
        return has_other_words and reset_seen_at(old, self.window, self.fleet) is None

    def _has_held(self, old: Finding) -> bool:
        since = moment_of(old.facts.get(EASED_SINCE))
        return since is not None and self.at - since >= timedelta(seconds=HOLD_SECONDS)

    def _may_reword(self, found: OpenFinding) -> bool:
        return self.at - found.changed_at >= timedelta(seconds=HOLD_SECONDS)

    # ---- ending ----

    def _absent(self, found: OpenFinding) -> None:
        """The detector no longer says so: well, or only unseen?"""
        if self.judged is not None and found.finding.rule not in self.judged:
            self.after.append(found)
            return
        was, found = found, self._with_reset(found)
        found = replace(found, finding=hit_now(found.finding, found.finding, self.fleet))
        sight, why = sight_of(found, self.window, self.fleet)
        if sight is Sight.GONE:
            self._close(found, why)
        elif sight is Sight.WELL:
            self._well(found, why, was=was)
        else:
            self._not_well(found, sight, why, was=was)

    def _with_reset(self, found: OpenFinding) -> OpenFinding:
        if RESET_SEEN in found.finding.facts:
            return found
        seen_at = reset_seen_at(found.finding, self.window, self.fleet)
        if seen_at is None:
            return found
        facts = {**found.finding.facts, RESET_SEEN: moment_text(seen_at)}
        return replace(found, finding=replace(found.finding, facts=facts))

    def _well(self, found: OpenFinding, why: str, *, was: OpenFinding) -> None:
        since = found.clear_since or clear_from(found, self.at)
        doubt = unproved(found.finding, self.fleet)
        if doubt is not None:
            facts = {**found.finding.facts, UNPROVED: doubt}
            found = replace(found, finding=replace(found.finding, facts=facts))
        if is_over(found, since, self.at):
            self._close(replace(found, clear_since=since), why)
            return
        self._keep(was, replace(found, clear_since=since, finding=_without(found.finding, UNSEEN_SINCE, UNSEEN_WHY)))

    def _not_well(self, found: OpenFinding, sight: Sight, why: str, *, was: OpenFinding) -> None:
        facts = {name: text for name, text in found.finding.facts.items() if name != UNPROVED}
        if sight is Sight.UNSEEN:
            facts.setdefault(UNSEEN_SINCE, moment_text(self.at))
            facts[UNSEEN_WHY] = f"cannot be seen: {why}"
        else:
            facts.pop(UNSEEN_SINCE, None)
            facts[UNSEEN_WHY] = f"stays open: {why}"
        self._keep(was, replace(found, clear_since=None, finding=replace(found.finding, facts=facts)))

    def _keep(self, before: OpenFinding, after: OpenFinding) -> None:
        self.after.append(after)
        if _is_worth_keeping(before, after):
            self.touched.append(after)

    def _close(self, found: OpenFinding, why: str) -> None:
        self.closed.append(
            replace(found, state=FindingState.CLOSED, closed_at=self.at, changed_at=self.at, close_reason=why)
        )


def _aliases(names: Collection[str], kept: str) -> frozenset[str]:
    """Other names that the incident goes by, so that it is known by them later."""
    return frozenset(digest(name) for name in names if name != kept)


def _joined(old: Finding, new: Finding, members: frozenset[str]) -> Finding:
    """The new finding under the old identity; what only the tracker knows goes on."""
    facts = dict(new.facts)
    known = members_of(old) | members
    if known:
        facts[MEMBERS] = " ".join(sorted(known))
    if ENERGY in old.facts:
        facts.setdefault(ENERGY, old.facts[ENERGY])
    began = min((moment for moment in (old.began_at, new.began_at) if moment is not None), default=None)
    return replace(new, incident=old.incident, began_at=began, facts=facts)


def _as_it_was(old: Finding, joined: Finding, **facts: str) -> Finding:
    """What stood, unchanged by what is seen now, but for the names and members that it is known by from now on."""
    members = {MEMBERS: joined.facts[MEMBERS]} if MEMBERS in joined.facts else {}
    return replace(old, facts={**_without(old, *_PASSING).facts, **facts, **members})


def _step(old: Finding, new: Finding) -> int:
    """Positive when worse, negative when better, in action first."""
    before = (old.action.rank, old.severity.rank)
    now = (new.action.rank, new.severity.rank)
    return (now > before) - (now < before)


def _is_narrower(old: Finding, new: Finding) -> bool:
    """A part of a job's fault, seen after the job let go of its GPUs, is the same old fault."""
    is_program = old.facts.get("kind") == new.facts.get("kind") == "app"
    return is_program and members_of(new) < members_of(old)


def _is_snoozed(found: OpenFinding, at: datetime) -> bool:
    return found.snoozed_until is not None and at < found.snoozed_until


def _without(finding: Finding, *facts: str) -> Finding:
    if not any(name in finding.facts for name in facts):
        return finding
    return replace(finding, facts={name: text for name, text in finding.facts.items() if name not in facts})


_PASSING = (RESET_SEEN, UNPROVED, UNSEEN_SINCE, UNSEEN_WHY)
"""Facts of a time in which the detector did not say so; they end when it says so again."""
_KEPT_FACTS = (RESET_SEEN, UNPROVED, EASED_SINCE, UNSEEN_SINCE, UNSEEN_WHY)


def _is_worth_keeping(before: OpenFinding, after: OpenFinding) -> bool:
    """Whether a restart would need to know: what the close rules and the hysteresis count from."""
    if (before.clear_since is None) != (after.clear_since is None):
        return True
    if before.finding.is_corroborated != after.finding.is_corroborated:
        return True
    if members_of(before.finding) != members_of(after.finding):
        return True
    if before.finding.workloads_hit != after.finding.workloads_hit:
        return True
    return any(before.finding.facts.get(name) != after.finding.facts.get(name) for name in _KEPT_FACTS)
