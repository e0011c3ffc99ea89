"""Takes a board over into spans and facts: one transaction, nothing where nothing changed."""

from __future__ import annotations

import msgspec

from trimtab.clock import unix_ms
from trimtab.model.board import Board
from trimtab.model.cluster import ClusterSnapshot
from trimtab.store.database import Database
from trimtab.store.rollup_claims import JobFact, LossFact, claims, facts, losses
from trimtab.store.rollup_facts import JOB, LOSS, FactBook, Key
from trimtab.store.rollup_slots import Slots
from trimtab.store.rollup_spans import Span, SpanBook
from trimtab.store.rollup_write import State

CONFIRMED = "confirmed_ms"
"""Up to when it is known that what stands did stand: where a daemon that was killed had last looked."""
STEADY_RATIO = 0.1
"""A loss that moves by less is told as it was: a finding's estimate trembles with every judgement."""
WHY_MS = 300_000
"""Why a job waits is told anew this seldom, unless something else of it changes."""


class Adopter:
    """Compares each board with what stands."""

    def __init__(self, database: Database, slots: Slots, spans: SpanBook, state: State, *, cluster: str) -> None:
        """Take up what stands in the database. Raises StoreError."""
        self._database = database
        self._slots = slots
        self._spans = spans
        self._state = state
        self._facts = FactBook(database, cluster=cluster)
        self.is_first = True
        """Whether nobody may have looked between the board that is stored and the next one."""
        self._why_at_ms: dict[str, int] = {}

    def adopt(self, board: Board, snapshot: ClusterSnapshot | None) -> int:
        """Make the board's word stand from its moment on; how many spans and facts changed. Raises StoreError."""
        at_ms = unix_ms(board.at)
        # What ended while no daemon looked ended, for all that is known, when the last one had looked.
        confirmed = self._state.get(CONFIRMED)
        ended_ms = min(confirmed, at_ms) if self.is_first and confirmed is not None else at_ms
        said = claims(board, snapshot)
        for (node, gpu), claim in said.items():
            self._slots.slot(node, gpu, index=claim.index)
        self._slots.write()
        over, began = self._spans.changes(said, at_ms=at_ms, ended_ms=ended_ms)
        told = self._steadied(facts(board, snapshot, self._losses(board)), at_ms)
        with self._database.write() as connection:
            self._spans.write(connection, over, began)
            changed = self._facts.adopt(connection, told, at_ms=at_ms, ended_ms=ended_ms)
            self._state.put({CONFIRMED: at_ms}, connection)
        self._spans.commit(over, began)
        self.is_first = False
        return len(_slots_of(over) | _slots_of(began)) + changed

    def _losses(self, board: Board) -> dict[str, LossFact]:
        found = losses(board)
        for workload, loss in found.items():
            body = self._facts.standing(LOSS, workload)
            was = None if body is None else msgspec.json.decode(body, type=LossFact)
            if was is None or was.cause != loss.cause:
                continue
            if abs(was.loss_gpus - loss.loss_gpus) <= STEADY_RATIO * was.loss_gpus:
                found[workload] = was
        return found

    def _steadied(self, told: dict[Key, str], at_ms: int) -> dict[Key, str]:
        """Leave a waiting job's reason as it was for a while: it counts GPUs and changes with every one of them."""
        for kind, name in [key for key in told if key[0] == JOB]:
            body, was = told[kind, name], self._facts.standing(kind, name)
            if was is None or was == body:
                continue
            new, old = (msgspec.json.decode(one, type=JobFact) for one in (body, was))
            is_same = msgspec.structs.replace(new, why="") == msgspec.structs.replace(old, why="")
            if is_same and at_ms - self._why_at_ms.get(name, 0) < WHY_MS:
                told[kind, name] = was
            else:
                self._why_at_ms[name] = at_ms
        return told


def _slots_of(spans: list[Span]) -> set[int]:
    return {span.slot for span in spans}
