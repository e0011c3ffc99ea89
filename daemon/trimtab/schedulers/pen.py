"""Every write to the cluster goes through here: allowed to write, tried dry first, audited before it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import structlog

from trimtab.clock import Clock
from trimtab.errors import (
    SchedulerBusy,
    SchedulerConflict,
    SchedulerError,
    SchedulerGone,
    SchedulerRefused,
    SchedulerUnavailable,
)
from trimtab.model.command import AuditLine, Command
from trimtab.schedulers.kubernetes import Api, Body, PatchKind

log = structlog.get_logger()

WHO = "trimtab"
SAID_MAX = 1000
SAID_AGAIN_SECONDS = 600.0
"""A no that is heard every beat is in the audit once in so long."""

Send = Callable[[Mapping[str, str]], dict[str, Any]]

_RESULTS = (
    (SchedulerConflict, "conflict"),
    (SchedulerGone, "gone"),
    (SchedulerBusy, "busy"),
    (SchedulerRefused, "refused"),
    (SchedulerUnavailable, "unavailable"),
)


class Tally:
    """Writes so far, by first word of what was written and by result, and which noes were said lately."""

    def __init__(self) -> None:
        """Nothing written yet."""
        self._counts: Counter[tuple[str, str]] = Counter()
        self._said: dict[tuple[int, str, str], float] = {}
        self._lock = Lock()

    def add(self, what: str, result: str) -> None:
        """Count one write."""
        with self._lock:
            self._counts[what.split(" ", 1)[0], result] += 1

    def counts(self) -> Mapping[tuple[str, str], int]:
        """(first word of what was written, result) -> writes since start."""
        with self._lock:
            return dict(self._counts)

    def is_news(self, command_id: int, what: str, text: str, at_seconds: float) -> bool:
        """Whether this no was not said lately; from now on it was."""
        with self._lock:
            key = (command_id, what, text)
            last = self._said.pop(key, None)
            is_new = last is None or at_seconds - last >= SAID_AGAIN_SECONDS
            self._said[key] = at_seconds if last is None or is_new else last
            while len(self._said) > SAID_MAX:
                del self._said[next(iter(self._said))]
            return is_new


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """Writes for commands. `why_not` says why nothing may be written now (no lease, no rights), or None."""

    api: Api
    clock: Clock
    audit: Callable[[AuditLine], None]
    """Durable before it returns: the row is there before the write is."""
    why_not: Callable[[], str | None] = lambda: None
    prefix: str = "trimtab"
    """Also our field manager."""
    tally: Tally = field(default_factory=Tally)

    def patch(
        self,
        command: Command,
        path: str,
        body: Body,
        kind: PatchKind,
        *,
        what: str,
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Change an object. `what` is said in the audit, verb first: `cordon gpu-07`. `params`: `force` of an apply."""
        extra = dict(params or {})
        return self._write(command, what, lambda ours: self.api.patch(path, body, kind, {**extra, **ours}))

    def post(self, command: Command, path: str, body: Mapping[str, Any], *, what: str) -> dict[str, Any]:
        """Create an object, or call a subresource that is created (an eviction)."""
        return self._write(command, what, lambda params: self.api.post(path, body, params))

    def delete(self, command: Command, path: str, body: Mapping[str, Any] | None, *, what: str) -> dict[str, Any]:
        """Delete an object of ours; `body` carries preconditions."""

        def send(params: Mapping[str, str]) -> dict[str, Any]:
            dry = {"dryRun": [params["dryRun"]]} if "dryRun" in params else {}
            options = {**(body or {}), **dry}
            return self.api.delete(path, options or None)

        return self._write(command, what, send)

    def _write(self, command: Command, what: str, send: Send) -> dict[str, Any]:
        """Allowed, dry, in the audit, for real. The answer of the server to a refused try is in the audit too."""
        params = {"fieldManager": self.prefix}
        try:
            self._allow(what)
            send({**params, "dryRun": "All"})  # shows missing rights, policies, webhooks and a stale plan, at no cost
        except SchedulerError as error:
            self._missed(command, what, error, "not written, refused in the dry run")
            raise
        self._note(command, what)
        try:
            answer = send(params)
        except SchedulerError as error:
            self._missed(command, what, error, "failed")
            raise
        self.tally.add(what, "done")
        return answer

    def _allow(self, what: str) -> None:
        reason = self.why_not()
        if reason is not None:
            raise SchedulerUnavailable(f"not written ({what}): {reason}")

    def _note(self, command: Command, what: str) -> None:
        why = command.recommendation.reason or command.recommendation.sentence
        line = AuditLine(at=self.clock.now(), who=WHO, what=what, why=why, command_id=command.id or None)
        self.audit(line)
        log.info("write", command_id=command.id, mark=command.mark, what=what, why=why)

    def _missed(self, command: Command, what: str, error: SchedulerError, how: str) -> None:
        result = next((name for kind, name in _RESULTS if isinstance(error, kind)), "failed")
        self.tally.add(what, result)
        text = str(error)
        if not self.tally.is_news(command.id, what, text, self.clock.monotonic_seconds()):
            return
        line = AuditLine(at=self.clock.now(), who=WHO, what=f"{how}: {what}", why=text, command_id=command.id or None)
        self.audit(line)
        log.warning("write not done", command_id=command.id, mark=command.mark, what=what, how=how, said=text)
