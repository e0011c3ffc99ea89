"""A real daemon and real agents on which a fault is tried, and the books that are kept of it: the row of the table."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from tests.limits.disk import Disk
from tests.standin.driver import Driver
from tests.system.processes import Agent, Daemon, Running, eventually
from tests.system.records import Records, records_of

from trimtab.outbound import OutboundError
from trimtab.store.tables import journal

MEGABYTE = 1024 * 1024
WAIT_SECONDS = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault: what was done, what became of the reports, what the operator sees, and how it ended."""

    fault: str
    done: str
    acknowledged: int
    lost: int
    doubled: int
    log: str
    status: str = ""
    metric: str = ""
    alert: str = ""
    recovered: str = ""


@dataclass
class Scene:
    """One daemon, some agents. A fault is between `before` and `after`."""

    home: Path
    daemon: Daemon
    agents: list[Agent]
    records: Records
    stack: ExitStack
    disks: dict[str, Disk] = field(default_factory=dict)
    began_at: float = 0.0
    lifted_at: float = 0.0
    recovered_seconds: float = 0.0

    def flows(self, *, reports: int = 3, seconds: float = WAIT_SECONDS) -> None:
        """So many more reports of each agent are stored."""
        before = {agent.node: self.stored(agent) for agent in self.agents}
        enough = lambda: all(self.stored(one) >= before[one.node] + reports for one in self.agents)  # noqa: E731
        eventually(enough, seconds=seconds, said=self.tails)

    def lifted(self) -> None:
        """The fault is over from here on."""
        self.lifted_at = time.monotonic()

    def recovers(self, *, seconds: float = 120.0) -> float:
        """Reports flow again and no agent keeps more than its last: how long after the fault was over."""
        self.flows(seconds=seconds)
        drained = lambda: all(one.metric("trimtab_agent_spool_reports") <= 2 for one in self.agents)  # noqa: E731
        eventually(drained, seconds=seconds, said=self.tails)
        self.recovered_seconds = time.monotonic() - self.lifted_at
        return self.recovered_seconds

    def stored(self, agent: Agent) -> int:
        """How many reports of it are in the journal; what cannot be read now is asked again."""
        return len(self.records.rows(agent.node))

    def books(self) -> tuple[int, int, int]:
        """Acknowledged, of these lost, and doubled, over all agents."""
        acknowledged = lost = doubled = 0
        for agent in self.agents:
            rows = self.records.rows(agent.node)
            kept = {row.sequence for row in rows}
            settled = agent.settled()
            acknowledged += len(settled)
            lost += len(settled - kept)
            doubled += len(rows) - len({(row.spool_id, row.sequence) for row in rows})
        return acknowledged, lost, doubled

    def says(self, process: Running, pattern: str, *, seconds: float = WAIT_SECONDS) -> str:
        """The first line of its log that fits, waited for; the sentence alone."""
        line = eventually(lambda: find(process.text(), pattern), seconds=seconds, said=process.tail)
        return re.sub(r"\s+", " ", line)[:200]

    def metric(self, name: str) -> float | None:
        """One value of the daemon's /metrics."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.daemon.ask("GET", "/metrics").text, re.MULTILINE)
        return float(found[1]) if found else None

    def check(self, name: str) -> dict[str, Any]:
        """What doctor says of one thing."""
        checks = self.daemon.get("/api/v1/doctor", dict[str, list[dict[str, Any]]])["checks"]
        return next((one for one in checks if one["name"] == name), {})

    def tails(self) -> str:
        return "\n---\n".join(one.tail() for one in (self.daemon, *self.agents))

    def row(self, fault: str, done: str, **seen: str) -> Row:
        """The table's row as things stand; processes must still be as they were, with no traceback."""
        acknowledged, lost, doubled = self.books()
        recovered = f"{self.recovered_seconds:.1f} s" if self.recovered_seconds else "not waited for"
        made = {"recovered": recovered, **seen}
        return Row(fault=fault, done=done, acknowledged=acknowledged, lost=lost, doubled=doubled, **made)


def find(text: str, pattern: str) -> str | None:
    """The first line that fits."""
    return next((line for line in text.splitlines() if re.search(pattern, line)), None)


@contextmanager
def scene(
    home: Path,
    *,
    database_url: str = "sqlite:///trimtab.db",
    agents: int = 2,
    settings: str = "",
    more: Mapping[str, str] = MappingProxyType({}),
    agent_settings: str = "",
    disks: dict[str, int] | None = None,
    prepare: Callable[[Running], None] = lambda process: None,
) -> Iterator[Scene]:
    """All up and reports flowing.

    `more`: lines for a section of the daemon's settings; `disks`: place under `home` -> megabytes of a disk there.
    """
    with ExitStack() as stack:
        made: dict[str, Disk] = {}
        for place, megabytes in (disks or {}).items():
            made[place] = Disk(home / place, megabytes=megabytes)
            stack.callback(made[place].close)
        daemon = Daemon(home, database_url=database_url, settings=settings)
        stack.callback(daemon.close)
        text = daemon.settings_file.read_text(encoding="utf-8")
        for section, lines in more.items():
            text = text.replace(f"[{section}]\n", f"[{section}]\n{lines}\n")
        daemon.settings_file.write_text(text, encoding="utf-8")
        prepare(daemon)
        daemon.up()
        driver = Driver(home)
        fleet = []
        for number in range(agents):
            node = f"gpu-{number:02d}"
            agent = Agent(home, driver, node=node, daemon=daemon, token=daemon.token_of(node), settings=agent_settings)
            stack.callback(agent.close)
            prepare(agent)
            agent.start()
            fleet.append(agent)
        records = stack.enter_context(records_of(daemon))
        play = Scene(home=home, daemon=daemon, agents=fleet, records=records, stack=stack, disks=made)
        eventually(lambda: all(one.metric("trimtab_agent_ticks_total") >= 1 for one in fleet), said=play.tails)
        play.flows()
        yield play


def counted(daemon: Daemon) -> int:
    """Rows of the journal, read beside the daemon."""
    with suppress(OutboundError), records_of(daemon) as records, records._database.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(journal)).scalar_one())
    return 0
