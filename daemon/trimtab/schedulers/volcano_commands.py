"""Volcano's Commands: noted on the Job before they are posted, looked after until taken, withdrawn when they are not.

A Command is deleted by the controller before it acts, and compares no uid. So its number is kept where it can be read
back: the Job's annotation holds its name and the retryCount from before, written in a patch that fails if the Job is
no longer the one that was judged. A crash at any point leaves either no note (nothing was posted) or a note that tells
whether to wait, to withdraw or to post once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trimtab.errors import SchedulerGone, SchedulerRefused
from trimtab.model.command import Command
from trimtab.schedulers.face import value_of
from trimtab.schedulers.kubernetes import PatchKind, Resource
from trimtab.schedulers.marks import Hold, annotation, hold_text
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.volcano_jobs import RESTARTING, VolcanoJob, note_of

COMMANDS = Resource(group="bus.volcano.sh", version="v1alpha1", plural="commands")
RESTART, ABORT, RESUME = "RestartJob", "AbortJob", "ResumeJob"
TAKEN_SECONDS = 10.0
"""A living controller takes a Command within a second; one that lies longer fires whenever the controller returns."""
REPEAT_SECONDS = 30.0
"""One that was taken, or never arrived, and shows no effect by then is posted again."""
TRIES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Writes and withdraws Commands for commands of ours."""

    pen: Pen

    def ask(
        self, command: Command, job: VolcanoJob, action: str, *, what: tuple[str, ...], why: str, tries: int = 1
    ) -> None:
        """Note what is asked on the Job, then ask. Conflict where the Job has changed since it was read."""
        now = self.pen.clock.now()
        namespace, short = str(job.metadata["namespace"]), str(job.metadata["name"])
        name = f"{short}-{action}-{value_of(command.mark)}-{tries}".lower()
        before = {
            "how": action,
            "command": name,
            "tries": tries,
            "retryCount": job.retry_count,
            "version": int(job.status.get("version") or 0),
        }
        hold = Hold(mark=command.mark, what=what, why=why, at=now, before=before)
        # This is also the fresh look at the uid that the Command itself is never compared with, and a proof that
        # Volcano's webhook answers: without it a restart hangs half-way.
        self.pen.patch(
            command, _path(job), [*job.test(), *job.signed(hold)], PatchKind.JSON, what=f"note {action} on {job.name}"
        )
        body = _body(job, name, action, _signature(command, self.pen, action, why), why)
        self.pen.post(command, COMMANDS.path(namespace), body, what=f"{action} vcjob {job.name}")

    def follow(self, command: Command, job: VolcanoJob, hold: Hold) -> bool:
        """Whether what was asked shows in the Job. Else withdraws what nobody takes, and repeats what was lost."""
        if shows(job, hold):
            # Somebody else restarted it before ours was taken: ours would do it once more, at the cost of a retry.
            self.withdraw(command, job, hold)
            return True
        note = note_of(hold)
        action, tries = note.how, note.tries
        age_seconds = (self.pen.clock.now() - hold.at).total_seconds() if hold.at else REPEAT_SECONDS
        if age_seconds < TAKEN_SECONDS:
            return False
        if self.withdraw(command, job, hold):
            raise SchedulerRefused(
                f"Volcano's controller-manager did not take {action} for {job.name} within {TAKEN_SECONDS:.0f} s: "
                f"withdrawn, nothing was stopped. Is it running?"
            )
        if age_seconds < REPEAT_SECONDS:
            return False
        if tries >= TRIES_MAX:
            raise SchedulerRefused(f"{action} for {job.name} was posted {tries} times and nothing came of it.")
        self.ask(command, job, action, what=hold.what, why=hold.why, tries=tries + 1)
        return False

    def withdraw(self, command: Command, job: VolcanoJob, hold: Hold) -> bool:
        """Take back what still lies there; False when it was taken, or never posted."""
        note = note_of(hold)
        if note.command is None:
            return False
        path = COMMANDS.path(str(job.metadata["namespace"]), note.command)
        try:
            found = self.pen.api.get(path)
            uid = found["metadata"]["uid"]
            self.pen.delete(command, path, {"preconditions": {"uid": uid}}, what=f"withdraw {note.how} for {job.name}")
        except SchedulerGone:
            return False
        return True


def shows(job: VolcanoJob, hold: Hold) -> bool:
    """Whether the Job has been stopped or restarted since the note; by whomever, it need not be asked again."""
    note = note_of(hold)
    if note.how == RESUME:
        return job.phase not in ("Aborting", "Aborted")
    has_moved = job.retry_count > note.retry_count or job.phase in RESTARTING
    return has_moved or int(job.status.get("version") or 0) > note.version


def _path(job: VolcanoJob) -> str:
    return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{job.metadata['namespace']}/jobs/{job.metadata['name']}"


def _signature(command: Command, pen: Pen, action: str, why: str) -> dict[str, str]:
    now = pen.clock.now()
    ends = now + timedelta(seconds=TAKEN_SECONDS)
    hold = Hold(mark=command.mark, what=(f"Command {action}",), why=why, at=now, until=ends)
    return {annotation(pen.prefix): hold_text([hold]) or ""}


def _body(job: VolcanoJob, name: str, action: str, annotations: Mapping[str, str], why: str) -> dict[str, Any]:
    target = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": job.metadata["name"],
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {
            "name": name,
            "namespace": job.metadata["namespace"],
            "annotations": dict(annotations),
            "ownerReferences": [target],
        },
        "target": target,
        "action": action,
        "reason": "Trimtab",
        "message": why[:1024],
    }
