"""Commands, their outcomes and the audit: what `issue` needs to remember (its `Ledger`, satisfied by shape)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import from_unix_ms, iso, unix_ms
from trimtab.errors import LedgerConflict
from trimtab.model.command import AuditLine, Command, CommandState, Outcome, Recommendation
from trimtab.store.standing import StandingFacts, write_lines
from trimtab.store.tables import audit, commands, meta, outcomes, switches
from trimtab.store.text import clean, from_json, to_json

PRODUCT = "trimtab"
_PAUSED = "paused"


class CommandFacts(StandingFacts):
    """The commands of one cluster: one transaction a method, committed on return."""

    def commands(self, *, live_only: bool, since: datetime | None = None) -> tuple[Command, ...]:
        """Live commands in id order; unless `live_only`, also those over that changed at or after `since`."""
        wanted = [commands.c.cluster == self.cluster]
        if live_only:
            wanted.append(commands.c.is_live)
        elif since is not None:
            wanted.append(sa.or_(commands.c.is_live, commands.c.changed_at_ms >= unix_ms(since)))
        statement = sa.select(commands.c.body).where(*wanted).order_by(commands.c.id)
        with self._database.read() as connection:
            bodies = connection.execute(statement).scalars().all()
        return tuple(from_json(body, Command) for body in bodies)

    def holding(self) -> tuple[Command, ...]:
        """Commands that are over and keep nodes out, however long ago, in id order."""
        wanted = (commands.c.cluster == self.cluster, commands.c.is_holding)
        with self._database.read() as connection:
            statement = sa.select(commands.c.body).where(*wanted).order_by(commands.c.id)
            bodies = connection.execute(statement).scalars().all()
        return tuple(from_json(body, Command) for body in bodies)

    def command(self, command_id: int) -> Command | None:
        """One command by id, or None."""
        statement = sa.select(commands.c.body).where(*self._is(command_id))
        with self._database.read() as connection:
            body = connection.execute(statement).scalar_one_or_none()
        return None if body is None else from_json(body, Command)

    def add(self, recommendation: Recommendation, at: datetime) -> Command:
        """A new command in state proposed, with an id that the cluster never used before, and its audit line."""
        highest = sa.select(sa.func.max(commands.c.id)).where(commands.c.cluster == self.cluster)
        floor = sa.select(meta.c.value).where(meta.c.key == command_floor_key(self.cluster))
        ledger = self.ledger
        with self._database.write() as connection:
            least = int(connection.execute(floor).scalar_one_or_none() or 0)
            command = Command(
                id=max(connection.execute(highest).scalar_one_or_none() or 0, least) + 1,
                recommendation=recommendation,
                state=CommandState.PROPOSED,
                changed_at=at,
                ledger=ledger,
            )
            connection.execute(sa.insert(commands), _command_row(self.cluster, command))
            what = f"{command.name} {command.state}"
            write_lines(
                connection, self.cluster, [_line(command, who=PRODUCT, what=what, why=recommendation.sentence, at=at)]
            )
        return command

    def record(self, command: Command, *, was: Command, who: str, why: str, at: datetime) -> None:
        """Write a command's new value and its audit line, if it still is what `was` says; else LedgerConflict."""
        unchanged = (
            *self._is(command.id),
            commands.c.state == was.state.value,
            commands.c.changed_at_ms == unix_ms(was.changed_at),
            commands.c.undo_requested_by.is_not_distinct_from(clean(was.undo_requested_by)),
            commands.c.snoozed_until_ms.is_not_distinct_from(_ms(was.snoozed_until)),
        )
        moved = f"{was.state} → {command.state}" if was.state is not command.state else str(command.state)
        with self._database.write() as connection:
            if (
                connection.execute(sa.update(commands).where(*unchanged), _command_row(self.cluster, command)).rowcount
                != 1
            ):
                raise LedgerConflict(self._conflict(connection, command, was))
            write_lines(
                connection, self.cluster, [_line(command, who=who, what=f"{command.name} {moved}", why=why, at=at)]
            )

    def record_outcome(self, outcome: Outcome) -> None:
        """Keep what came of a command; a second outcome of the same command replaces the first."""
        rule = sa.select(commands.c.rule).where(*self._is(outcome.command_id))
        upsert = self._database.insert(outcomes)
        with self._database.write() as connection:
            row = _outcome_row(self.cluster, outcome, connection.execute(rule).scalar_one_or_none() or "")
            replaced = {name: upsert.excluded[name] for name in row if name not in ("cluster", "command_id")}
            key = [outcomes.c.cluster, outcomes.c.command_id]
            connection.execute(upsert.on_conflict_do_update(index_elements=key, set_=replaced), row)

    def outcomes(self, rule: str) -> tuple[Outcome, ...]:
        """Outcomes of the commands that a rule made, oldest first."""
        wanted = (outcomes.c.cluster == self.cluster, outcomes.c.rule == rule)
        return self._outcomes(*wanted)

    def outcome(self, command_id: int) -> Outcome | None:
        """What came of one command, or None while it is not known."""
        found = self._outcomes(outcomes.c.cluster == self.cluster, outcomes.c.command_id == command_id)
        return found[0] if found else None

    def is_paused(self) -> bool:
        """Whether new commands are stopped; survives a restart."""
        statement = sa.select(switches.c.is_on).where(switches.c.cluster == self.cluster, switches.c.name == _PAUSED)
        with self._database.read() as connection:
            return bool(connection.execute(statement).scalar_one_or_none())

    def paused_by(self) -> AuditLine | None:
        """Who paused and why, while new commands are stopped by a person; else None."""
        is_it = (switches.c.cluster == self.cluster, switches.c.name == _PAUSED, switches.c.is_on)
        said = sa.select(audit.c.at_ms, audit.c.who, audit.c.what, audit.c.why).join(
            switches, sa.and_(audit.c.cluster == switches.c.cluster, audit.c.at_ms == switches.c.changed_at_ms)
        )
        statement = said.where(*is_it, audit.c.what == _PAUSED).order_by(audit.c.id.desc()).limit(1)
        with self._database.read() as connection:
            row = connection.execute(statement).one_or_none()
        return None if row is None else AuditLine(at=from_unix_ms(row.at_ms), who=row.who, what=row.what, why=row.why)

    def set_paused(self, *, is_paused: bool, who: str, why: str, at: datetime) -> None:
        """Stop or allow new commands, with its audit line."""
        row = {
            "cluster": self.cluster,
            "name": _PAUSED,
            "is_on": is_paused,
            "changed_at_ms": unix_ms(at),
        }
        upsert = self._database.insert(switches)
        set_ = {name: upsert.excluded[name] for name in ("is_on", "changed_at_ms")}
        key = [switches.c.cluster, switches.c.name]
        with self._database.write() as connection:
            connection.execute(upsert.on_conflict_do_update(index_elements=key, set_=set_), row)
            what = "paused" if is_paused else "resumed"
            write_lines(connection, self.cluster, [AuditLine(at=at, who=who, what=what, why=why)])

    def _is(self, command_id: int) -> tuple[sa.ColumnElement[bool], ...]:
        return commands.c.cluster == self.cluster, commands.c.id == command_id

    def _outcomes(self, *wanted: sa.ColumnElement[bool]) -> tuple[Outcome, ...]:
        order = (outcomes.c.measured_at_ms, outcomes.c.command_id)
        with self._database.read() as connection:
            bodies = connection.execute(sa.select(outcomes.c.body).where(*wanted).order_by(*order)).scalars().all()
        return tuple(from_json(body, Outcome) for body in bodies)

    def _conflict(self, connection: Connection, command: Command, was: Command) -> str:
        row = connection.execute(
            sa.select(commands.c.state, commands.c.changed_at_ms).where(*self._is(command.id))
        ).one_or_none()
        if row is None:
            return f"{command.name} is not in the database, so it cannot become {command.state}."
        return (
            f"{command.name} changed meanwhile: it is {row.state} since {iso(from_unix_ms(row.changed_at_ms))} and was "
            f"read as {was.state}. Look at it again."
        )


def command_floor_key(cluster: str) -> str:
    """Where it is kept up to which id commands are taken, in this database or in one that it was restored over."""
    return f"command_floor:{cluster}"


def _command_row(cluster: str, command: Command) -> dict[str, Any]:
    advice = command.recommendation
    return {
        "cluster": cluster,
        "id": command.id,
        "rule": advice.rule,
        "kind": advice.kind.value,
        "purpose": clean(advice.purpose),
        "state": command.state.value,
        "is_live": command.is_live,
        "node": clean(advice.subject.node),
        "workload": clean(advice.subject.workload),
        "sentence": clean(advice.sentence),
        "fingerprint": advice.fingerprint,
        "created_at_ms": unix_ms(advice.created_at),
        "expires_at_ms": unix_ms(advice.expires_at),
        "changed_at_ms": unix_ms(command.changed_at),
        "snoozed_until_ms": _ms(command.snoozed_until),
        "approved_by": clean(command.approved_by),
        "undo_requested_by": clean(command.undo_requested_by),
        "reason": clean(command.reason),
        "body": to_json(command),
        "is_holding": command.is_holding,
    }


def _outcome_row(cluster: str, outcome: Outcome, rule: str) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "command_id": outcome.command_id,
        "rule": rule,
        "measured_at_ms": unix_ms(outcome.measured_at),
        "is_good": outcome.is_good,
        "gpu_hours_lost": outcome.gpu_hours_lost,
        "gpu_hours_saved": outcome.gpu_hours_saved,
        "gpus_unlocked": outcome.gpus_unlocked,
        "seconds_to_settle": outcome.seconds_to_settle,
        "sentence": clean(outcome.sentence),
        "body": to_json(outcome),
    }


def _line(command: Command, *, who: str, what: str, why: str, at: datetime) -> AuditLine:
    findings = command.recommendation.findings
    return AuditLine(
        at=at, who=who, what=what, why=why, command_id=command.id, finding_id=findings[0] if findings else None
    )


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else unix_ms(moment)
