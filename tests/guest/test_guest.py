"""The guest itself: a run that is killed leaves neither mounts nor processes nor control groups."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.guest.guest import GROUPS, sweep
from tests.guest.root import Root

ROOT = Path(__file__).parents[2]
BOOT = """\
import sys, threading
from tests.guest.guest import Guest
from tests.guest.root import guest_root
guest = Guest(guest_root()).boot()
print(guest.leader, guest.path("/"), flush=True)
threading.Event().wait()
"""


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_kill_nine_of_the_run_takes_the_guest_with_it(root: Root):
    before = Path("/proc/mounts").read_text()
    run = subprocess.Popen([sys.executable, "-c", BOOT], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    leader, place = run.stdout.readline().split()
    holder = int(place.split("/")[2])
    assert not gone(int(leader))
    run.send_signal(signal.SIGKILL)
    assert run.wait(30) == -signal.SIGKILL
    run.stdout.close()
    ends_at, pause = time.monotonic() + 60, threading.Event()
    while not (gone(int(leader)) and gone(holder)) and time.monotonic() < ends_at:
        pause.wait(0.1)
    assert (gone(int(leader)), gone(holder)) == (True, True)
    assert "trimtab-guest" not in Path("/proc/mounts").read_text().replace(before, "")
    sweep()
    assert list(Path("/sys/fs/cgroup").glob(f"*/{GROUPS}{run.pid}-*")) == []
