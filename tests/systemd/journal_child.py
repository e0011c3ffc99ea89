"""Runs beside a private journald: what a daemon logs of a finding, and of the writes of a command that rests on it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import structlog
from tests.builders import a_finding
from tests.fakes.people import NOW, a_command, a_recommendation

from trimtab import logs
from trimtab.detect.tracker import Changes
from trimtab.journaling import log_changes, remember
from trimtab.model.command import AuditLine
from trimtab.secrecy import never_show
from trimtab.store.database import open_database
from trimtab.store.history import History
from trimtab.store.standing import write_lines

SECRET = "canary-4f9c1e77d2"
FORGED = "gpu-07 GPU 3 fell off\nPRIORITY=0\nXID=13\n\x1b[2J\u202eevil"


def main() -> None:
    status = os.fstat(2)  # as systemd says it to a service
    os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
    logs.setup(identifier="trimtab-daemon")
    logs.hear_all()
    never_show(SECRET)
    finding = a_finding(id=31, node="gpu-07", sentence=FORGED, facts={"label": "XID 79"})
    command = a_command(11, recommendation=replace(a_recommendation(), findings=(31,)))
    remember((finding,), (command,))
    log_changes(Changes(at=NOW, opened=(finding,), after=(finding,)))
    database = open_database("sqlite:///journal.db", state_directory=Path(sys.argv[1]))
    history = History(database, cluster="hall-a")
    history.audit([AuditLine(at=NOW, who="trimtab", what="cordon gpu-07", why="XID 79", command_id=command.id)])
    with suppress(ZeroDivisionError), database.write() as connection:
        write_lines(connection, "hall-a", [AuditLine(at=NOW, who="trimtab", what="never happened")])
        _ = 1 / 0  # rolled back
    database.close()
    log = structlog.get_logger()
    log.error("a token was refused", said=f"Bearer {SECRET} at postgresql://u:{SECRET}@db/x", tokens=[SECRET])
    log.debug("not at this level")
    raise RuntimeError(f"nobody knows this: {SECRET}")


if __name__ == "__main__":
    main()
