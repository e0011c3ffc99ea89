"""Other people's alerts, our maintenance windows, and the alerts that we pushed: kept over any number of restarts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import unix_ms
from trimtab.model.alerts import AlertState, ForeignAlert, Maintenance, PushedAlert
from trimtab.model.command import AuditLine
from trimtab.store.facts import Facts
from trimtab.store.standing import write_lines
from trimtab.store.tables_alerts import foreign_alerts, maintenance, pushed_alerts
from trimtab.store.text import clean, from_json, to_json

CROWD = 10
"""So many times what may fire at once is kept in all, those over included."""


class AlertFacts(Facts):
    """What Alertmanager and one cluster's daemon tell each other."""

    # --- other people's alerts

    def hear_alerts(self, alerts: Sequence[ForeignAlert], *, most: int) -> Mapping[str, int]:
        """Keep what a webhook told, in one transaction; how many were opened, resolved, repeated, late or left_out.

        What is resolved stays so: an old firing that is delivered once more does not bring it back. More than `most`
        that fire at once are left out, and so are ends of what was never heard of, where very many are kept already.
        """
        counts: Counter[str] = Counter()
        with self._database.write() as connection:
            firing = self._count(connection, foreign_alerts.c.state == AlertState.FIRING.value)
            is_crowded = self._count(connection) >= CROWD * most
            for alert in alerts:
                was = self._known(connection, alert)
                outcome = _outcome(alert, was, is_full=firing >= most, is_crowded=is_crowded)
                counts[outcome] += 1
                firing += outcome == "opened"
                if outcome in ("opened", "resolved", "repeated"):
                    self._keep_alert(connection, alert)
                if outcome in ("opened", "resolved"):
                    firing -= self._end_older(connection, alert)
        return counts

    def firing_alerts(self, limit: int = 5000) -> tuple[ForeignAlert, ...]:
        """Those that stand, the newest first."""
        return self._alerts(foreign_alerts.c.state == AlertState.FIRING.value, limit=limit)

    def alerts_since(self, since: datetime, limit: int = 1000) -> tuple[ForeignAlert, ...]:
        """Those heard of at `since` or later, whatever their state, the newest first."""
        return self._alerts(foreign_alerts.c.heard_at_ms >= unix_ms(since), limit=limit)

    def age_alerts(self, *, not_heard_since: datetime, forget_before: datetime) -> int:
        """Let alerts end that nobody repeated since then, and forget those over for long; how many ended."""
        mine = foreign_alerts.c.cluster == self.cluster
        is_firing = foreign_alerts.c.state == AlertState.FIRING.value
        with self._database.write() as connection:
            old = sa.select(foreign_alerts.c.body).where(
                mine, is_firing, foreign_alerts.c.heard_at_ms < unix_ms(not_heard_since)
            )
            aged = [from_json(body, ForeignAlert) for body in connection.execute(old).scalars()]
            for alert in aged:
                self._keep_alert(connection, replace(alert, state=AlertState.AGED))
            gone = sa.delete(foreign_alerts).where(
                mine, sa.not_(is_firing), foreign_alerts.c.heard_at_ms < unix_ms(forget_before)
            )
            connection.execute(gone)
        return len(aged)

    def _end_older(self, connection: Connection, alert: ForeignAlert) -> int:
        """End what stands of the same label set from before: it fires once at a time; how many ended."""
        wanted = (
            foreign_alerts.c.cluster == self.cluster,
            foreign_alerts.c.fingerprint == clean(alert.fingerprint),
            foreign_alerts.c.starts_at_ms < unix_ms(alert.starts_at),
            foreign_alerts.c.state == AlertState.FIRING.value,
        )
        bodies = connection.execute(sa.select(foreign_alerts.c.body).where(*wanted)).scalars().all()
        for body in bodies:
            self._keep_alert(connection, replace(from_json(body, ForeignAlert), state=AlertState.RESOLVED))
        return len(bodies)

    def _count(self, connection: Connection, *wanted: sa.ColumnElement[bool]) -> int:
        rows = sa.select(sa.func.count()).where(foreign_alerts.c.cluster == self.cluster, *wanted)
        return int(connection.execute(rows).scalar_one())

    def _known(self, connection: Connection, alert: ForeignAlert) -> ForeignAlert | None:
        wanted = (
            foreign_alerts.c.cluster == self.cluster,
            foreign_alerts.c.fingerprint == clean(alert.fingerprint),
            foreign_alerts.c.starts_at_ms == unix_ms(alert.starts_at),
        )
        body = connection.execute(sa.select(foreign_alerts.c.body).where(*wanted)).scalar_one_or_none()
        return None if body is None else from_json(body, ForeignAlert)

    def _keep_alert(self, connection: Connection, alert: ForeignAlert) -> None:
        upsert = self._database.insert(foreign_alerts)
        row = _alert_row(self.cluster, alert)
        key = [foreign_alerts.c.cluster, foreign_alerts.c.fingerprint, foreign_alerts.c.starts_at_ms]
        names = {column.name for column in key}
        replaced = {name: upsert.excluded[name] for name in row if name not in names}
        connection.execute(upsert.on_conflict_do_update(index_elements=key, set_=replaced), row)

    def _alerts(self, *wanted: sa.ColumnElement[bool], limit: int) -> tuple[ForeignAlert, ...]:
        statement = sa.select(foreign_alerts.c.body).where(foreign_alerts.c.cluster == self.cluster, *wanted)
        newest = statement.order_by(foreign_alerts.c.heard_at_ms.desc(), foreign_alerts.c.fingerprint).limit(limit)
        with self._database.read() as connection:
            bodies = connection.execute(newest).scalars().all()
        return tuple(from_json(body, ForeignAlert) for body in bodies)

    # --- maintenance windows

    def maintenance_windows(self, since: datetime) -> tuple[Maintenance, ...]:
        """Windows that end at `since` or later, or of which Alertmanager still has a silence; oldest first."""
        wanted = sa.or_(maintenance.c.until_ms >= unix_ms(since), maintenance.c.silence_id != "")
        statement = sa.select(maintenance.c.body).where(maintenance.c.cluster == self.cluster, wanted)
        with self._database.read() as connection:
            bodies = connection.execute(statement.order_by(maintenance.c.id)).scalars().all()
        return tuple(from_json(body, Maintenance) for body in bodies)

    def maintenance_window(self, window_id: int) -> Maintenance | None:
        """One window by id, or None."""
        wanted = (maintenance.c.cluster == self.cluster, maintenance.c.id == window_id)
        with self._database.read() as connection:
            body = connection.execute(sa.select(maintenance.c.body).where(*wanted)).scalar_one_or_none()
        return None if body is None else from_json(body, Maintenance)

    def add_maintenance(self, window: Maintenance, *, what: str, at: datetime) -> Maintenance:
        """A new window with an id that none has had, and its audit line."""
        with self._database.write() as connection:
            highest = sa.select(sa.func.max(maintenance.c.id)).where(maintenance.c.cluster == self.cluster)
            number = (connection.execute(highest).scalar_one_or_none() or 0) + 1
            made = replace(window, id=number)
            connection.execute(self._database.insert(maintenance), _window_row(self.cluster, made))
            line = AuditLine(at=at, who=window.who, what=f"{made.title} {what}", why=window.why)
            write_lines(connection, self.cluster, [line])
        return made

    def change_maintenance(self, window: Maintenance, *, line: AuditLine | None = None) -> None:
        """Keep a window as it is now, with the audit line of what changed it."""
        row = _window_row(self.cluster, window)
        mine = (maintenance.c.cluster == self.cluster, maintenance.c.id == window.id)
        with self._database.write() as connection:
            connection.execute(sa.update(maintenance).where(*mine).values(row))
            if line is not None:
                write_lines(connection, self.cluster, [line])

    # --- what we pushed

    def pushed_alerts(self) -> tuple[PushedAlert, ...]:
        """All that were pushed and are not forgotten, open ones and those over."""
        statement = sa.select(pushed_alerts.c.body).where(pushed_alerts.c.cluster == self.cluster)
        with self._database.read() as connection:
            bodies = connection.execute(statement.order_by(pushed_alerts.c.incident)).scalars().all()
        return tuple(from_json(body, PushedAlert) for body in bodies)

    def keep_pushed(self, alerts: Sequence[PushedAlert], forgotten: Sequence[PushedAlert]) -> None:
        """Write these down, each in the place of the one with its labels, and forget those; one transaction."""
        rows = [_pushed_row(self.cluster, alert) for alert in alerts]
        upsert = self._database.insert(pushed_alerts)
        key = [pushed_alerts.c.cluster, pushed_alerts.c.labels_sha256]
        with self._database.write() as connection:
            if forgotten:
                hashes = [_labels_hash(alert) for alert in forgotten]
                mine = pushed_alerts.c.cluster == self.cluster
                connection.execute(sa.delete(pushed_alerts).where(mine, pushed_alerts.c.labels_sha256.in_(hashes)))
            if rows:
                replaced = {name: upsert.excluded[name] for name in rows[0] if name not in ("cluster", "labels_sha256")}
                connection.execute(upsert.on_conflict_do_update(index_elements=key, set_=replaced), rows)


def _outcome(alert: ForeignAlert, was: ForeignAlert | None, *, is_full: bool, is_crowded: bool) -> str:
    is_over = alert.state is not AlertState.FIRING
    if was is not None and was.state is AlertState.RESOLVED:
        return "repeated_end" if is_over else "late"
    if is_over:
        return "left_out" if was is None and is_crowded else "resolved"
    if was is not None and was.state is AlertState.FIRING:
        return "repeated"
    return "left_out" if is_full else "opened"


def _alert_row(cluster: str, alert: ForeignAlert) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "fingerprint": clean(alert.fingerprint),
        "starts_at_ms": unix_ms(alert.starts_at),
        "state": alert.state.value,
        "name": clean(alert.name),
        "node": clean(alert.place.node),
        "gpu": clean(alert.place.gpu),
        "pod": clean(alert.place.pod),
        "workload": clean(alert.place.workload),
        "source": clean(alert.source),
        "heard_at_ms": unix_ms(alert.heard_at),
        "ends_at_ms": None if alert.ends_at is None else unix_ms(alert.ends_at),
        "body": to_json(alert),
    }


def _window_row(cluster: str, window: Maintenance) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "id": window.id,
        "scope": window.scope.value,
        "name": clean(window.name),
        "starts_at_ms": unix_ms(window.starts_at),
        "until_ms": unix_ms(window.until),
        "ended_at_ms": None if window.ended_at is None else unix_ms(window.ended_at),
        "who": clean(window.who),
        "why": clean(window.why),
        "silence_id": window.silence_id,
        "body": to_json(window),
    }


def _labels_hash(alert: PushedAlert) -> str:
    return hashlib.sha256(to_json(alert.key).encode()).hexdigest()


def _pushed_row(cluster: str, alert: PushedAlert) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "labels_sha256": _labels_hash(alert),
        "incident": alert.incident,
        "starts_at_ms": unix_ms(alert.starts_at),
        "resolved_at_ms": None if alert.resolved_at is None else unix_ms(alert.resolved_at),
        "body": to_json(alert),
    }
