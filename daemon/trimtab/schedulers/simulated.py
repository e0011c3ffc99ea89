"""The simulated cluster's scheduler over HTTP: reads its snapshot, writes marked, gives back by mark."""

from __future__ import annotations

from typing import Any

import msgspec

from trimtab import outbound
from trimtab.errors import SchedulerRefused, SchedulerUnavailable
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, CommandState, Move, Recommendation, Refusal, Verb, Way, Write

HOLDS = (Verb.CORDON, Verb.RESERVE)


class SimulatedScheduler:
    """Reader and scheduler of a cluster that isn't there."""

    name = "simulated"

    def __init__(self, url: str, *, timeout_seconds: float = 10.0) -> None:
        """Prepare a session; nothing is asked yet."""
        self._url = url.rstrip("/")
        self._session = outbound.session(timeout_seconds=timeout_seconds)

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is now, whole, or SchedulerUnavailable."""
        body = self._ask("GET", "/snapshot", None)
        try:
            return msgspec.json.decode(body, type=ClusterSnapshot)
        except msgspec.MsgspecError as error:
            raise SchedulerUnavailable(f"{self._url}/snapshot is no whole snapshot: {error}") from error

    def refusal(self, move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
        """Why the simulated cluster cannot carry the move out, or None."""
        if move.workload is not None and move.workload not in snapshot.workload_by_id:
            return Refusal(rule="simulated", sentence=f"The simulated scheduler does not know {move.workload}.")
        if move.replaced:
            return Refusal(rule="simulated", sentence="The simulated scheduler stops whole jobs, no single pods.")
        unknown = next((seat.node for seat in move.after if seat.node not in snapshot.node_by_name), None)
        if unknown is not None:
            return Refusal(rule="simulated", sentence=f"The simulated scheduler has no node {unknown}.")
        return None

    def way(self, recommendation: Recommendation, snapshot: ClusterSnapshot) -> Way:  # noqa: ARG002 - one shape for all
        """The simulated scheduler takes our words as they are."""
        return Way()

    def hold(self, command: Command) -> None:
        """Cordon and reserve, each once, however often it is asked."""
        self._write_all(command, [write for write in command.recommendation.writes if write.verb in HOLDS])

    def submit(self, command: Command) -> None:
        """The other writes, in order, each once."""
        self._write_all(command, [write for write in command.recommendation.writes if write.verb not in HOLDS])

    def release(self, command: Command) -> None:
        """Give back all that bears the command's mark; once settled, all but what lasts."""
        keep_lasting = command.state is CommandState.SETTLED
        self._ask("POST", "/release", {"mark": command.mark, "keep_lasting": keep_lasting})

    def _write_all(self, command: Command, writes: list[Write]) -> None:
        for write in writes:
            self._ask("POST", "/writes", {"mark": command.mark, "write": write})

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> bytes:
        """One call; a no becomes SchedulerRefused, anything else but a yes SchedulerUnavailable."""
        try:
            answer = self._session.request(
                method,
                self._url + path,
                data=None if body is None else msgspec.json.encode(body),
                headers={"Content-Type": "application/json"},
            )
        except outbound.OutboundError as error:
            raise SchedulerUnavailable(f"{self._url} cannot be reached: {type(error).__name__}.") from error
        if answer.status_code == 409:
            raise SchedulerRefused(_sentence(answer.content))
        if answer.status_code != 200:
            raise SchedulerUnavailable(f"{self._url}{path} answered {answer.status_code}.")
        return answer.content


def _sentence(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body, type=dict[str, Any]).get("sentence") or "no reason given")
    except msgspec.MsgspecError:
        return "no reason given"
