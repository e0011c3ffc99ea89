"""What hangs is ended and started anew by systemd, and the journal says what it was; what only waits is left alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.guest.guest import DIE_WITH_US
from tests.guest.machine import AGENT, DAEMON, DATABASE, Machine

HANG = Path(__file__).with_name("hang.py")
WATCHDOG_SECONDS = 12
QUICK = f"[Service]\nWatchdogSec={WATCHDOG_SECONDS}\nTimeoutAbortSec=5\n"
QUICK_PLAN = """\
[plan]
interval_seconds = 0.5
"""
LOCK = """\
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
database.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", autouse=True)
def _quick_watchdogs(machine: Machine) -> Iterator[None]:
    """Twelve seconds in place of two minutes, by an operator's override, and beats of half a second."""
    guest = machine.guest
    settings = guest.path("/etc/trimtab/daemon.toml").read_text()
    guest.write("/etc/trimtab/daemon.toml", settings + QUICK_PLAN)
    agent = guest.path("/etc/trimtab/agent.toml").read_text()
    guest.write("/etc/trimtab/agent.toml", agent.replace("interval_seconds = 1\n", "interval_seconds = 0.5\n"))
    for unit in (AGENT, DAEMON):
        guest.drop_in(unit, QUICK)
    guest.run("systemctl", "restart", AGENT, DAEMON)
    machine.shows_data()
    yield
    guest.write("/etc/trimtab/daemon.toml", settings)
    guest.write("/etc/trimtab/agent.toml", agent)
    for unit in (AGENT, DAEMON):
        guest.drop_in(unit, "")


@contextmanager
def ended_by_the_watchdog(machine: Machine, unit: str) -> Iterator[int]:
    """The main process's id; afterwards systemd must have ended it, once, and said why, and nothing is lost."""
    guest = machine.guest
    machine.shows_data()
    guest.run("systemctl", "reset-failed", unit)
    restarts = int(guest.property(unit, "NRestarts"))
    pid = int(guest.property(unit, "MainPID"))
    yield pid
    guest.eventually(lambda: int(guest.property(unit, "NRestarts")) > restarts)
    guest.eventually(lambda: guest.property(unit, "ActiveState") == "active")
    assert int(guest.property(unit, "NRestarts")) == restarts + 1
    assert guest.property(unit, "MainPID") not in ("0", str(pid))
    said = guest.journal(f"UNIT={unit}")
    assert f"Watchdog timeout (limit {WATCHDOG_SECONDS}s)" in said, said
    machine.shows_data()
    machine.has_caught_up()


def thread_of(machine: Machine, pid: int, name: str) -> int:
    """A thread of the guest's process, by its name, as the host numbers it."""
    outside = next(
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/status")
        if _inside(status) == pid and _is_in(status, machine.guest.leader)
    )
    for task in Path(f"/proc/{outside}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return int(task.name)
    names = [(task / "comm").read_text().strip() for task in Path(f"/proc/{outside}/task").iterdir()]
    raise AssertionError(f"no thread is called {name}: {names}")


def _inside(status: Path) -> int | None:
    try:
        line = next(one for one in status.read_text().splitlines() if one.startswith("NSpid:"))
    except (OSError, StopIteration):
        return None
    numbers = line.split()[1:]
    return int(numbers[-1]) if len(numbers) > 1 else None


def _is_in(status: Path, leader: int) -> bool:
    try:
        return (status.parent / "ns/pid").readlink() == Path(f"/proc/{leader}/ns/pid").readlink()
    except OSError:
        return False


@contextmanager
def hung_thread(machine: Machine, pid: int, name: str) -> Iterator[None]:
    """One thread stands still, the others go on."""
    line = [*DIE_WITH_US, sys.executable, str(HANG), str(thread_of(machine, pid, name))]
    helper = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert helper.stdout is not None
    try:
        assert helper.stdout.readline() == "stopped\n"
        yield
    finally:
        helper.kill()
        helper.wait(30)
        helper.stdout.close()


@pytest.mark.parametrize("unit", [AGENT, DAEMON])
def test_a_process_that_stands_still_is_started_anew(machine: Machine, unit: str):
    with ended_by_the_watchdog(machine, unit) as pid:
        machine.guest.run("sh", "-c", f"kill -STOP {pid}")


@pytest.mark.parametrize(("unit", "beat"), [(AGENT, "read"), (DAEMON, "judge")])
def test_one_hung_beat_is_enough_and_the_journal_names_it_and_where_it_stood(machine: Machine, unit: str, beat: str):
    with ended_by_the_watchdog(machine, unit) as pid, hung_thread(machine, pid, f"beat-{beat}"):
        guest = machine.guest
        # One that waits for a lock of the hung one may be named before it: each change of who hangs is a line.
        guest.eventually(lambda: f"'{beat}'" in _hangs(machine, pid))
        guest.eventually(lambda: f"{beat} hangs" in guest.status(unit) or _is_gone(machine, pid))
        guest.eventually(lambda: _is_gone(machine, pid))
    trace = machine.guest.journal(f"_PID={pid}")
    assert "Fatal Python error: Aborted" in trace, trace
    assert "loop.py" in trace, "the threads' places are in the journal"


def _hangs(machine: Machine, pid: int) -> str:
    lines = machine.guest.journal(f"_PID={pid}").splitlines()
    return "\n".join(line for line in lines if "a beat hangs" in line)


def _is_gone(machine: Machine, pid: int) -> bool:
    return machine.guest.run("test", "-d", f"/proc/{pid}", is_checked=False).returncode == 1


def test_a_driver_that_never_answers_costs_its_gpus_readings_and_no_restart(machine: Machine):
    guest = machine.guest
    pid = guest.property(AGENT, "MainPID")
    for gpu in range(8):
        machine.driver[f"{gpu}.hang"] = 3600
    try:
        guest.eventually(lambda: "does not answer" in guest.journal("-u", AGENT) or machine.has_gpus(0))
        waited = machine.stored()[-1][1]
        # Longer than the watchdog's time: reports go on coming, with what each GPU's trouble is.
        guest.eventually(lambda: machine.stored()[-1][1] >= waited + 2 * WATCHDOG_SECONDS + 2)
        assert guest.property(AGENT, "MainPID") == pid
    finally:
        for gpu in range(8):
            del machine.driver[f"{gpu}.hang"]
    machine.shows_data()
    machine.has_caught_up()


def test_a_database_that_somebody_locks_costs_time_and_no_report(machine: Machine):
    guest = machine.guest
    pid = guest.property(DAEMON, "MainPID")
    locker = guest.start("python3", "-c", LOCK, DATABASE, given=True)
    assert locker.stdout is not None
    assert locker.stdout.readline() == "held\n"
    guest.eventually(lambda: (machine.metric("trimtab_agent_spool_reports") or 0) >= 6)
    locker.communicate("")
    machine.has_caught_up()
    assert guest.property(DAEMON, "MainPID") == pid, guest.journal("-u", DAEMON)
