"""A small simulated cluster with its agents in this process, and a real daemon beside it, in mode approve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from tests.sim.worlds import a_spec, running
from tests.system.processes import CLUSTER, Daemon, eventually, verb

from trimtab import logs
from trimtab.clock import ScaledClock, SystemClock
from trimtab.demo.agents import Fleet
from trimtab.demo.ground import Ground, give_tokens
from trimtab.loop import Beat
from trimtab.model.board import CommandRow
from trimtab.model.cluster import Node, Workload
from trimtab.sim.cluster import STEP_SECONDS, SimulatedCluster
from trimtab.sim.control import ControlServer
from trimtab.sim.faults import Fault, inject
from trimtab.sim.kernel_file import KernelFiles
from trimtab.sim.writes import WriteDesk

SPEED = 30.0
JOBS = {"gpu-00": "train", "gpu-01": "tune", "gpu-02": "sweep", "gpu-03": "serve"}
SETTINGS = """
[store]
url = "{database_url}"
commit_interval_seconds = 3.0
[detect]
interval_seconds = 6.0
silent_after_seconds = 300.0
[plan]
interval_seconds = 6.0
expiry_seconds = 36000.0
moves_max = 8
cordoned_ratio_max = 0.9
cordoned_ratio_max_per_pool = 0.9
cordoned_ratio_max_per_rack = 0.9
moves_per_workload_per_day = 20
node_attempts_per_day = 20
[issue]
mode = "approve"
settle_seconds_max = 18000.0
[simulated]
url = "{control_url}"
speed = {speed}
anchor = "{anchor}"
"""


@dataclass
class Hall:
    """Eight nodes; four of them run one job of four GPUs each."""

    daemon: Daemon
    cluster: SimulatedCluster
    desk: WriteDesk
    home: Path

    def node(self, name: str) -> Node:
        """A node as its scheduler shows it."""
        return self.cluster.snapshot().node_by_name[name]

    def job(self, node: str) -> Workload:
        """The job that began on a node."""
        return self.cluster.snapshot().workload_by_id[f"research/{JOBS[node]}"]

    def nodes_of(self, job: Workload) -> set[str]:
        return {placement.node for placement in job.placements}

    def held(self, row: CommandRow) -> list[str]:
        """What the cluster holds under a command's mark."""
        return list(self.desk.marks_held().get(row.command.mark, []))

    def loses_a_gpu(self, node: str) -> CommandRow:
        """GPU 3 of a node falls off the bus under its job; the recommendation that comes of it."""
        inject(self.cluster, Fault(kind="gpu_falls_off", node=node, gpus=(3,)))

        def proposed() -> CommandRow | None:
            rows = self.daemon.board().commands
            return next((row for row in rows if row.command.recommendation.subject.node == node), None)

        return eventually(proposed, seconds=60.0, said=self.daemon.tail)

    def row(self, number: int) -> CommandRow:
        return self.daemon.get(f"/api/v1/recommendations/{number}", CommandRow)

    def until(self, number: int, state: str) -> CommandRow:
        """A command once it is in a state."""

        def look() -> CommandRow | None:
            row = self.row(number)
            return row if row.command.state == state else None

        said = lambda: f"{self.row(number).command}\n{self.daemon.tail()}"  # noqa: E731
        return eventually(look, seconds=60.0, said=said)

    def verb(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output, errors of one verb that finds the daemon by the client file."""
        done = verb(*arguments, home=self.home, COLUMNS="200")
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr


@contextmanager
def hall(home: Path, *, database_url: str) -> Iterator[Hall]:
    """A hall in which every GPU reports and nothing is wrong."""
    clock = ScaledClock(anchor=SystemClock().now(), speed=SPEED)
    kernel = KernelFiles(home / "kernel")
    cluster = SimulatedCluster(name=CLUSTER, nodes=8, spares=0, start=clock.now(), kernel=kernel)
    cluster.quotas["research"] = 64
    for node, name in JOBS.items():
        running(cluster, a_spec(name, gpus_per_pod=4), node)
    cluster.warm_up()
    desk = WriteDesk(cluster)
    control = ControlServer(cluster, desk)
    daemon = Daemon(home, database_url=database_url)
    text = SETTINGS.format(
        database_url=database_url,
        control_url=control.url,
        speed=SPEED,
        anchor=clock.anchor.isoformat(),
    )
    daemon.write_settings(text)
    ground = Ground(
        scratch=home,
        cluster=CLUSTER,
        people_port=daemon.people_port,
        ingest_port=daemon.ingest_port,
        database_url=database_url,
    )
    give_tokens(ground, list(cluster.nodes))
    with ExitStack() as stack:
        stack.callback(structlog.configure, **structlog.get_config())
        logs.setup(level="warning")
        control.start()
        stack.callback(control.stop)
        time_goes_on = Beat(
            "sim", lambda: f"{cluster.advance(clock.now())} steps", interval_seconds=STEP_SECONDS, clock=clock
        )
        time_goes_on.start()
        stack.callback(time_goes_on.stop)
        stack.callback(daemon.close)
        daemon.up()
        fleet = Fleet(cluster, ground, kernel=kernel, clock=clock)
        stack.callback(fleet.close)
        fleet.start()
        stack.callback(fleet.stop)
        client_file = home / "trimtab" / "client.toml"
        client_file.parent.mkdir()
        client_file.symlink_to(daemon.state_directory / "client.toml")
        made = Hall(daemon, cluster, desk, home)
        eventually(lambda: daemon.board().strip.gpus_reporting == 64, said=daemon.tail)
        yield made
        daemon.assert_had_no_trouble()
