"""The body of our own webhooks, as types: the schema that is published is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from trimtab.clock import iso
from trimtab.model.oncall import Message, Verb
from trimtab.show.oncall import text

Kind = Literal["incident.opened", "incident.updated", "incident.acknowledged", "incident.resolved", "note"]
Moment = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", description="UTC, ISO 8601")]

KINDS: dict[Verb, Kind] = {
    Verb.OPEN: "incident.opened",
    Verb.UPDATE: "incident.updated",
    Verb.ACKNOWLEDGE: "incident.acknowledged",
    Verb.RESOLVE: "incident.resolved",
    Verb.NOTE: "note",
}


class WebhookSubject(Struct, frozen=True, kw_only=True):
    """What it is about; the narrowest that is known."""

    cluster: str
    node: str | None = None
    gpu: Annotated[str | None, Meta(description="UUID")] = None
    workload: str | None = None
    queue: str | None = None


class WebhookData(Struct, frozen=True, kw_only=True):
    """One thing said about one incident."""

    key: Annotated[str, Meta(max_length=255, description="The incident: equal from opening to end, never used again.")]
    sequence: Annotated[int, Meta(ge=1, description="Place among the messages of its incident. Drop what is older.")]
    severity: Literal["info", "warning", "critical"]
    first_line: Annotated[str, Meta(description="Stands alone on a lock screen.")]
    title: Annotated[str, Meta(description="The first line at opening.")]
    lines: Annotated[list[str], Meta(description="Plain text, the most important first; cut where it was too long.")]
    rule: Annotated[str, Meta(description="The finding's rule, or the command's kind.")]
    subject: WebhookSubject
    opened_at: Moment
    link: Annotated[str, Meta(description="Where to see and approve; carries no token. May be empty.")] = ""
    runbook: str = ""
    queue: str = ""
    owner: str = ""
    who: Annotated[str, Meta(description="Who acknowledged or closed it.")] = ""
    locale: str = "en"
    facts: dict[str, str] = {}
    is_loud: Annotated[bool, Meta(description="An update that is to sound again.")] = False
    is_drill: Annotated[bool, Meta(description="Nothing is broken: somebody tries the alarm.")] = False


class WebhookBody(Struct, frozen=True, kw_only=True):
    """A message of trimtab, by Standard Webhooks. Unknown fields may come with later versions."""

    type: Kind
    timestamp: Annotated[Moment, Meta(description="When what it says happened; the header has when it was sent.")]
    data: WebhookData


def body_of(message: Message, lines: list[str]) -> WebhookBody:
    """The body for a message, with as many lines as there is room for."""
    subject = message.subject
    return WebhookBody(
        type=KINDS[message.verb],
        timestamp=iso(message.at),
        data=WebhookData(
            key=message.key,
            sequence=message.sequence,
            severity=message.severity.value,
            first_line=text.headline(message),
            title=text.title(message),
            lines=lines,
            rule=message.rule,
            subject=WebhookSubject(
                cluster=subject.cluster,
                node=subject.node,
                gpu=subject.gpu,
                workload=subject.workload,
                queue=subject.queue,
            ),
            opened_at=iso(message.opened_at),
            link=message.link,
            runbook=message.runbook,
            queue=message.queue,
            owner=message.owner,
            who=message.who,
            locale=message.locale,
            facts=dict(message.facts),
            is_loud=message.is_loud,
            is_drill=message.is_drill,
        ),
    )


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the body."""
    made = msgspec.json.schema(WebhookBody)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "trimtab on-call webhook", **made}
