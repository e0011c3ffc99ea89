"""Upgraded from the package before with a day of data, nothing is missing; purged, nothing of ours is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.machine import AGENT, DAEMON, DATABASE, SOCKET, Machine
from tests.guest.root import Root
from tests.packages.built import Debs, debs_called

DAY = Path(__file__).with_name("day.py")
MINUTES = 24 * 60
PYTHON = "/usr/lib/trimtab-daemon/bin/python3"
COUNTED = """\
import json, sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, timeout=30)
there = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
names = [name for name, in there if name in sys.argv[2:]]
print(json.dumps({name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}))
"""
NOT_OURS = ("/proc", "/sys", "/dev", "/run", "/tmp", "/root", "/var/log", "/var/cache/ldconfig", "/var/tmp")
"""What lives while the machine runs, and what dpkg itself keeps."""
DPKG_KEEPS = ("/var/lib/dpkg", "/var/cache/debconf", "/var/lib/systemd", "/etc/passwd-", "/etc/group-", "/etc/shadow-")
KEPT = (
    *("journal", "gpu_1m", "gpu_15m", "gpu_1h", "fleet_1m", "usage_15m", "audit", "events", "findings"),
    *("finding_changes", "commands", "outcomes", "node_credentials", "join_tokens", "people_tokens"),
)
LAST_DAY = {"gpu_1m": 0.95 * MINUTES * 8, "gpu_15m": 0.95 * MINUTES * 8 / 15, "journal": MINUTES}
"""At least so many rows a day of one node of eight GPUs leaves."""


@pytest.fixture(scope="module")
def upgraded(root: Root) -> Iterator[Machine]:
    """A machine of its own, with nothing of ours on it yet."""
    made = Machine(root)
    try:
        yield made
    finally:
        made.close()


def everything(machine: Machine) -> dict[str, str]:
    """Each path of the system with what it is: kind, owner, mode, and where a link leads."""
    listed = machine.guest.out("find", "/", "-xdev", "-printf", "%p\\t%y %u %g %m %l\\n")
    pairs = (line.split("\t", 1) for line in listed.splitlines())
    return {path: what for path, what in pairs if not path.startswith(NOT_OURS) and not path.startswith(DPKG_KEEPS)}


def counted(machine: Machine) -> dict[str, int]:
    """Rows of each table that is never thinned out within a day."""
    found: dict[str, int] = json.loads(machine.guest.out("python3", "-c", COUNTED, DATABASE, *KEPT))
    assert set(found) == set(KEPT)
    return found


def test_an_upgrade_with_a_day_of_data_keeps_all_of_it(upgraded: Machine, packages: Debs):
    guest, machine = upgraded.guest, upgraded
    machine.before = everything(machine)
    old = debs_called("0.0.9-1") if packages.agent.parent.name.startswith("debs-") else packages
    machine.install([old.agent, old.daemon])
    guest.run("systemctl", "stop", DAEMON, SOCKET, AGENT)
    guest.put(DAY, "/srv/day.py")
    guest.run("rm", "-f", DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")
    writing = ("setpriv", "--reuid=trimtab", "--regid=trimtab", "--clear-groups", PYTHON, "/srv/day.py")
    guest.run(*writing, "/var/lib/trimtab", seconds=600)
    machine.set_up()
    machine.shows_data()
    settings = {name: guest.path(f"/etc/trimtab/{name}.toml").read_text() for name in ("agent", "daemon")}
    enrolled = machine.trimtab("enroll", "list")["nodes"][0]["expires_at"]
    before = counted(machine)
    assert {name: before[name] >= least for name, least in LAST_DAY.items()} == dict.fromkeys(LAST_DAY, True), before
    last = machine.stored()[-1][1]

    said = machine.install([packages.agent, packages.daemon])

    assert "does not run" not in said, said
    guest.eventually(lambda: machine.ask("/api/v1/board"))
    after = counted(machine)
    assert {name: count for name, count in before.items() if after.get(name, -1) < count} == {}, "rows are missing"
    assert {name: guest.path(f"/etc/trimtab/{name}.toml").read_text() for name in ("agent", "daemon")} == settings
    assert machine.trimtab("enroll", "list")["nodes"][0]["expires_at"] == enrolled
    guest.eventually(lambda: machine.stored()[-1][1] > last + 2)
    machine.has_caught_up()
    digest = machine.trimtab("digest", "--since", "20h")
    hours = sum(digest["hours"]["by_state"].values())
    assert hours > 8 * 19, "the day that was written by the package before is in the digest of this one"
    for unit in (AGENT, DAEMON, SOCKET):
        assert (unit, guest.property(unit, "ActiveState")) == (unit, "active")


def test_a_removal_keeps_data_and_settings(upgraded: Machine):
    guest = upgraded.guest
    before = counted(upgraded)
    guest.run("dpkg", "-r", "trimtab-agent", "trimtab-daemon")
    assert guest.run("systemctl", "is-active", AGENT, DAEMON, SOCKET, is_checked=False).stdout.split() == [
        "inactive",
        "inactive",
        "inactive",
    ]
    assert not guest.path("/usr/lib/trimtab-daemon").exists()
    after = counted(upgraded)
    assert {name for name, count in before.items() if after[name] < count} == set()
    assert guest.path("/etc/trimtab/daemon.toml").exists()


def test_a_purge_leaves_nothing(upgraded: Machine):
    guest, before = upgraded.guest, upgraded.before
    guest.run("dpkg", "-P", "trimtab-agent", "trimtab-daemon")
    # What the test itself had put there.
    guest.run("rm", "-rf", f"/etc/systemd/system/{AGENT}.d", "/srv/day.py")
    before = {path: what for path, what in before.items() if not path.startswith(f"/etc/systemd/system/{AGENT}.d")}
    after = everything(upgraded)
    assert sorted(set(after) - set(before)) == [], "left behind"
    assert sorted(set(before) - set(after)) == [], "taken away"
    assert {path: (before[path], what) for path, what in after.items() if before[path] != what} == {}
    known = guest.out("getent", "passwd") + guest.out("getent", "group")
    assert "trimtab" not in known
    assert "trimtab" not in guest.out("systemctl", "list-unit-files", "--no-pager")
    assert guest.run("systemctl", "is-system-running", is_checked=False).stdout == "running\n"
