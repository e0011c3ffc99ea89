"""Sorts findings by incident: those of one beat that share an incident or a member, with what already stands. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trimtab.detect.incident import digest, members_of
from trimtab.model.advice import Finding, OpenFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One finding of this beat."""

    finding: Finding
    members: frozenset[str]

    def order(self, told_as: str) -> tuple[int, int, bool, float, int, str]:
        """Of several about one incident the highest speaks for it; of equals, the rule that it was told as."""
        finding = self.finding
        severity = finding.severity.rank
        is_known = finding.rule == told_as
        return (finding.action.rank, severity, is_known, finding.loss_gpus, len(self.members), finding.incident)


@dataclass(slots=True, kw_only=True)
class Group:
    """All that belongs to one incident."""

    sightings: list[Sighting] = field(default_factory=list)
    open: list[OpenFinding] = field(default_factory=list)
    closed: list[OpenFinding] = field(default_factory=list)


def groups_of(
    findings: Iterable[Finding], standing: Sequence[OpenFinding], closed: Sequence[OpenFinding]
) -> list[Group]:
    """Groups of what shares an incident or a member; those with standing findings first, oldest first."""
    sets = _Sets()
    for each in standing:
        sets.join(_tokens(each.finding))
    sightings = [Sighting(finding=finding, members=members_of(finding)) for finding in findings]
    for sighting in sightings:
        sets.join(_tokens(sighting.finding))
    groups: dict[str, Group] = {}
    for each in sorted(standing, key=lambda found: found.id):
        groups.setdefault(sets.root(each.finding.incident), Group()).open.append(each)
    for sighting in sightings:
        groups.setdefault(sets.root(sighting.finding.incident), Group()).sightings.append(sighting)
    for each in closed:
        roots = dict.fromkeys(sets.root(token) for token in _tokens(each.finding) if sets.knows(token))
        # One group at most, or an id would come back twice.
        taker = next((groups[root] for root in roots if not groups[root].open), None)
        if taker is not None:
            taker.closed.append(each)
    return list(groups.values())


def _tokens(finding: Finding) -> list[str]:
    """What a finding can be known by: its incident, its members, and the incidents that it took in."""
    return [finding.incident, f"#{digest(finding.incident)}", *(f"#{member}" for member in members_of(finding))]


class _Sets:
    """Disjoint sets of tokens."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def knows(self, token: str) -> bool:
        return token in self._parent

    def root(self, token: str) -> str:
        parent = self._parent
        while parent[token] != token:
            parent[token] = parent[parent[token]]
            token = parent[token]
        return token

    def join(self, tokens: Sequence[str]) -> None:
        for token in tokens:
            self._parent.setdefault(token, token)
        first = self.root(tokens[0])
        for token in tokens[1:]:
            self._parent[self.root(token)] = first
