"""Which targets hear of a finding, in whose language, and as whose news. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from trimtab.errors import SettingsError
from trimtab.model.advice import Action, Finding, Severity
from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.oncall import Audience, Target
from trimtab.settings.oncall import OnCallSettings, RouteSettings

OWNERS_RULES = ("straggler", "idle_gpu", "hung_job")
"""Rules whose findings are news to whoever owns the workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """Whose work a finding hits."""

    owners: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()

    @property
    def owner(self) -> str:
        """For people: all of them."""
        return ", ".join(self.owners)

    @property
    def queue(self) -> str:
        """For people: all of them."""
        return ", ".join(self.queues)


class Router:
    """The routes of the settings, over the targets that there are."""

    def __init__(self, settings: OnCallSettings, targets: Mapping[str, Target]) -> None:
        """Raises SettingsError for a route or a `next` that names no target."""
        self.targets = targets
        self._routes = settings.routes or _default_routes(targets)
        _check(settings, targets)

    def recipients(self, finding: Finding, concern: Concern) -> dict[str, tuple[Audience, str]]:
        """Target -> whom it speaks to there and in which language. On-call's own routes win over owners'."""
        found: dict[str, tuple[Audience, str]] = {}
        for route in sorted(self._routes, key=lambda one: one.audience is Audience.OWNER):
            if not _fits(route, finding, concern):
                continue
            for name in route.targets:
                found.setdefault(name, (route.audience, route.locale or self.targets[name].locale))
        return found


def is_owners_news(finding: Finding) -> bool:
    """Whether it is for the owner of the workload to act on."""
    return finding.action is Action.ALERT_OWNER or finding.rule in OWNERS_RULES


def concern_of(finding: Finding, snapshot: ClusterSnapshot | None) -> Concern:
    """Whose work it hits, as far as the scheduler's last word says."""
    ids = dict.fromkeys((*finding.workloads_hit, *((finding.subject.workload,) if finding.subject.workload else ())))
    hit = [found for found in (_workload(snapshot, each) for each in ids) if found is not None]
    queues = dict.fromkeys([*(each.queue for each in hit), finding.subject.queue])
    return Concern(
        owners=tuple(dict.fromkeys(each.owner for each in hit if each.owner)),
        queues=tuple(queue for queue in queues if queue),
    )


def _workload(snapshot: ClusterSnapshot | None, workload_id: str) -> Workload | None:
    if snapshot is None:
        return None
    return snapshot.workload_by_id.get(workload_id)


def _fits(route: RouteSettings, finding: Finding, concern: Concern) -> bool:
    if finding.severity not in route.severities:
        return False
    if route.audience is Audience.OWNER:
        if not route.rules and not is_owners_news(finding):
            return False
    elif is_owners_news(finding) and finding.action.rank <= Action.ALERT_OWNER.rank:
        # What only the owner can act on wakes nobody else, unless a route names its rule.
        return bool(route.rules) and _any(route.rules, [finding.rule]) and _is_theirs(route, concern)
    return _any(route.rules, [finding.rule]) and _is_theirs(route, concern)


def _is_theirs(route: RouteSettings, concern: Concern) -> bool:
    return _any(route.queues, concern.queues) and _any(route.owners, concern.owners)


def _any(patterns: Sequence[str], names: Iterable[str]) -> bool:
    """No patterns fit all; else one of the names must fit one of them."""
    return not patterns or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _default_routes(targets: Mapping[str, Target]) -> tuple[RouteSettings, ...]:
    if not targets:
        return ()
    return (RouteSettings(targets=tuple(targets), severities=(Severity.CRITICAL, Severity.WARNING)),)


def _check(settings: OnCallSettings, targets: Mapping[str, Target]) -> None:
    known = ", ".join(targets) or "none"
    for number, route in enumerate(settings.routes, start=1):
        missing = [name for name in route.targets if name not in targets]
        if missing:
            raise SettingsError(
                f"oncall.routes: route {number} names the target {missing[0]!r}; there are: {known}. "
                "Add [oncall.targets." + missing[0] + "] or correct the route."
            )
    for name, target in settings.targets.items():
        if target.next and (target.next not in targets or target.next == name):
            raise SettingsError(
                f"oncall.targets.{name}.next = {target.next!r} is not another target; there are: {known}."
            )
