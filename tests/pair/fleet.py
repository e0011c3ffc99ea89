"""A simulated cluster whose nodes' real agents know both daemons, and a control plane that notes who wrote what."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.system.processes import CLUSTER

from trimtab.agent import Agent
from trimtab.clock import SystemClock
from trimtab.collect import nvml_door
from trimtab.demo.agents import BookedSpool, Books, _collectors
from trimtab.loop import Beat
from trimtab.model.command import Write
from trimtab.settings import AgentSettings
from trimtab.ship.sender import sender_of
from trimtab.ship.tokens import give_token
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.control import ControlServer
from trimtab.sim.faults import Fault, inject
from trimtab.sim.kernel_file import KernelFiles
from trimtab.sim.nvml import SimNvml
from trimtab.sim.writes import WriteDesk


@dataclass(frozen=True, slots=True)
class Written:
    """One write as the control plane took it."""

    at_seconds: float
    who: str
    mark: str
    text: str
    is_first: bool
    """Whether it changed anything: the same write under the same mark is done once."""


class NotingDesk(WriteDesk):
    """One daemon's own door to the cluster that both write to."""

    def __init__(self, desk: WriteDesk, *, who: str, written: list[Written], lock: threading.Lock) -> None:
        self._desk, self._who, self._written, self._guard = desk, who, written, lock

    def write(self, mark: str, write: Write) -> None:
        with self._guard:
            is_first = write.text not in self._desk._done.get(mark, {})
            self._desk.write(mark, write)
            self._written.append(Written(time.monotonic(), self._who, mark, write.text, is_first))

    def release(self, mark: str, *, keep_lasting: bool) -> None:
        with self._guard:
            self._desk.release(mark, keep_lasting=keep_lasting)
            self._written.append(Written(time.monotonic(), self._who, mark, "release", is_first=False))

    def marks_held(self) -> dict[str, list[str]]:
        return self._desk.marks_held()


class OpenControl(ControlServer):
    """A control plane that daemons in networks of their own reach as well."""

    def __init__(self, cluster: SimulatedCluster, desk: WriteDesk) -> None:
        super().__init__(cluster, desk)
        near = self._server
        near.server_close()
        self._server = type(near)(("0.0.0.0", near.server_address[1]), near.RequestHandlerClass)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def at(self, host: str) -> str:
        return f"http://{host}:{self._server.server_address[1]}"


class Hall:
    """The cluster, its control planes (one address a daemon), and a real agent a node, shipping on its own thread."""

    def __init__(self, home: Path, *, nodes: int, names: Sequence[str], interval_seconds: float) -> None:
        clock = SystemClock()
        self._kernel = KernelFiles(home / "kernel")
        self.cluster = SimulatedCluster(name=CLUSTER, nodes=nodes, spares=0, start=clock.now(), kernel=self._kernel)
        self.written: list[Written] = []
        lock, desk = threading.Lock(), WriteDesk(self.cluster)
        self._controls = {
            name: OpenControl(self.cluster, NotingDesk(desk, who=name, written=self.written, lock=lock))
            for name in names
        }
        self._clock, self._home, self._interval_seconds = clock, home, interval_seconds
        self.books = Books()
        self._agents: list[Agent] = []
        self.spools: list[BookedSpool] = []
        self._senders = []
        self._beats: list[Beat] = []
        self._whole = list(self.cluster.nodes)

    def control_url(self, name: str, host: str) -> str:
        return self._controls[name].at(host)

    def start(self, daemon_urls: Sequence[str], tokens: Path) -> None:
        driver = SimNvml(self.cluster)
        nvml_door.use_library(driver)
        for node in self.cluster.node_list:
            directory, token = self._home / "spools" / node.name, self._home / f"{node.name}.token"
            token.write_text(give_token(tokens, node.name)[0])
            settings = AgentSettings(
                cluster=CLUSTER,
                node=node.name,
                daemon_urls=tuple(daemon_urls),
                token_file=str(token),
                allow_plaintext=True,
                spool_directory=str(directory),
                kernel_log=str(self._kernel.path(node.name)),
                interval_seconds=self._interval_seconds,
                replay_reports_per_second=200.0,
                metrics_listen="",
            )
            spool = BookedSpool(settings, books=self.books, clock=self._clock)
            sender = sender_of(settings, spool=spool, clock=self._clock)
            collectors = _collectors(node, settings, driver=driver, clock=self._clock)
            agent = Agent(
                settings, boot_id=node.boot_id.replace("-", ""), collectors=collectors, keeper=spool, clock=self._clock
            )
            self._agents.append(agent)
            self.spools.append(spool)
            self._senders.append(sender)
            self._beats.append(Beat(f"ship-{node.name}", sender.tick, interval_seconds=0.5, clock=self._clock))
        turn = itertools.cycle(self._agents)
        self._beats.append(
            Beat(
                "read",
                lambda: next(turn).tick(),
                interval_seconds=self._interval_seconds / len(self._agents),
                clock=self._clock,
            )
        )
        self._beats.append(Beat("sim", self._advance, interval_seconds=1.0, clock=self._clock))
        for part in (*self._controls.values(), *self._beats):
            part.start()

    def break_one(self) -> str:
        """A GPU of one more node falls off the bus."""
        name = self._whole.pop(0)
        inject(self.cluster, Fault(kind="gpu_falls_off", node=name, gpus=(0,)))
        return name

    @property
    def waiting(self) -> int:
        return sum(spool.waiting for spool in self.spools)

    def hush(self) -> None:
        """No more readings; what waits is still sent."""
        next(beat for beat in self._beats if beat.name == "read").stop()

    def close(self) -> None:
        for beat in self._beats:
            beat.end_soon()
        for beat in self._beats:
            beat.stop(timeout_seconds=20.0)
        for sender in self._senders:
            sender.close()
        for agent in self._agents:
            agent.close()
        for spool in self.spools:
            spool.close()
        for control in self._controls.values():
            control.stop()
        nvml_door.use_library(None)

    def _advance(self) -> str:
        return f"{self.cluster.advance(self._clock.now())} steps"
