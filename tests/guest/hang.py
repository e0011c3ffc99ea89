"""Stops one thread of a process and leaves the others alive: `python hang.py TID`, until the process is gone.

The kernel's own debugger interface does it (ptrace), so that the program under test needs no door for it.
"""

from __future__ import annotations

import ctypes
import os
import sys

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WALL = 0x40000000


def main(thread: int) -> None:
    """Stop it, say so, and see it through to its end."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if libc.ptrace(request, thread, None, None) < 0:
            sys.exit(f"ptrace {request:#x}: {os.strerror(ctypes.get_errno())}")
    os.waitpid(thread, WALL)
    print("stopped", flush=True)
    while True:
        _, status = os.waitpid(thread, WALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            return


if __name__ == "__main__":
    main(int(sys.argv[1]))
