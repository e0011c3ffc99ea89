"""Everything at once: the real daemon in a process of its own, on the plane, as the actor account of the manifests.

What agents would say comes from a reporter that speaks their wire protocol and reads the pods from the cluster.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import requests
from tests.builders import BUSY, IDLE, a_reading, a_report, an_xid
from tests.cluster.client import ApiError, Client, Json
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.system.processes import CLUSTER, Daemon, eventually, verb

from trimtab.clock import SystemClock
from trimtab.model.board import CommandRow
from trimtab.model.reading import GpuReading, GpuState, Report
from trimtab.outbound import OutboundError, session
from trimtab.ship.wire import encode_reports

REPORT_SECONDS = 1.0
COOL = {"clock_event_active/hw_thermal": 0.0, "clock_event_active/hw_power_brake": 0.0}
HOT = {
    "clock_event_active/hw_thermal": 1.0,
    "temperature_celsius": 87.0,
    "sm_clock_hertz": 0.55 * BUSY["sm_clock_hertz"],
}


def act(issue: str = "breaker_cordons = 100") -> str:
    """Settings by which it acts by itself and no budget is in the way; `issue` are further lines of that table."""
    return f"""\
[issue]
mode = "act"
{issue}
[plan]
interval_seconds = 0.5
spares_kept = 0
moves_max = 20
cordoned_ratio_max = 1.0
cordoned_ratio_max_per_pool = 1.0
cordoned_ratio_max_per_rack = 1.0
cordons_per_hour_max = 100
is_finding_needed_to_make_room = false
"""


class Reporter:
    """All agents of a space in one thread: each second a report a node, over HTTP, with that node's token."""

    def __init__(self, daemon: Daemon, space: Space, client: Client) -> None:
        """`client` is its own and closed with it."""
        self._daemon, self._space, self._client, self._clock = daemon, space, client, SystemClock()
        self._session = session(timeout_seconds=10.0)
        self._tokens: dict[str, str] = {}
        self._sequence = 0
        self._lost: dict[str, tuple[int, datetime]] = {}
        self._memory: dict[str, tuple[int, datetime]] = {}
        self._hot: set[str] = set()
        self._boots: dict[str, int] = {}
        self._pods: list[Json] = []
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join(20.0)
        self._session.close()
        self._client.close()

    def break_gpu(self, node: str, index: int = 3) -> None:
        """From now on this GPU has fallen off the bus: the kernel said XID 79, and NVML has lost it."""
        self._lost[node] = (index, self._clock.now())

    def fail_memory(self, node: str, index: int = 3) -> None:
        """From now on this GPU has an uncorrectable memory error that could not be remapped: a reset is due."""
        self._memory[node] = (index, self._clock.now())

    def overheat(self, node: str) -> None:
        """From now on its GPUs are slowed down by their hardware, for heat."""
        self._hot.add(node)

    def mend(self, node: str) -> None:
        """The node was rebooted and is well: another boot id, all GPUs there."""
        self._boots[node] = self._boots.get(node, 0) + 1
        del self._lost[node]

    def _run(self) -> None:
        while not self._is_stopping.wait(REPORT_SECONDS):
            try:
                self._report()
            except OutboundError:
                continue  # the daemon is being started again

    def _report(self) -> None:
        self._sequence += 1
        holders: dict[str, list[str]] = {}
        with contextlib.suppress(ApiError, requests.RequestException):
            # Agents know their pods without the API server: while it is away, what it said last goes on.
            self._pods = self._client.list("pods", self._space.namespace)
        for pod in self._pods:
            node, gpus = pod["spec"].get("nodeName"), _gpus_of(pod)
            if node and pod["status"].get("phase") == "Running":
                holders.setdefault(node, []).extend([f"{self._space.namespace}/{pod['metadata']['name']}"] * gpus)
        for node in list(self._space.nodes):
            self._send(node, self._report_of(node, holders.get(node, [])))

    def _report_of(self, node: str, holders: Sequence[str]) -> Report:
        lost = self._lost.get(node)
        boot = f"boot-{self._boots.get(node, 0)}"
        events = (an_xid(79, node=node, index=lost[0], at=lost[1], boot_id=boot),) if lost is not None else ()
        if (memory := self._memory.get(node)) is not None:
            events += tuple(an_xid(code, node=node, index=memory[0], at=memory[1], boot_id=boot) for code in (48, 64))
        readings = tuple(self._reading(node, index, holders, lost) for index in range(8))
        if node in self._hot:
            readings = tuple(replace(one, values={**one.values, **HOT}) for one in readings)
        report = a_report(node, sequence=self._sequence, at=self._clock.now(), events=events)
        return replace(report, gpus=readings, cluster=CLUSTER, boot_id=boot)

    @staticmethod
    def _reading(node: str, index: int, holders: Sequence[str], lost: tuple[int, datetime] | None) -> GpuReading:
        holder = holders[index] if index < len(holders) else None
        if lost is not None and lost[0] == index:
            return a_reading(node, index, values={}, state=GpuState.LOST, holder=holder)
        return a_reading(node, index, values={**(BUSY if holder else IDLE), **COOL}, holder=holder)

    def _send(self, node: str, report: Report) -> None:
        if node not in self._tokens:
            self._tokens[node] = self._daemon.token_of(node)
        headers = {
            "Authorization": f"Bearer {self._tokens[node]}",
            "Content-Type": "application/vnd.msgpack",
            "Content-Encoding": "zstd",
        }
        url = f"{self._daemon.ingest_url}/v1/reports"
        answer = self._session.post(url, data=encode_reports([report]), headers=headers)
        if answer.status_code not in (200, 429, 503):
            raise AssertionError(f"{node}: {answer.status_code} {answer.text}")


def _gpus_of(pod: dict) -> int:
    asked = (one.get("resources", {}).get("requests", {}) for one in pod["spec"]["containers"])
    return sum(int(one.get("nvidia.com/gpu", 0)) for one in asked)


class Whole:
    """A daemon on a space of the plane, with its reporter. `mode` and further settings as the TOML says."""

    def __init__(
        self,
        plane: Plane,
        space: Space,
        home: Path,
        *,
        settings: str = "",
        kubernetes: str = "",
        account: str = "trimtab-actor",
    ) -> None:
        self.plane, self.space, self.home = plane, space, home
        # A token of its own: the API server's audit log tells two daemons of one account apart by it.
        kubeconfig = shutil.copy(plane.kubeconfig(account, "trimtab"), home / "kubeconfig")
        head = f"""\
[kubernetes]
kubeconfig = "{kubeconfig}"
rack_labels = ["topology.trimtab/rack"]
lease_seconds = 4
lease_retry_seconds = 0.5
request_timeout_seconds = 2
{kubernetes}
"""
        usual = "[plan]\ninterval_seconds = 0.5\nspares_kept = 0\nis_finding_needed_to_make_room = false\n"
        usual += "[detect]\ninterval_seconds = 0.5\nthermal_after_seconds = 40\n"
        chosen = settings or '[issue]\nmode = "approve"\n'
        self.daemon = Daemon(home, settings=head + usual + chosen)
        self.reporter = Reporter(self.daemon, space, plane.admin_client(timeout_seconds=3.0))

    def up(self) -> Whole:
        self.daemon.up()
        self.reporter.start()
        eventually(lambda: not self.daemon.board().blind, seconds=60.0, said=self.told)
        return self

    def close(self) -> None:
        self.reporter.stop()
        if self.daemon.is_running:
            self.daemon.stop()  # in order, so that the next one need not wait for its Lease
        self.daemon.close()

    def again(self) -> None:
        """Start the daemon anew after it was killed, and wait until it sees the cluster."""
        self.daemon.up()
        eventually(lambda: not self.daemon.board().blind, seconds=60.0, said=self.told)

    def verb(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output and errors of one verb, which finds the daemon by the file that it leaves for them."""
        (self.home / "trimtab").mkdir(exist_ok=True)
        shutil.copy(self.daemon.state_directory / "client.toml", self.home / "trimtab" / "client.toml")
        done = verb(*arguments, home=self.home, COLUMNS="200")
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    def refused(self, *words: str, seconds: float = 60.0) -> str:
        """The first sentence of the board's refusals with all these words, waited for."""

        def find() -> str | None:
            said = [one.sentence for one in self.daemon.board().refusals]
            return next((one for one in said if all(word in one for word in words)), None)

        return eventually(find, seconds=seconds, said=lambda: f"wanted: {words}\n{self.told()}")

    def metrics(self, name: str) -> dict[str, float]:
        """Labels (as the page writes them) -> value of one metric."""
        page = self.daemon.ask("GET", "/metrics").text
        return {labels: float(value) for labels, value in re.findall(rf"^{name}{{(.*)}} (\S+)$", page, re.MULTILINE)}

    def command(self, purpose: str, *, seconds: float = 60.0) -> CommandRow:
        """The live command of a purpose, waited for."""

        def find() -> CommandRow | None:
            found = [one for one in self.daemon.board().commands if one.command.recommendation.purpose == purpose]
            return found[-1] if found else None

        return eventually(find, seconds=seconds, said=self.told)

    def row(self, command_id: int) -> CommandRow:
        return self.daemon.get(f"/api/v1/recommendations/{command_id}", CommandRow)

    def approve(self, row: CommandRow) -> None:
        """A person's yes to what stands there now."""
        path = f"/api/v1/recommendations/{row.command.id}/approve"
        answer = self.daemon.ask("POST", path, {"fingerprint": row.fingerprint})
        assert answer.status_code == 200, answer.text

    def until(self, command_id: int, *states: str, seconds: float = 120.0) -> CommandRow:
        """The command, once it is in one of these states."""

        def reached() -> CommandRow | None:
            row = self.row(command_id)
            return row if row.command.state.value in states else None

        return eventually(reached, seconds=seconds, said=self.told)

    def told(self) -> str:
        """What the daemon says of its commands and refusals, for a failure's message."""
        board = self.daemon.board()
        lines = [f"{one.command.name} {one.command.state}: {one.command.reason}" for one in board.commands]
        lines += [f"blind: {one}" for one in board.blind]
        lines += [one.sentence for one in board.refusals]
        return "\n".join([*lines, self.daemon.tail()])
