"""The agent: reads this node's GPUs, keeps each report on disk, ships it, shows it. Needs no daemon to run."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import click
import msgspec
import structlog

from trimtab import __version__, logs
from trimtab.agent_reload import reload_of
from trimtab.allocator import Trimmer
from trimtab.clock import Clock, SystemClock
from trimtab.collect import catalog
from trimtab.collect.catalog import Collectors
from trimtab.collect.collector import Section, merged
from trimtab.collect.host import host_name
from trimtab.durable import free_bytes
from trimtab.errors import TrimtabError
from trimtab.joining import joined, membership_facts
from trimtab.loop import Beat
from trimtab.model.reading import Event, EventKind, EventSource, GpuState, Report
from trimtab.pulse import Watchdog
from trimtab.reloading import reload_if_asked
from trimtab.runner import Ran, Tally, run_all
from trimtab.service import Service
from trimtab.settings import AgentSettings, load
from trimtab.ship.bounds import EVENTS_MAX
from trimtab.ship.former import leave_former
from trimtab.ship.sender import Sender, sender_of
from trimtab.ship.spool import Spool
from trimtab.show.metrics import serve_agent_metrics
from trimtab.show.metrics_facts import AgentFacts, AgentView
from trimtab.show.metrics_server import MetricsServer

log = structlog.get_logger()

EVENTS_UNKEPT_MAX = 10_000
"""Events that wait for a report to be kept; beyond it the oldest are dropped, counted."""
ONE_REPORT_SECONDS = 0.5
"""Between the two readings of `--once`: activity is measured between two samples."""
SHIP_SECONDS = 1.0
"""The spool is looked at this often, so that a report leaves about as soon as it is made."""


class Keeper(Protocol):
    """Where reports are kept until they are acknowledged."""

    def append(self, report: Report) -> Report:
        """Keep one report; returns it with its sequence."""
        ...


class Agent:
    """One node's reports, one a tick."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        boot_id: str,
        collectors: Collectors,
        keeper: Keeper,
        clock: Clock,
        show: Callable[[Report], None] = lambda _report: None,
    ) -> None:
        """`show` is given each report that was kept; shipping reads the keeper at its own pace."""
        self.node = settings.node or host_name()
        self.tally = Tally()
        self.bad_samples_total = 0
        self.events_total: Counter[tuple[str, str]] = Counter()
        self.events_dropped_total = 0
        self.last_xids: dict[str, int] = {}
        """GPU -> the last XID code seen on it."""
        self.metrics_url = ""
        """Where others reach this node's /metrics; told with each report."""
        self._settings = settings
        self._boot_id = boot_id
        self._collectors = collectors
        self._keeper = keeper
        self._clock = clock
        self._show = show
        self._unkept: list[Event] = []

    def tick(self) -> str:
        """One report: collect, keep, show."""
        report = self._kept(self._report(self._collected()))
        self._show(report)
        return _sentence(report)

    def expect(self, gpus: int | None) -> None:
        """How many GPUs the node should have, from the next report on; None = the most seen since boot."""
        self._settings = msgspec.structs.replace(self._settings, gpus_expected=gpus)

    def close(self) -> None:
        """Give back what the collectors hold."""
        for close in self._collectors.closes:
            close()

    def _collected(self) -> Section:
        parts = [(name, collector.collect) for name, collector in self._collectors.by_name]
        ran = run_all(parts, clock=self._clock, tally=self.tally)
        section = merged(part.result for part in ran if part.result is not None)
        self._count(section)
        return replace(section, errors={**section.errors, **_failures(ran)})

    def _count(self, section: Section) -> None:
        self.bad_samples_total += sum(section.bad_samples.values())
        for event in section.events:
            code = "" if event.code is None else str(event.code)
            self.events_total[event.kind.value, code] += event.count

    def _report(self, section: Section) -> Report:
        named = _named(section)
        self.last_xids |= {event.gpu: event.code for event in named if _is_xid(event) and event.gpu and event.code}
        self._unkept += named
        self._drop_oldest()
        settings = self._settings
        return Report(
            cluster=settings.cluster,
            node=self.node,
            boot_id=self._boot_id,
            sequence=0,  # the keeper gives it one
            sampled_at=self._clock.now(),
            agent_version=__version__,
            source=section.source or "nvml",
            driver=section.driver,
            gpus=section.gpus,
            gpus_expected=section.gpus_expected if settings.gpus_expected is None else settings.gpus_expected,
            events=tuple(self._unkept[:EVENTS_MAX]),
            errors=section.errors,
            bad_samples=section.bad_samples,
            node_values=section.node_values,
            metrics_url=self.metrics_url,
        )

    def _kept(self, report: Report) -> Report:
        """Only once all that the collectors gave is kept do they forget it; what one report cannot hold waits."""
        kept = self._keeper.append(report)
        del self._unkept[: len(report.events)]
        if not self._unkept:
            for commit in self._collectors.commits:
                commit()
        return kept

    def _drop_oldest(self) -> None:
        surplus = len(self._unkept) - EVENTS_UNKEPT_MAX
        if surplus > 0:
            self.events_dropped_total += surplus
            del self._unkept[:surplus]


def _failures(ran: list[Ran[Section]]) -> dict[str, str]:
    return {part.name: part.error for part in ran if part.error is not None}


def _named(section: Section) -> list[Event]:
    """The events with the GPU's UUID filled in where the source gave only its slot."""
    uuid_of = {gpu.info.pci: gpu.uuid for gpu in section.gpus if gpu.info.pci is not None}
    return [
        replace(event, gpu=uuid_of.get(event.pci)) if event.gpu is None and event.pci is not None else event
        for event in section.events
    ]


def _is_xid(event: Event) -> bool:
    return event.kind is EventKind.XID and event.source is not EventSource.USERSPACE


def _sentence(report: Report) -> str:
    states = [gpu.state for gpu in report.gpus]
    parts = [f"{states.count(GpuState.OK)} GPUs read"]
    parts += [f"{count} {state}" for state in (GpuState.LOST, GpuState.UNREADABLE) if (count := states.count(state))]
    if report.events:
        parts.append(f"{len(report.events)} events")
    if "nvml" in report.errors:
        parts.append(report.errors["nvml"])
    return ", ".join(parts)


class _InMemory:
    """Keeps nothing: for one report to look at."""

    def append(self, report: Report) -> Report:
        """The report, as the first of its kind."""
        return replace(report, sequence=1)


def one_report(settings: AgentSettings, *, clock: Clock) -> Report:
    """One report of this node as it stands; nothing is written to disk."""
    shown: list[Report] = []
    boot_id = catalog.boot_id()
    collectors = catalog.collectors(settings, clock=clock, boot_id=boot_id, state_directory=None)
    agent = Agent(settings, boot_id=boot_id, collectors=collectors, keeper=_InMemory(), clock=clock, show=shown.append)
    agent.tick()
    threading.Event().wait(ONE_REPORT_SECONDS)
    agent.tick()
    agent.close()
    return shown[-1]


class AgentProcess:
    """A running agent: one thread reads, one ships, so that a slow network never delays a reading."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        clock: Clock,
        show: Callable[[Report], None],
        read: Callable[[], AgentSettings] | None = None,
    ) -> None:
        """Open spool, sender and /metrics; nothing runs yet. `read` reads the settings again. Raises SettingsError."""
        self._clock, given = clock, settings
        self._last: Report | None = None
        self._acknowledged_at: datetime | None = None
        self._also_show = show
        has_joined = joined(settings, clock=clock)
        settings, self._membership = has_joined.settings, has_joined.membership
        directory = Path(settings.spool_directory)
        node = settings.node or host_name()
        leave_former(directory, cluster=settings.cluster, node=node, bytes_max=settings.spool_bytes_max)
        self._spool = Spool(directory, settings.spool_bytes_max)
        self._spool_directory, self._spool_bytes_max = directory, settings.spool_bytes_max
        self._sender = sender_of(settings, spool=self._spool, clock=clock, keys=self._membership)
        boot_id = catalog.boot_id()
        self.agent = Agent(
            settings,
            boot_id=boot_id,
            collectors=catalog.collectors(settings, clock=clock, boot_id=boot_id, state_directory=directory),
            keeper=self._spool,
            clock=clock,
            show=self._show,
        )
        self._service = Service()
        self._reading = Beat("read", self.agent.tick, interval_seconds=settings.interval_seconds, clock=clock)
        ship_seconds = min(settings.interval_seconds, SHIP_SECONDS)
        self._shipping = Beat("ship", self._ship, interval_seconds=ship_seconds, clock=clock)
        self._beats = [self._reading, self._shipping]
        if self._membership is not None:
            self._beats.append(Beat("enrolment", self._membership.tick, interval_seconds=SHIP_SECONDS, clock=clock))
        self._metrics = self._serve(settings) if settings.metrics_listen else None
        self._next_senders: queue.SimpleQueue[Sender] = queue.SimpleQueue()
        self._reload = reload_of(
            self,
            given,
            read=read,
            spool=self._spool,
            beats=self._beats,
            clock=clock,
            is_enrolled=self._membership is not None,
        )

    def run(self) -> None:
        """Run until SIGTERM or SIGINT. A beat that dies ends the process, and systemd starts it again."""
        self._service.catch_signals()
        log.info("agent started", node=self.agent.node, version=__version__)
        beats = tuple(self._beats)
        for beat in beats:
            beat.start()
        self._service.ready()
        vital = [self._reading.name, self._shipping.name]
        watchdog = Watchdog(self._service, beats, vital=vital, notice=self._trouble)
        trimmer = Trimmer(self._clock)
        while not self._service.wait(1.0):
            trimmer.tend()
            dead = [beat.name for beat in beats if not beat.is_alive]
            if dead:
                raise AgentDied(f"the {dead[0]} beat of the agent died; its traceback is above")
            reload_if_asked(self._service, self._reload)
            watchdog.feed()
        self._service.stopping()
        self._end()

    def view(self) -> AgentView:
        """What /metrics shows."""
        spool, counts = self._spool, self._sender.counts
        facts = AgentFacts(
            version=__version__,
            ticks_total=self._reading.beats_total,
            ticks_dropped_total=self._reading.dropped_total,
            tick_seconds=self._reading.last_duration_seconds,
            spool_reports=spool.waiting,
            spool_bytes=spool.size_bytes,
            spool_bytes_max=self._spool_bytes_max,
            disk_free_bytes=free_bytes(self._spool_directory),
            spool_dropped_total=spool.dropped_total,
            spool_lost_total=spool.lost_total,
            spool_damaged_total=spool.damaged_total,
            events_dropped_total=self.agent.events_dropped_total,
            set_aside_total=spool.set_aside_total,
            acknowledged_total=counts.sent_live_total + counts.sent_backlog_total,
            acknowledged_at=self._acknowledged_at,
            send_failures_total=counts.failures_total,
            put_off_total=counts.put_off_total,
            collector_seconds=dict(self.agent.tally.last_seconds),
            collector_errors_total=dict(self.agent.tally.errors_total),
            bad_samples_total=self.agent.bad_samples_total,
            events_total=dict(self.agent.events_total),
            last_xids=dict(self.agent.last_xids),
            certificates=(*self._sender.trust.facts, *(self._metrics.certificates if self._metrics else ())),
            **(membership_facts(self._membership) if self._membership is not None else {}),
        )
        return AgentView(now=self._clock.now(), report=self._last, facts=facts)

    def _serve(self, settings: AgentSettings) -> MetricsServer:
        server = serve_agent_metrics(settings.metrics_listen, self.view, settings=settings.metrics)
        self.agent.metrics_url = server.url(node=self.agent.node, advertise=settings.metrics.advertise)
        return server

    def _trouble(self) -> str:
        return self._reload.trouble

    def use_settings(self, settings: AgentSettings) -> None:
        """After a reload: what reports are made by from now on."""
        self.agent.expect(settings.gpus_expected)
        self._spool_bytes_max = settings.spool_bytes_max

    def use_sender(self, sender: Sender) -> None:
        """After a reload: who ships from the next turn on."""
        self._next_senders.put(sender)

    def _show(self, report: Report) -> None:
        self._last = report
        self._also_show(report)

    def _ship(self) -> str:
        self._take_senders()  # here, where no sending is under way
        counts = self._sender.counts
        before = counts.sent_live_total + counts.sent_backlog_total
        sentence = self._sender.tick()
        if counts.sent_live_total + counts.sent_backlog_total > before:
            self._acknowledged_at = self._clock.now()
        return sentence

    def _take_senders(self) -> None:
        while not self._next_senders.empty():
            sender = self._next_senders.get()
            sender.counts = self._sender.counts
            self._sender.close()
            self._sender = sender

    def _end(self) -> None:
        for beat in self._beats:
            beat.stop()
        self._take_senders()
        if self._metrics is not None:
            self._metrics.stop()
        self.agent.close()
        self._sender.close()
        self._spool.close()
        log.info("agent ended", waiting=self._spool.waiting)


class AgentDied(TrimtabError):
    """A thread of the agent ended by an error that it does not know."""


def command(settings_file: str | None, *, is_once: bool, is_printing: bool) -> None:
    """What `trimtab agent` does. Raises SettingsError."""
    path = Path(settings_file) if settings_file is not None else None

    def read() -> AgentSettings:
        return load(path, AgentSettings, is_start=True)

    settings = read()
    logs.setup(level=settings.log.level, form=settings.log.form, identifier="trimtab-agent")
    logs.hear_all()
    show = _print if is_printing else lambda _report: None
    if is_once:
        show(one_report(settings, clock=SystemClock()))
        return
    AgentProcess(settings, clock=SystemClock(), show=show, read=read).run()


def _print(report: Report) -> None:
    click.echo(msgspec.json.encode(report).decode())
