"""The history of one cluster: findings, commands, audit, events and charts, in one value for the roots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from trimtab.clock import unix_ms
from trimtab.model.board import GpuHistory
from trimtab.model.reading import Event
from trimtab.model.window import NodeEvent
from trimtab.store.alerts import AlertFacts
from trimtab.store.commands import CommandFacts
from trimtab.store.findings import FindingFacts
from trimtab.store.incidents import IncidentFacts
from trimtab.store.notes import NoteFacts
from trimtab.store.outbox import OutboxFacts
from trimtab.store.people import PeopleFacts
from trimtab.store.series import gpu_series
from trimtab.store.tables import events
from trimtab.store.text import from_json


class History(AlertFacts, FindingFacts, CommandFacts, IncidentFacts, NoteFacts, OutboxFacts, PeopleFacts):
    """Everything that is remembered of one cluster, but for the journal itself. Safe to call from several threads."""

    def events(self, since: datetime, node: str | None = None, limit: int = 10_000) -> tuple[NodeEvent, ...]:
        """Events at or after `since`, of one node or of all, oldest first; of more than `limit`, the latest."""
        wanted = [events.c.cluster == self.cluster, events.c.at_ms >= unix_ms(since)]
        if node is not None:
            wanted.append(events.c.node == node)
        columns = sa.select(events.c.node, events.c.is_history_only, events.c.body).where(*wanted)
        with self._database.read() as connection:
            rows = connection.execute(columns.order_by(events.c.at_ms.desc(), events.c.id.desc()).limit(limit)).all()
        return tuple(
            NodeEvent(
                cluster=self.cluster,
                node=row.node,
                event=from_json(row.body, Event),
                is_history_only=row.is_history_only,
            )
            for row in reversed(rows)
        )

    def gpu_history(
        self, cluster: str, node: str, gpu: str, *, since: datetime, until: datetime, metrics: Sequence[str]
    ) -> GpuHistory:
        """One GPU's metrics (sample keys) between two moments, at most 600 points each, and the findings about it."""
        series = gpu_series(
            self._database, cluster=cluster, node=node, gpu=gpu, since=since, until=until, metrics=metrics
        )
        return GpuHistory(
            cluster=cluster,
            node=node,
            gpu=gpu,
            series=series,
            findings=self.findings_of_gpu(node, gpu, since, until),
        )
