"""Faults of disks: full or read-only, under the daemon's database, an agent's spool, a log, PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from tests.limits.scene import Row, Scene, scene
from tests.system.processes import eventually

STATE = "daemon"
SPOOL = "gpu-00.spool"


def failing(stage: Scene) -> str:
    """The sentence of the beat that remembers, once it fails."""

    def look() -> str:
        check = stage.check("beat remember")
        return str(check["sentence"]) if check and not check["is_ok"] and "failed" in check["sentence"] else ""

    return eventually(look, seconds=60.0, said=stage.tails)[:200]


def daemon_disk_full(home: Path) -> Row:
    """Something else fills the disk of the daemon's SQLite database; agents keep their reports; room is made."""
    with scene(home, disks={STATE: 24}) as stage:
        taken = stage.disks[STATE].fill()
        said = stage.says(stage.daemon, r"the disk is full.*beat failed")
        status = failing(stage)
        for agent in stage.agents:
            agent.waits_with(15)
        assert stage.daemon.ask("GET", "/api/v1/board").status_code == 200  # people go on seeing what was
        failures = stage.metric('trimtab_beat_failures_total{beat="remember"}')
        assert failures
        stage.lifted()
        stage.disks[STATE].make_room()
        stage.recovers()
        return stage.row(
            "full disk under the daemon's SQLite database",
            f"{taken / 1e6:.0f} MB of 24 MB filled by something else, then freed",
            log=said,
            status=status,
            metric=f'trimtab_beat_failures_total{{beat="remember"}} {failures:g}',
            alert="TrimtabDiskLow, TrimtabBeatFailing, TrimtabAgentNotDelivering",
        )


def daemon_disk_read_only(home: Path) -> Row:
    """The kernel turns the database's disk read-only; an operator mends it and the daemon is started again."""
    with scene(home, disks={STATE: 24}) as stage:
        stage.disks[STATE].fail()
        said = stage.says(stage.daemon, r"(cannot be written|failed to read or write|cannot be opened).*beat failed")
        status = failing(stage)
        for agent in stage.agents:
            agent.waits_with(15)
        assert stage.daemon.is_running
        stage.daemon.kill()
        stage.records.hang_up()
        stage.disks[STATE].mend()
        stage.lifted()
        stage.daemon.up()
        stage.recovers()
        return stage.row(
            "disk of the daemon's SQLite database turns read-only",
            "ext4 error (errors=remount-ro); unmounted, checked, mounted, daemon started again",
            log=said,
            status=status,
            metric='trimtab_beat_failures_total{beat="remember"} rises',
            alert="TrimtabBeatFailing, TrimtabAgentNotDelivering",
        )


def spool_disk_full(home: Path) -> Row:
    """An agent's disk is full: what is live goes on from memory, the other agent notices nothing."""
    with scene(home, disks={SPOOL: 8}) as stage:
        agent = stage.agents[0]
        stage.disks[SPOOL].fill()
        said = stage.says(agent, r"the spool cannot be used")
        stage.flows(reports=10)  # live reports still arrive, from memory
        stage.lifted()
        stage.disks[SPOOL].make_room()
        stage.says(agent, r"the spool can be written again")
        stage.recovers()
        lost_live = agent.metric("trimtab_agent_spool_lost_total")
        return stage.row(
            "full disk under an agent's spool",
            "its 8 MB filled by something else, then freed",
            log=said,
            status="live reports go on from memory",
            metric=f"trimtab_agent_spool_lost_total {lost_live:g}",
            alert="TrimtabAgentDiskLow, TrimtabAgentReportsLost",
        )


def spool_disk_full_while_the_daemon_is_away(home: Path) -> Row:
    """Both at once: only the last report is kept, in memory; what cannot be kept is counted, and said."""
    with scene(home, disks={SPOOL: 8}) as stage:
        agent = stage.agents[0]
        stage.daemon.kill()
        agent.waits_with(8)
        stage.disks[SPOOL].fill()
        said = stage.says(agent, r"the spool cannot be used")
        eventually(lambda: agent.metric("trimtab_agent_spool_lost_total") >= 5, said=agent.tail)
        stage.disks[SPOOL].make_room()
        stage.says(agent, r"the spool can be written again")
        stage.lifted()
        stage.records.hang_up()
        stage.daemon.up()
        stage.recovers()
        lost = agent.metric("trimtab_agent_spool_lost_total")
        return stage.row(
            "full disk under an agent's spool while the daemon is down",
            "daemon killed, spool's disk filled, freed, daemon started",
            log=said,
            status="what was spooled arrives; what was never kept is counted",
            metric=f"trimtab_agent_spool_lost_total {lost:g} (never acknowledged)",
            alert="TrimtabAgentReportsLost",
        )


def spool_disk_read_only(home: Path) -> Row:
    """The kernel turns the spool's disk read-only: what waits there is still sent."""
    with scene(home, disks={SPOOL: 8}) as stage:
        agent = stage.agents[0]
        stage.disks[SPOOL].fail()
        said = stage.says(agent, r"the spool cannot be used")
        stage.flows(reports=10)
        agent.kill()
        stage.disks[SPOOL].mend()
        stage.lifted()
        agent.start()
        eventually(lambda: agent.metric("trimtab_agent_ticks_total") >= 1, said=agent.tail)
        stage.recovers()
        return stage.row(
            "disk of an agent's spool turns read-only",
            "ext4 error (errors=remount-ro); unmounted, checked, mounted, agent started again",
            log=said,
            status="live reports go on from memory",
            metric="trimtab_agent_spool_lost_total rises only while nothing is taken",
            alert="TrimtabAgentReportsLost where the daemon is away as well",
        )


def log_disk_full(home: Path) -> Row:
    """The disk that logs are written to is full: lines are lost, nothing else."""
    with scene(home, disks={"logs": 8}) as stage:
        for one in (stage.daemon, *stage.agents):
            one.stop()
            one.log = stage.disks["logs"].path / one.log.name
        stage.disks["logs"].fill()
        stage.daemon.up()
        for agent in stage.agents:
            agent.start()
        eventually(lambda: all(one.metric("trimtab_agent_ticks_total") >= 1 for one in stage.agents), said=stage.tails)
        stage.flows(reports=5)
        agent = stage.agents[0]
        agent.daemon.kill()  # so that there is something to say: a warning of the agents, a start of the daemon
        agent.waits_with(5)
        stage.records.hang_up()
        stage.daemon.up()
        stage.lifted()
        stage.disks["logs"].make_room()
        stage.recovers()
        stage.daemon.kill()
        said = stage.says(agent, r"the log could not be written \d+ times")
        stage.daemon.up()
        return stage.row(
            "full disk under the logs",
            "daemon and agents log to a disk that something else filled, then freed",
            log=said,
            status="nothing else changes",
            metric="none of ours: node_exporter's for that disk",
            alert="node_exporter's for that disk",
        )
