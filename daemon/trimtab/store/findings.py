"""Findings and how they changed: kept whole, by any number of restarts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa

from trimtab.clock import unix_ms
from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.outbox import Posting
from trimtab.store.facts import Facts
from trimtab.store.postings import write_postings
from trimtab.store.tables import finding_changes, findings
from trimtab.store.text import clean, from_json, to_json


class FindingChanges(Protocol):
    """What a judgement changed, as the tracker of `detect` says it."""

    @property
    def at(self) -> datetime:
        """The moment of the judgement."""
        ...

    @property
    def opened(self) -> Sequence[OpenFinding]:
        """Findings that are new."""
        ...

    @property
    def changed(self) -> Sequence[OpenFinding]:
        """Findings that stand and say something else now."""
        ...

    @property
    def closed(self) -> Sequence[OpenFinding]:
        """Findings that ended."""
        ...

    @property
    def touched(self) -> Sequence[OpenFinding]:
        """Findings to be kept as they are now, without a line of their change."""
        ...


class FindingFacts(Facts):
    """The findings of one cluster."""

    def open_findings(self) -> tuple[OpenFinding, ...]:
        """All that stand, oldest first: what a tracker starts from."""
        return self._select(findings.c.state == FindingState.OPEN.value)[::-1]

    def next_finding_id(self) -> int:
        """The first id that no finding of the cluster has had."""
        highest = sa.select(sa.func.max(findings.c.id)).where(findings.c.cluster == self.cluster)
        with self._database.read() as connection:
            return (connection.execute(highest).scalar_one_or_none() or 0) + 1

    def record_findings(self, changes: FindingChanges, messages: Sequence[Posting] = ()) -> None:
        """Keep what a judgement changed and what on-call is told of it, in one transaction.

        The same changes again alter nothing.
        """
        told = (("opened", changes.opened), ("changed", changes.changed), ("closed", changes.closed))
        kept = (*changes.opened, *changes.changed, *changes.closed, *changes.touched)
        rows = [_finding_row(self.cluster, finding) for finding in kept]
        if not rows and not messages:
            return
        lines = [_change_row(self.cluster, change, finding, changes.at) for change, group in told for finding in group]
        with self._database.write() as connection:
            if rows:
                upsert = self._database.insert(findings)
                updated = {name: upsert.excluded[name] for name in rows[0] if name not in ("cluster", "id")}
                key = [findings.c.cluster, findings.c.id]
                connection.execute(upsert.on_conflict_do_update(index_elements=key, set_=updated), rows)
            if lines:
                connection.execute(self._database.insert(finding_changes).on_conflict_do_nothing(), lines)
            write_postings(self._database, connection, self.cluster, messages)

    def finding(self, finding_id: int) -> OpenFinding | None:
        """One finding by id, or None."""
        found = self._select(findings.c.id == finding_id)
        return found[0] if found else None

    def findings(
        self, state: FindingState | None = None, since: datetime | None = None, limit: int = 1000
    ) -> tuple[OpenFinding, ...]:
        """Findings of a state (None = any) that stood at `since` or later, newest first, at most `limit`."""
        wanted = [] if state is None else [findings.c.state == FindingState(state).value]
        return self._select(*wanted, *_stood_since(since), limit=limit)

    def findings_of_gpu(self, node: str, gpu: str, since: datetime, until: datetime) -> tuple[OpenFinding, ...]:
        """Findings about a GPU, or its node as a whole, that stood between two moments, newest first."""
        return self._select(
            findings.c.node == node,
            sa.or_(findings.c.gpu == gpu, findings.c.gpu.is_(None)),
            findings.c.opened_at_ms <= unix_ms(until),
            *_stood_since(since),
        )

    def _select(self, *wanted: sa.ColumnElement[bool], limit: int | None = None) -> tuple[OpenFinding, ...]:
        statement = sa.select(findings.c.body).where(findings.c.cluster == self.cluster, *wanted)
        with self._database.read() as connection:
            bodies = connection.execute(statement.order_by(findings.c.id.desc()).limit(limit)).scalars().all()
        return tuple(from_json(body, OpenFinding) for body in bodies)


def _finding_row(cluster: str, found: OpenFinding) -> dict[str, Any]:
    finding = found.finding
    return {
        "cluster": cluster,
        "id": found.id,
        "rule": finding.rule,
        "incident": clean(finding.incident),
        "state": found.state.value,
        "action": finding.action.value,
        "severity": finding.severity.value,
        "node": clean(finding.subject.node),
        "gpu": clean(finding.subject.gpu),
        "workload": clean(finding.subject.workload),
        "queue": clean(finding.subject.queue),
        "sentence": clean(finding.sentence),
        "gpus_hit": finding.gpus_hit,
        "is_history_only": finding.is_history_only,
        "opened_at_ms": unix_ms(found.opened_at),
        "changed_at_ms": unix_ms(found.changed_at),
        "last_seen_at_ms": unix_ms(found.last_seen_at),
        "closed_at_ms": None if found.closed_at is None else unix_ms(found.closed_at),
        "close_reason": clean(found.close_reason),
        "body": to_json(found),
    }


def _change_row(cluster: str, change: str, found: OpenFinding, at: datetime) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "finding_id": found.id,
        "at_ms": unix_ms(at),
        "change": change,
        "action": found.finding.action.value,
        "severity": found.finding.severity.value,
        "sentence": clean(found.close_reason if change == "closed" and found.close_reason else found.finding.sentence),
    }


def _stood_since(since: datetime | None) -> Iterable[sa.ColumnElement[bool]]:
    if since is None:
        return ()
    return (sa.or_(findings.c.closed_at_ms.is_(None), findings.c.closed_at_ms >= unix_ms(since)),)
