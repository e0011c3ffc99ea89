"""Every write to the cluster goes through here: allowed to write, tried dry first, audited before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from trimtab.clock import Clock
from trimtab.errors import SchedulerUnavailable
from trimtab.model.command import AuditLine, Command
from trimtab.schedulers.kubernetes import Api, Body, PatchKind

log = structlog.get_logger()

WHO = "trimtab"
Send = Callable[[Mapping[str, str]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """Writes for commands. `why_not` says why nothing may be written now (no lease, no rights), or None."""

    api: Api
    clock: Clock
    audit: Callable[[AuditLine], None]
    """Durable before it returns: the row is there before the write is."""
    why_not: Callable[[], str | None] = lambda: None
    prefix: str = "trimtab"

    def patch(self, command: Command, path: str, body: Body, kind: PatchKind, *, what: str) -> dict[str, Any]:
        """Change an object. `what` is said in the audit: `cordon gpu-07`."""
        return self._write(command, what, lambda params: self.api.patch(path, body, kind, params))

    def post(self, command: Command, path: str, body: Mapping[str, Any], *, what: str) -> dict[str, Any]:
        """Create an object, or call a subresource that is created (an eviction)."""
        return self._write(command, what, lambda params: self.api.post(path, body, params))

    def delete(self, command: Command, path: str, body: Mapping[str, Any] | None, *, what: str) -> dict[str, Any]:
        """Delete an object of ours."""
        self._allow(what)
        self._note(command, what)
        return self.api.delete(path, body)

    def _write(
        self, command: Command, what: str, send: Callable[[Mapping[str, str]], dict[str, Any]]
    ) -> dict[str, Any]:
        self._allow(what)
        params = {"fieldManager": WHO}
        send({**params, "dryRun": "All"})  # shows missing rights, policies, webhooks and a stale plan, at no cost
        self._note(command, what)
        return send(params)

    def _allow(self, what: str) -> None:
        reason = self.why_not()
        if reason is not None:
            raise SchedulerUnavailable(f"not written ({what}): {reason}")

    def _note(self, command: Command, what: str) -> None:
        why = command.recommendation.reason or command.recommendation.sentence
        line = AuditLine(at=self.clock.now(), who=WHO, what=what, why=why, command_id=command.id)
        self.audit(line)
        log.info("write", command_id=command.id, mark=command.mark, what=what)
