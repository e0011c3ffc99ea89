"""The agents of all simulated nodes in this process: each the real one, over the stand-in driver, with a spool."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from trimtab.agent import Agent
from trimtab.clock import Clock, unix_ms
from trimtab.collect import nvml_door
from trimtab.collect.catalog import Collectors, KernelLogCollector
from trimtab.collect.kernel_log import HostTime, KernelLogFollower
from trimtab.collect.nvml import NvmlCollector, node_inventory
from trimtab.collect.nvml_deadline import DirectReader
from trimtab.demo.ground import Ground
from trimtab.loop import Beat
from trimtab.model.reading import Report
from trimtab.settings import AgentSettings
from trimtab.ship.sender import Sender, sender_of
from trimtab.ship.spool import Spool, Waiting
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.fleet import SimNode
from trimtab.sim.kernel_file import KernelFiles
from trimtab.sim.nvml import SimNvml

INTERVAL_SECONDS = 10.0
SHIP_SECONDS = 5.0
BOOKED_FOR = timedelta(days=1)
"""Acknowledgements are checked against the database for this long (simulated); the daemon prunes at two days."""

ReportKey = tuple[str, str, int]
"""Node, spool id, sequence."""


class Books:
    """What was acknowledged to agents, to be held against the database at the end."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._lock = threading.Lock()
        self._acknowledged: dict[ReportKey, int] = {}
        self.total = 0

    def note(self, keys: Iterable[ReportKey], at: datetime) -> None:
        """These were acknowledged; what is older than a day is no longer held."""
        with self._lock:
            for key in keys:
                self.total += key not in self._acknowledged
                self._acknowledged[key] = unix_ms(at)
            if self.total % 4096 == 0:
                oldest = unix_ms(at - BOOKED_FOR)
                self._acknowledged = {key: ms for key, ms in self._acknowledged.items() if ms >= oldest}

    def lost(self, stored: set[ReportKey]) -> list[ReportKey]:
        """What was acknowledged and is not in the database."""
        with self._lock:
            return sorted(set(self._acknowledged) - stored)


class BookedSpool(Spool):
    """A spool that writes down what the daemon acknowledged."""

    def __init__(self, settings: AgentSettings, *, books: Books, clock: Clock) -> None:
        """The same spool as any agent's."""
        self._node, self._books, self._clock = settings.node, books, clock
        super().__init__(Path(settings.spool_directory), settings.spool_bytes_max)

    def acknowledge(self, delivered: Iterable[Waiting]) -> None:
        """Book them, then let them go."""
        gone = list(delivered)
        self._books.note(((self._node, self._id_of(waiting), waiting.sequence) for waiting in gone), self._clock.now())
        super().acknowledge(gone)

    def _id_of(self, waiting: Waiting) -> str:
        if waiting.is_on_disk:
            return self.spool_id
        return msgspec.msgpack.decode(waiting.encoded, type=Report).spool_id


class NodeAgent:
    """One node's agent with its spool and sender."""

    def __init__(
        self, node: SimNode, ground: Ground, *, driver: SimNvml, kernel: KernelFiles, clock: Clock, books: Books
    ) -> None:
        """Open the spool; nothing runs yet."""
        directory = ground.agent_directory(node.name)
        settings = AgentSettings(
            cluster=ground.cluster,
            node=node.name,
            daemon_urls=(ground.ingest_url,),
            token_file=str(ground.token_file(node.name)),
            spool_directory=str(directory),
            kernel_log=str(kernel.path(node.name)),
            interval_seconds=INTERVAL_SECONDS,
            metrics_listen="",
        )
        self.spool = BookedSpool(settings, books=books, clock=clock)
        self.sender: Sender = sender_of(settings, spool=self.spool, clock=clock)
        self.agent = Agent(
            settings,
            boot_id=node.boot_id.replace("-", ""),
            collectors=_collectors(node, settings, driver=driver, clock=clock),
            keeper=self.spool,
            clock=clock,
        )

    def close(self) -> None:
        """Hang up and let go of the spool."""
        self.sender.close()
        self.agent.close()
        self.spool.close()


def _collectors(node: SimNode, settings: AgentSettings, *, driver: SimNvml, clock: Clock) -> Collectors:
    """A node's collectors as in `catalog`, but for the host's own /proc, which is this machine's and not the node's."""
    directory = Path(settings.spool_directory)
    boot_id = node.boot_id.replace("-", "")
    nvml = NvmlCollector(
        clock=clock,
        inventory=node_inventory(directory, boot_id),
        reader=DirectReader(),
        slow_seconds=settings.expensive_interval_seconds,
        pid_name=driver.process_name,
        before_tick=lambda: driver.select(node.name),
        source="sim",
    )

    def host_time() -> HostTime:
        return HostTime(boot_id=boot_id, uptime_seconds=(clock.now() - node.boot_at).total_seconds())

    kernel_log = KernelLogCollector(
        lambda: KernelLogFollower(settings.kernel_log, clock=clock, state_directory=directory, host_time=host_time)
    )
    return Collectors(
        by_name=(("nvml", nvml), ("kernel_log", kernel_log)), commits=(kernel_log.commit,), closes=(nvml.close,)
    )


class Fleet:
    """All agents: one thread reads them in turn, spread over the interval; each has a thread that ships."""

    def __init__(self, cluster: SimulatedCluster, ground: Ground, *, kernel: KernelFiles, clock: Clock) -> None:
        """Open every spool; nothing runs yet."""
        driver = SimNvml(cluster)
        nvml_door.use_library(driver)
        self.books = Books()
        self.agents: Mapping[str, NodeAgent] = {
            node.name: NodeAgent(node, ground, driver=driver, kernel=kernel, clock=clock, books=self.books)
            for node in cluster.node_list
        }
        self._turn = 0
        self._reading = Beat("read", self._read, interval_seconds=INTERVAL_SECONDS / len(self.agents), clock=clock)
        self._shipping = [
            Beat(f"ship-{name}", node.sender.tick, interval_seconds=SHIP_SECONDS, clock=clock)
            for name, node in self.agents.items()
        ]

    def start(self) -> None:
        """Read and ship."""
        for beat in (self._reading, *self._shipping):
            beat.start()

    def stop(self) -> None:
        """No more readings, no more sending; what waits stays in the spools."""
        for beat in (self._reading, *self._shipping):
            beat.stop(timeout_seconds=20.0)

    def close(self) -> None:
        """Give the spools back."""
        for node in self.agents.values():
            node.close()
        nvml_door.use_library(None)

    @property
    def dead_beats(self) -> list[str]:
        """Threads that ended by an error that nobody named."""
        return [beat.name for beat in (self._reading, *self._shipping) if not beat.is_alive]

    @property
    def waiting(self) -> int:
        """Reports that are still in the spools."""
        return sum(node.spool.waiting for node in self.agents.values())

    def _read(self) -> str:
        names = list(self.agents)
        name = names[self._turn % len(names)]
        self._turn += 1
        return self.agents[name].agent.tick()
