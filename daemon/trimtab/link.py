"""The cluster that a daemon is tied to: who reads it, who writes to it, and what must be kept up meanwhile."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trimtab.clock import Clock
from trimtab.issue.asking import HttpAsker
from trimtab.model.command import AuditLine, Command, CommandState
from trimtab.model.devices import NodeDevices
from trimtab.schedulers.connect import connect
from trimtab.schedulers.events import Events
from trimtab.schedulers.kubernetes import Api
from trimtab.schedulers.kueue import KueueScheduler
from trimtab.schedulers.kueue_check import KueueCheck
from trimtab.schedulers.lease import FencedApi, Lease
from trimtab.schedulers.mirror import Mirror
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.plain import Plain
from trimtab.schedulers.reader import KubernetesReader
from trimtab.schedulers.reflector import Counts
from trimtab.schedulers.reviews import TokenReviews
from trimtab.schedulers.scheduler import ClusterReader, Scheduler
from trimtab.schedulers.simulated import SimulatedScheduler
from trimtab.schedulers.volcano import VolcanoScheduler
from trimtab.settings import DaemonSettings, KubernetesSettings, read_token
from trimtab.show.metrics_facts import ClusterFacts, ReadFacts

ASK_TOKEN_ENVIRONMENT = "TRIMTAB_ASK_TOKEN"


class Stop(Protocol):
    """Ends a link."""

    def __call__(self, *, is_writing: bool) -> None:
        """`is_writing`: something may still be under way, so the lease is not given up."""
        ...


def _nothing() -> None:
    """Nothing to start."""


def _stop_nothing(*, is_writing: bool) -> None:
    """Nothing to end."""


def _no_notes() -> tuple[str, ...]:
    """Nothing is missing."""
    return ()


def _no_facts() -> ClusterFacts | None:
    """There is no cluster to count anything of."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What assembly needs of a cluster; without one everything here is empty."""

    reader: ClusterReader | None = None
    schedulers: Mapping[str, Scheduler] = field(default_factory=dict)
    """By the controller whose workloads they move. The first also does what concerns nodes alone."""
    asker: HttpAsker | None = None
    notify: Callable[[Command, str, str], None] | None = None
    tell: Callable[[Command, CommandState | None], None] | None = None
    """Says a change of a command on the cluster's own objects."""
    attend: Callable[[], str] | None = None
    """What is answered each beat, after the snapshot and before commands go on."""
    reviews: TokenReviews | None = None
    """Whose token a DaemonSet's agent shows."""
    lease: Lease | None = None
    notes: Callable[[], tuple[str, ...]] = _no_notes
    """What of the cluster is not read and may be missing."""
    facts: Callable[[], ClusterFacts | None] = _no_facts
    """What was read, written and told so far, for /metrics."""
    start: Callable[[], None] = _nothing
    stop: Stop = _stop_nothing


def link_of(
    settings: DaemonSettings,
    *,
    clock: Clock,
    audit: Callable[[AuditLine], None],
    devices: Callable[[], Mapping[str, NodeDevices]],
    reserves: Callable[[str], Collection[str]],
    is_elected: Callable[[], bool] | None = None,
) -> Link:
    """The link that the settings describe. Raises SettingsError; nothing is sent yet.

    `is_elected`: PostgreSQL elects the active daemon, and it alone takes the Lease.
    """
    if settings.simulated is not None:
        simulated = SimulatedScheduler(settings.simulated.url)
        return Link(reader=simulated, schedulers={simulated.name: simulated})
    if settings.kubernetes is None:
        return Link()
    return _kubernetes(
        settings.kubernetes,
        cluster=settings.cluster,
        clock=clock,
        audit=audit,
        devices=devices,
        reserves=reserves,
        is_elected=is_elected,
    )


def _kubernetes(
    settings: KubernetesSettings,
    *,
    cluster: str,
    clock: Clock,
    audit: Callable[[AuditLine], None],
    devices: Callable[[], Mapping[str, NodeDevices]],
    reserves: Callable[[str], Collection[str]],
    is_elected: Callable[[], bool] | None,
) -> Link:
    api = connect(settings)
    mirror = Mirror(connect(settings), settings, clock)
    reader = KubernetesReader(
        mirror, api=api, settings=settings, cluster=cluster, clock=clock, devices=devices, reserves=reserves
    )
    # A name that no other start has: a daemon that was killed must not take its successor's lease for its own.
    identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    lease = Lease(api, settings, identity=identity, clock=clock, is_elected=is_elected)
    pen = Pen(
        api=FencedApi(api, lease),
        clock=clock,
        audit=lease.noting(audit),
        why_not=lease.why_not,
        prefix=settings.prefix,
    )

    adapters: tuple[Scheduler, ...] = (
        Plain(pen, lambda: reader.view, settings, clock),
        KueueScheduler(pen, lambda: reader.view, settings, clock),
        VolcanoScheduler(pen, lambda: reader.view, settings, clock),
    )
    sign_in = connect(settings)
    reviews = _reviews(settings, sign_in, clock)
    events = Events(api, lambda: reader.view, clock, prefix=settings.prefix, instance=lease.identity)
    check = KueueCheck(pen=pen, view=lambda: reader.view, settings=settings, clock=clock)

    def attend() -> str:
        # Also where no check is asked for (any more): the labels of seats that it gave are swept then.
        return check.step() if lease.why_not() is None else ""

    def facts() -> ClusterFacts:
        return ClusterFacts(
            writes_total=pen.tally.counts(),
            reads={name: _read_facts(counts) for name, counts in mirror.counts().items()},
            events_total=events.counts(),
            is_lease_held=lease.why_not() is None,
            lease_epoch=lease.epoch,
            token_reviews_total=reviews.counts() if reviews is not None else {},
        )

    def stop(*, is_writing: bool) -> None:
        if not is_writing:
            lease.release()
        mirror.stop()
        sign_in.close()
        api.close()

    return Link(
        reader=reader,
        schedulers={one.name: one for one in adapters},
        asker=_asker(settings, clock),
        notify=events.notify,
        tell=events.tell,
        attend=attend,
        reviews=reviews,
        lease=lease,
        notes=lambda: mirror.objects().notes,
        facts=facts,
        start=mirror.start,
        stop=stop,
    )


def _read_facts(counts: Counts) -> ReadFacts:
    return ReadFacts(
        attempts_total=counts.attempts,
        lists_total=counts.lists,
        watches_total=counts.watches,
        changes_total=counts.events,
        missed_changes_total=counts.relisted_differing,
        errors_total=dict(counts.errors),
    )


def _asker(settings: KubernetesSettings, clock: Clock) -> HttpAsker:
    return HttpAsker(settings, clock, token=read_token(settings.ask_token_file, environment_name=ASK_TOKEN_ENVIRONMENT))


def _reviews(settings: KubernetesSettings, api: Api, clock: Clock) -> TokenReviews | None:
    if not settings.agent_service_account:
        return None
    return TokenReviews(
        api=api, clock=clock, service_account=settings.agent_service_account, audience=settings.token_audience
    )
