"""Both packages on a booted machine: installed without a network, enrolled, seen at work, restarted and rebooted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from tests.guest.machine import AGENT, DAEMON, NODE, SOCKET, Machine

EXPOSURE_MAX = {DAEMON: 2.0, AGENT: 4.0, "trimtab-backup.service": 2.0, "trimtab-digest.service": 2.0}
TIMERS = ("trimtab-backup.timer", "trimtab-digest.timer")
UUID_3 = "GPU-00000000-0000-4000-8000-000000000003"


def test_both_are_installed_without_a_network_and_run(machine: Machine):
    guest = machine.guest
    links = json.loads(guest.out("python3", "-c", "import json, socket; print(json.dumps(socket.if_nameindex()))"))
    assert [name for _, name in links if name not in ("lo", "tunl0", "sit0", "ip6tnl0")] == []
    for unit in (AGENT, DAEMON, SOCKET, *TIMERS):
        assert (unit, guest.property(unit, "ActiveState")) == (unit, "active")
        assert (unit, guest.property(unit, "UnitFileState")) == (unit, "enabled")
    assert guest.run("systemctl", "is-system-running", is_checked=False).stdout == "running\n"
    assert "trimtab link" in machine.said_at_install, "the way to the page is told"


def test_the_node_is_enrolled_and_its_gpus_are_seen(machine: Machine):
    (row,) = machine.trimtab("enroll", "list")["nodes"]
    assert (row["node"], row["state"]) == (NODE, "enrolled")
    said = machine.guest.out("trimtab", "status")
    assert re.search(r"hall-a +8 GPUs +8 working", said), said
    machine.has_caught_up()


def test_users_and_folders_are_as_the_units_say(machine: Machine):
    guest = machine.guest
    wanted = {
        "/var/lib/trimtab": "750 trimtab trimtab",
        "/var/cache/trimtab": "755 trimtab trimtab",
        "/var/lib/trimtab-agent": "750 trimtab-agent trimtab-agent",
        "/etc/trimtab": "755 root root",
        "/etc/trimtab/credentials.d": "700 root root",
    }
    found = {path: guest.out("stat", "-c", "%a %U %G", path).strip() for path in wanted}
    assert found == wanted
    for unit, user in ((AGENT, "trimtab-agent"), (DAEMON, "trimtab")):
        pid = guest.property(unit, "MainPID")
        assert guest.out("stat", "-c", "%U", f"/proc/{pid}").strip() == user
    assert "other" not in guest.out("find", "/var/lib/trimtab", "-perm", "/007", "-printf", "other %p\\n")


def test_a_secret_comes_as_a_credential_that_only_its_service_reads(machine: Machine):
    guest = machine.guest
    pid = guest.property(AGENT, "MainPID")
    there = f"/proc/{pid}/root/run/credentials/{AGENT}/credentials_join-token"
    given = guest.path("/etc/trimtab/credentials.d/join-token").read_text()
    assert guest.out("cat", there) == given
    assert given.strip() not in guest.journal(), "no secret is in the journal"
    denied = guest.run(
        "setpriv", "--reuid=trimtab", "--regid=trimtab", "--clear-groups", "cat", there, is_checked=False
    )
    assert denied.returncode != 0


def test_status_says_what_each_does(machine: Machine):
    agent, daemon = machine.guest.status(AGENT), machine.guest.status(DAEMON)
    assert re.search(r'Status: "8 GPUs read; sent ', agent), agent
    assert re.search(r'Status: ".*1 of 1 nodes report, 8 GPUs, 8 working; [01] findings open; recommend', daemon), (
        daemon
    )


def test_systemd_finds_the_units_closed_and_has_nothing_to_say_of_them(machine: Machine):
    guest = machine.guest
    for unit, exposure_max in EXPOSURE_MAX.items():
        said = guest.out("systemd-analyze", "security", "--no-pager", unit)
        exposure = float(re.findall(r"exposure level for \S+: ([0-9.]+)", said)[0])
        print(f"{unit}: {exposure}")
        assert exposure <= exposure_max, said
    units = [*EXPOSURE_MAX, SOCKET, *TIMERS]
    done = guest.run("systemd-analyze", "verify", "--man=no", *units, is_checked=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_memory_stays_far_below_its_limit(machine: Machine):
    for unit, share_max in ((AGENT, 0.6), (DAEMON, 0.25)):
        limit = int(machine.guest.property(unit, "MemoryMax"))
        pid = machine.guest.property(unit, "MainPID")
        peak_kib = int(re.findall(r"VmHWM:\s+(\d+) kB", machine.guest.out("cat", f"/proc/{pid}/status"))[0])
        print(f"{unit}: peak {peak_kib / 1024:.0f} MiB of {limit / 2**20:.0f} MiB")
        assert peak_kib * 1024 < share_max * limit
        core = next(line for line in machine.guest.out("cat", f"/proc/{pid}/limits").splitlines() if "core" in line)
        assert core.split()[4:6] == ["0", "0"], "a core would hold tokens"


def test_the_agent_may_open_the_kernel_log_and_the_gpus_and_the_daemon_neither(machine: Machine):
    guest = machine.guest
    opened = guest.property(AGENT, "MainPID")
    files = guest.out("find", f"/proc/{opened}/fd", "-printf", "%l\\n").splitlines()
    assert "/dev/kmsg" in files, "the agent follows the kernel log with what its unit leaves it"
    maps = guest.out("cat", f"/proc/{opened}/maps")
    assert "libnvidia-ml.so.1" in maps, "the driver's library is found as the loader finds it"
    daemon = guest.property(DAEMON, "MainPID")
    assert not guest.path(f"/proc/{daemon}/root/dev/kmsg").exists()
    assert guest.run("test", "-e", f"/proc/{daemon}/root/dev/kmsg", is_checked=False).returncode == 1
    allowed = guest.property(AGENT, "DeviceAllow").splitlines()
    assert {"/dev/kmsg r", "char-nvidia rw", "char-nvidia-caps rw", "char-nvidia-uvm rw"} <= set(allowed)


def test_the_journal_finds_a_fault_by_code_gpu_node_and_finding(machine: Machine):
    guest = machine.guest
    machine.driver["xid.1"] = "3 79"
    try:
        (found,) = guest.eventually(lambda: machine.findings("device_fault"))
        name = f"F{found['id']}"
        for match in ("XID=79", f"GPU={UUID_3}", f"NODE={NODE}", f"FINDING={name}"):
            said = guest.eventually(lambda match=match: guest.journal(match))
            assert "finding opened" in said, f"{match}: {said}"
        assert "Xid 79" in guest.out("journalctl", "--no-pager", "-o", "cat", "XID=79", "NODE=guest").replace(
            "XID", "Xid"
        )
        assert guest.journal("XID=80") == ""
    finally:
        del machine.driver["xid.1"]


def test_a_restart_keeps_spool_findings_and_commands(machine: Machine):
    guest = machine.guest
    before = {one["id"]: one["opened_at"] for one in guest.eventually(machine.findings)}
    commands = machine.ask("/api/v1/commands")
    guest.run("systemctl", "stop", DAEMON, SOCKET)
    guest.eventually(lambda: (machine.metric("trimtab_agent_spool_reports") or 0) >= 3)
    guest.run("systemctl", "restart", AGENT)
    guest.run("systemctl", "start", SOCKET, DAEMON)
    guest.eventually(lambda: machine.ask("/api/v1/board"))
    assert {one["id"]: one["opened_at"] for one in machine.findings()} == before
    assert machine.ask("/api/v1/commands") == commands
    machine.has_caught_up()


def test_a_request_during_a_restart_waits_and_is_answered(machine: Machine):
    guest = machine.guest
    first = guest.property(DAEMON, "MainPID")
    guest.run("systemctl", "stop", DAEMON)
    assert guest.property(SOCKET, "ActiveState") == "active", "the socket holds the port"
    waiting = machine.begin("/api/v1/board")
    said, trouble = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, trouble
    assert json.loads(said)["nodes"][0]["name"] == NODE
    assert guest.property(DAEMON, "MainPID") not in ("0", first), "the request itself has started it"
    machine.shows_data()


def test_a_reload_takes_new_settings_in_and_keeps_the_process(machine: Machine):
    guest = machine.guest
    before = {unit: guest.property(unit, "MainPID") for unit in (AGENT, DAEMON)}
    guest.run("systemctl", "reload", AGENT, DAEMON)
    assert {unit: guest.property(unit, "MainPID") for unit in (AGENT, DAEMON)} == before
    machine.shows_data()


def test_the_timers_do_their_work(machine: Machine):
    guest = machine.guest
    for timer in TIMERS:
        assert guest.property(timer, "NextElapseUSecRealtime") not in ("", "0"), timer
    guest.drop_in(
        "trimtab-backup.timer", "[Timer]\nOnCalendar=\nOnCalendar=*:*:0/2\nRandomizedDelaySec=0\nAccuracySec=1\n"
    )
    guest.drop_in(
        "trimtab-digest.timer", "[Timer]\nOnCalendar=\nOnCalendar=*:*:0/2\nRandomizedDelaySec=0\nAccuracySec=1\n"
    )
    try:
        guest.run("systemctl", "restart", *TIMERS)
        digests = guest.path("/var/lib/trimtab/digests")
        guest.eventually(lambda: list(digests.glob("digest-*.html")))
        state = guest.path("/var/lib/trimtab")
        guest.eventually(lambda: [one for one in state.rglob("*") if "backup" in str(one) and one.is_file()])
    finally:
        for timer in TIMERS:
            guest.drop_in(timer, "")
        guest.run("systemctl", "restart", *TIMERS)
    (digest,) = digests.glob("digest-*.html")
    assert "hall-a" in digest.read_text()
    for unit in ("trimtab-backup.service", "trimtab-digest.service"):
        guest.eventually(lambda unit=unit: guest.property(unit, "ActiveState") == "inactive")
        assert guest.property(unit, "Result") == "success", guest.journal("-u", unit)


def test_after_a_reboot_everything_is_still_there(machine: Machine):
    guest = machine.guest
    before = {one["id"]: one["opened_at"] for one in machine.findings()}
    assert before
    acknowledged = machine.acknowledged()
    boot = guest.out("cat", "/etc/machine-id"), guest.property(DAEMON, "MainPID")
    guest.reboot()
    guest.eventually(lambda: machine.ask("/api/v1/board"))
    assert guest.out("cat", "/etc/machine-id") == boot[0]
    assert {one["id"]: one["opened_at"] for one in machine.findings()} == before
    machine.shows_data()
    machine.has_caught_up()
    assert acknowledged <= {sequence for _, sequence in machine.stored()}
    assert guest.run("systemctl", "is-system-running", is_checked=False).stdout == "running\n"
    boots = guest.out("journalctl", "--list-boots", "--no-pager", "-q").splitlines()
    assert len(boots) >= 2, "the journal outlives the boot"


@pytest.fixture(scope="module", autouse=True)
def _no_trouble_was_said(machine: Machine):
    yield
    said = machine.guest.journal("-u", AGENT, "-u", DAEMON)
    assert "Traceback" not in said, said


def test_the_journal_of_a_machine_that_is_off_is_read_from_outside(machine: Machine):
    assert shutil.which("journalctl")
    directory = str(machine.guest.path("/var/log/journal"))
    line = ["journalctl", "--directory", directory, "--no-pager", "-o", "json", "XID=79"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    entries = [json.loads(one) for one in done.stdout.splitlines()]
    assert {one["NODE"] for one in entries} == {NODE}
    assert any(one.get("GPU") == UUID_3 for one in entries)
