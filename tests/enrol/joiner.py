"""Nodes that join or renew, each a process of its own, ended by kill -9 at the step that it is told.

Steps are the instants around each write: before it, in the middle of it, after it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path

from trimtab.clock import SystemClock
from trimtab.ship.keyring import Keyring
from trimtab.ship.membership import Membership, Whereabouts

DIED_NEVER = 0


class DyingKeyring(Keyring):
    """Writes as the real one does, and dies on the way."""

    die_at = DIED_NEVER
    steps = 0

    def keep(self, kept):  # type: ignore[no-untyped-def]
        super().keep(kept)
        self._step()

    def _write(self, name: str, content: bytes) -> None:
        self._step()
        if self._is_next():
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.directory / f"{name}.new").write_bytes(content[: len(content) // 2])
        self._step()
        super()._write(name, content)
        self._step()

    def _is_next(self) -> bool:
        return self.steps + 1 == self.die_at

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)


def live(*, url: str, directory: str, node: str, token: str, die_at: int, what: str) -> None:
    """Join (or renew) once."""
    keyring = DyingKeyring(Path(directory))
    keyring.die_at = die_at
    where = Whereabouts(urls=(url,), node=node, cluster="")
    membership = Membership(keyring, where, clock=SystemClock(), join_token=lambda: token)
    if what == "renew":
        membership.ask_renewal()
    said = membership.tick()
    assert not membership.trouble, said


def main() -> None:
    """One life a line, each in a process of its own; its wait status is the answer."""
    for line in sys.stdin:
        life = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                live(**life)
            except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
