"""The outbox: letters claimed by lease, sent outside any transaction, and finished by whoever holds them.

At least once, in order per target and incident, on SQLite and PostgreSQL, by any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from trimtab.clock import from_unix_ms, unix_ms
from trimtab.model.advice import Severity
from trimtab.model.command import AuditLine
from trimtab.model.oncall import Message, Thread, Verb
from trimtab.model.outbox import WAITING, Claimed, LetterState, OutboxCounts, OutboxRow
from trimtab.store.facts import Facts
from trimtab.store.postings import NUMBERS_PER_QUERY
from trimtab.store.standing import write_lines
from trimtab.store.tables_outbox import inbound_acts, incidents, outbox
from trimtab.store.text import clean, from_json, to_json

_WAITING = tuple(state.value for state in WAITING)


class OutboxFacts(Facts):
    """The outbox of one cluster. Each method is one short transaction; none of them sends anything."""

    def claim(self, target: str, *, owner: str, at: datetime, lease_seconds: float) -> Claimed | None:
        """Take the most urgent letter that is due, for so long; None where nothing is.

        A letter whose lease ran out may have been sent by whoever held it: it is marked as a repeat.
        """
        now_ms = unix_ms(at)
        row = outbox.alias("due")
        earlier = outbox.alias("earlier")
        is_blocked = sa.exists().where(
            earlier.c.cluster == row.c.cluster,
            earlier.c.target == row.c.target,
            earlier.c.incident == row.c.incident,
            earlier.c.sequence < row.c.sequence,
            earlier.c.state.in_(_WAITING),
        )
        is_due = sa.or_(
            sa.and_(row.c.state == LetterState.READY.value, row.c.not_before_ms <= now_ms),
            sa.and_(row.c.state == LetterState.LEASED.value, row.c.lease_until_ms <= now_ms),
        )
        first = (
            sa.select(row.c.id)
            .where(
                row.c.cluster == self.cluster, row.c.state.in_(_WAITING), row.c.target == target, is_due, ~is_blocked
            )
            # By attempts before age: one that an end refuses again and again must not keep all others waiting.
            .order_by(row.c.rank, row.c.attempts, row.c.id)
            .limit(1)
            .with_for_update(skip_locked=True, of=row)
            .scalar_subquery()
        )
        taken = (
            sa.update(outbox)
            .where(outbox.c.id == first)
            .values(
                state=LetterState.LEASED.value,
                owner=owner,
                lease_until_ms=unix_ms(at + timedelta(seconds=lease_seconds)),
                attempts=outbox.c.attempts + 1,
                is_unsure=sa.or_(outbox.c.is_unsure, outbox.c.state == LetterState.LEASED.value),
            )
            .returning(outbox)
        )
        with self._database.write() as connection:
            found = connection.execute(taken).one_or_none()
            if found is None:
                return None
            thread = connection.execute(self._thread(target, found.incident)).scalar_one_or_none()
        message = from_json(found.body, Message)
        return Claimed(
            id=found.id,
            owner=owner,
            target=target,
            message=replace(message, is_repeat=True) if found.is_unsure else message,
            thread=from_json(thread, Thread) if thread else None,
            attempts=found.attempts,
            created_at=from_unix_ms(found.created_at_ms),
        )

    def delivered(
        self, claimed: Claimed, *, at: datetime, remote_id: str = "", thread: Thread | None = None, remark: str = ""
    ) -> bool:
        """It arrived; False where the lease was lost meanwhile."""
        return self._finish(
            claimed,
            state=LetterState.DONE.value,
            remote_id=clean(remote_id),
            thread=to_json(thread) if thread is not None else None,
            remark=clean(remark),
            error="",
            done_at_ms=unix_ms(at),
        )

    def put_off(self, claimed: Claimed, *, until: datetime, error: str, is_unsure: bool) -> bool:
        """It did not arrive, or nobody knows (`is_unsure`); try again then. False where the lease was lost."""
        values: dict[str, Any] = {"not_before_ms": unix_ms(until), "error": clean(error)}
        if is_unsure:
            values["is_unsure"] = True
        return self._finish(claimed, state=LetterState.READY.value, **values)

    def died(self, claimed: Claimed, *, at: datetime, error: str) -> bool:
        """It will never be taken as it is. False where the lease was lost."""
        return self._finish(claimed, state=LetterState.DEAD.value, error=clean(error), done_at_ms=unix_ms(at))

    def hand_on(self, letter_id: int, target: str, *, at: datetime) -> bool:
        """Give a letter's news to another target as well, once; False where that was done before."""
        mine = (outbox.c.cluster == self.cluster, outbox.c.id == letter_id, outbox.c.handed_on_at_ms.is_(None))
        numbered = sa.select(outbox.c.incident).where(*mine).scalar_subquery()
        standing = sa.select(incidents.c.is_open).where(
            incidents.c.cluster == self.cluster, incidents.c.number == numbered
        )
        with self._database.write() as connection:
            # Locked: a close that is written now must either see the copy or keep it from being made.
            if not connection.execute(standing.with_for_update()).scalar_one_or_none():
                return False
            taken = sa.update(outbox).where(*mine).values(handed_on_at_ms=unix_ms(at)).returning(outbox)
            row = connection.execute(taken).one_or_none()
            if row is None:
                return False
            message = from_json(row.body, Message)
            copy = {
                **{name: getattr(row, name) for name in ("cluster", "incident", "sequence", "verb", "rank", "body")},
                "target": target,
                "idem": f"{target}/{message.id}",
                "state": LetterState.READY.value,
                "attempts": 0,
                "is_unsure": False,
                "created_at_ms": unix_ms(at),
                "not_before_ms": unix_ms(at),
                "error": "",
                "remark": f"handed on by {row.target}",
                "remote_id": "",
            }
            connection.execute(self._database.insert(outbox).on_conflict_do_nothing(), copy)
        return True

    def undelivered_pages(self, target: str, *, before: datetime) -> tuple[int, ...]:
        """Ids of openings of open incidents that have waited since before then or are dead, and were not handed on."""
        return self._pages(
            target,
            (),
            outbox.c.state.in_((*_WAITING, LetterState.DEAD.value)),
            sa.or_(outbox.c.state == LetterState.DEAD.value, outbox.c.created_at_ms <= unix_ms(before)),
        )

    def unacknowledged_pages(self, target: str, *, before: datetime) -> tuple[int, ...]:
        """Ids of openings delivered before then, of open critical incidents that nobody acknowledged."""
        return self._pages(
            target,
            (incidents.c.severity == Severity.CRITICAL.value, incidents.c.acknowledged_at_ms.is_(None)),
            outbox.c.state == LetterState.DONE.value,
            outbox.c.done_at_ms <= unix_ms(before),
        )

    def _pages(
        self, target: str, of: Sequence[sa.ColumnElement[bool]], *wanted: sa.ColumnElement[bool]
    ) -> tuple[int, ...]:
        """Openings, not handed on, of such open incidents: those are few, however many letters there were."""
        standing = sa.select(incidents.c.number).where(
            incidents.c.cluster == self.cluster, incidents.c.is_open == sa.true(), *of
        )
        opening = (
            outbox.c.cluster == self.cluster,
            outbox.c.target == target,
            outbox.c.verb == Verb.OPEN.value,
            outbox.c.handed_on_at_ms.is_(None),
        )
        found: list[int] = []
        with self._database.read() as connection:
            numbers = connection.execute(standing).scalars().all()
            for first in range(0, len(numbers), NUMBERS_PER_QUERY):
                about = outbox.c.incident.in_(numbers[first : first + NUMBERS_PER_QUERY])
                found += connection.execute(sa.select(outbox.c.id).where(about, *opening, *wanted)).scalars()
        return tuple(sorted(found))

    def free_leases(self, owner_prefix: str) -> int:
        """Let go of letters that an earlier process of ours held when it died: each may have been sent."""
        mine = (
            outbox.c.cluster == self.cluster,
            outbox.c.state == LetterState.LEASED.value,
            outbox.c.owner.startswith(owner_prefix, autoescape=True),
        )
        with self._database.write() as connection:
            values = {"state": LetterState.READY.value, "is_unsure": True, "lease_until_ms": None}
            return connection.execute(sa.update(outbox).where(*mine).values(values)).rowcount

    def bury_unknown(self, targets: Iterable[str], *, at: datetime) -> int:
        """Letters for targets that the settings no longer have are dead, where people see them; how many."""
        lost = (
            outbox.c.cluster == self.cluster,
            outbox.c.state.in_(_WAITING),
            outbox.c.target.not_in(list(targets)),
        )
        values = {"state": LetterState.DEAD.value, "done_at_ms": unix_ms(at), "error": "no such target in the settings"}
        with self._database.write() as connection:
            return connection.execute(sa.update(outbox).where(*lost).values(values)).rowcount

    def resend(self, letter_id: int, *, who: str, at: datetime) -> bool:
        """Try a dead letter again, with its audit line; False where it is not dead."""
        dead = (
            outbox.c.cluster == self.cluster,
            outbox.c.id == letter_id,
            outbox.c.state == LetterState.DEAD.value,
        )
        values = {"state": LetterState.READY.value, "not_before_ms": unix_ms(at), "created_at_ms": unix_ms(at)}
        with self._database.write() as connection:
            done = sa.update(outbox).where(*dead).values({**values, "done_at_ms": None}).returning(outbox.c.target)
            target = connection.execute(done).scalar_one_or_none()
            if target is None:
                return False
            line = AuditLine(at=at, who=who, what=f"letter {letter_id} sent again", why=f"it was dead at {target}")
            write_lines(connection, self.cluster, [line])
        return True

    def letters(
        self, *, states: Sequence[LetterState] | None = None, incident: int | None = None, limit: int = 1000
    ) -> tuple[OutboxRow, ...]:
        """Letters of these states (None = any), newest first."""
        wanted = [outbox.c.cluster == self.cluster]
        if states is not None:
            wanted.append(outbox.c.state.in_([state.value for state in states]))
        if incident is not None:
            wanted.append(outbox.c.incident == incident)
        with self._database.read() as connection:
            rows = connection.execute(sa.select(outbox).where(*wanted).order_by(outbox.c.id.desc()).limit(limit)).all()
        return tuple(_row(row) for row in rows)

    def outbox_counts(self) -> OutboxCounts:
        """Letters by target and state, the oldest that waits, and all attempts."""
        mine = outbox.c.cluster == self.cluster
        by = sa.select(
            outbox.c.target,
            outbox.c.state,
            sa.func.count().label("letters"),
            sa.func.min(outbox.c.created_at_ms).label("oldest_at_ms"),
        )
        with self._database.read() as connection:
            rows = connection.execute(by.where(mine).group_by(outbox.c.target, outbox.c.state)).all()
        oldest: dict[str, datetime] = {}
        for row in rows:
            if row.state in _WAITING:
                at = from_unix_ms(row.oldest_at_ms)
                oldest[row.target] = min(at, oldest.get(row.target, at))
        return OutboxCounts(
            letters={(row.target, LetterState(row.state)): row.letters for row in rows},
            oldest_waiting_at=oldest,
        )

    def prune_outbox(self, before: datetime) -> int:
        """Forget letters that were over before then, and acts; letters of open incidents stay. How many went."""
        open_numbers = sa.select(incidents.c.number).where(
            incidents.c.cluster == self.cluster, incidents.c.is_open.is_(True)
        )
        old = (
            outbox.c.cluster == self.cluster,
            outbox.c.state.not_in(_WAITING),
            outbox.c.created_at_ms < unix_ms(before),
            outbox.c.incident.not_in(open_numbers),
        )
        acts = (inbound_acts.c.cluster == self.cluster, inbound_acts.c.at_ms < unix_ms(before))
        with self._database.write() as connection:
            connection.execute(sa.delete(inbound_acts).where(*acts))
            return connection.execute(sa.delete(outbox).where(*old)).rowcount

    def _thread(self, target: str, incident: int) -> sa.Select[Any]:
        """The thread that the target keeps this incident in: the first that it told."""
        return (
            sa.select(outbox.c.thread)
            .where(
                outbox.c.cluster == self.cluster,
                outbox.c.target == target,
                outbox.c.incident == incident,
                outbox.c.thread.is_not(None),
            )
            .order_by(outbox.c.sequence)
            .limit(1)
        )

    def _finish(self, claimed: Claimed, **values: Any) -> bool:  # noqa: ANN401 - column values
        held = (
            outbox.c.id == claimed.id,
            outbox.c.owner == claimed.owner,
            outbox.c.attempts == claimed.attempts,
            outbox.c.state == LetterState.LEASED.value,
        )
        with self._database.write() as connection:
            done = sa.update(outbox).where(*held).values({**values, "lease_until_ms": None})
            return connection.execute(done).rowcount == 1


def _row(row: Any) -> OutboxRow:  # noqa: ANN401 - a row of SQLAlchemy
    message = from_json(row.body, Message)
    return OutboxRow(
        id=row.id,
        incident=row.incident,
        target=row.target,
        sequence=row.sequence,
        verb=Verb(row.verb),
        state=LetterState(row.state),
        attempts=row.attempts,
        created_at=from_unix_ms(row.created_at_ms),
        not_before=from_unix_ms(row.not_before_ms),
        first_line=message.first_line,
        is_drill=message.is_drill,
        is_unsure=row.is_unsure,
        error=row.error,
        remark=row.remark,
        remote_id=row.remote_id,
        done_at=None if row.done_at_ms is None else from_unix_ms(row.done_at_ms),
    )
