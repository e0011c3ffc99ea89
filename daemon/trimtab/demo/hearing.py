"""What reached the demo's on-call end, as lines: each page with the time from fault to page, each alert once."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.demo.pager import Alerts, Arrived
from trimtab.demo.stories import Story
from trimtab.demo.telling import Narrator
from trimtab.show.oncall.webhook_body import WebhookBody

DEAD_MAN = "TrimtabAlwaysFiring"
_WORDS = {
    "incident.opened": "paged",
    "incident.updated": "paged",
    "incident.acknowledged": "taken",
    "incident.resolved": "closed",
    "note": "told",
}


class Hearing:
    """Tells what arrived, and notes in each story when it paged."""

    def __init__(self, stories: Sequence[Story], narrator: Narrator) -> None:
        """Nothing was heard yet."""
        self._stories, self._narrator = stories, narrator
        self._alerts: dict[str, str] = {}
        self._is_chain_told = False

    def hear(self, arrived: Arrived, *, ready_at_seconds: float) -> None:
        """One delivery; times are counted from when the demo was ready."""
        wall_seconds = max(0.0, arrived.wall_seconds - ready_at_seconds)
        if isinstance(arrived.said, Alerts):
            self._alert(arrived.said, wall_seconds)
        else:
            self._page(arrived.said, wall_seconds)

    def _page(self, said: WebhookBody, wall_seconds: float) -> None:
        data = said.data
        if said.type == "incident.updated" and not data.is_loud:
            return  # it wakes nobody
        after = ""
        for story in self._stories:
            since = story.see_page(data.subject, data.facts.get("finding", ""), wall_seconds=wall_seconds)
            if since is not None and not data.is_drill:
                after = f"  ({since:.1f} s after the fault)"
                if said.type == "incident.opened":
                    story.paged(since)
                break
        self._narrator.line(
            wall_seconds, _WORDS[said.type], f"{data.facts.get('incident', '')}  {data.first_line}{after}"
        )

    def _alert(self, said: Alerts, wall_seconds: float) -> None:
        """What changed; Alertmanager repeats a whole group when one of it does."""
        for alert in said.alerts:
            name = alert.labels.get("alertname", "an alert without a name")
            if name == DEAD_MAN:
                self._chain(wall_seconds)
                continue
            labels = " ".join(f"{key}={value}" for key, value in sorted(alert.labels.items()))
            if self._alerts.get(labels) == alert.status:
                continue
            self._alerts[labels] = alert.status
            is_over = alert.status == "resolved"
            summary = alert.annotations.get("summary", labels)
            self._narrator.line(
                wall_seconds, "alert", f"{'over: ' if is_over else ''}{name}  {summary}  (by Alertmanager)"
            )

    def _chain(self, wall_seconds: float) -> None:
        if not self._is_chain_told:
            self._is_chain_told = True
            self._narrator.line(
                wall_seconds, "alert", f"{DEAD_MAN} arrived: the way from Prometheus through Alertmanager is open."
            )
