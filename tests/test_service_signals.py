"""Signals that come at any moment: none is lost, and none makes the process wait for itself."""

from __future__ import annotations

import subprocess
import sys

STORM = """
import os, signal, threading
from trimtab.service import Service

service = Service()
service.catch_signals()

def storm():
    for _ in range(20_000):
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=storm).start()
reloads = 0
while not service.wait(0.000_01):
    reloads += service.reload_was_asked()
print(reloads > 0)
"""


def test_a_storm_of_signals_is_outlived():
    done = subprocess.run(
        [sys.executable, "-c", STORM], capture_output=True, text=True, timeout=60, start_new_session=True, check=True
    )
    assert done.stdout == "True\n"
