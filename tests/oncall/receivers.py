"""Pagers and webhooks as strict as the real ends: field rules, key states, queues, signatures."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema_rs
import standardwebhooks
from tests.oncall.server import Receiver, Refused, Reply, Request

PD_KEYS = {"routing_key", "event_action", "dedup_key", "payload", "images", "links", "client", "client_url"}
PD_PAYLOAD = {"summary", "source", "severity", "timestamp", "component", "group", "class", "custom_details"}


def must(holds: object, why: str) -> None:
    if not holds:
        raise ValueError(why)


def is_text(value: object, limit: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= limit


class PagerDutyReceiver(Receiver):
    """Events API v2. `alerts` is (routing key, key) -> state; `pages` counts what would have woken somebody."""

    def __init__(self, *routing_keys: str) -> None:
        super().__init__()
        self.routing_keys = routing_keys
        self.alerts: dict[tuple[str, str], str] = {}
        self.pages: Counter[str] = Counter()
        self.log: list[tuple[str, str, str]] = []
        """(action, key, summary), as taken: dropped ones are not in it."""
        self.changes: list[dict[str, Any]] = []

    def malformed(self, why: str) -> Reply:
        return Reply(
            status=400, body={"status": "invalid event", "message": "Event object is invalid", "errors": [why]}
        )

    def judge(self, request: Request) -> Reply:
        if len(request.body) > 512 * 1024:
            raise Refused(Reply(status=413, body=b"too large"))
        event = request.json()
        must(request.method == "POST", "method")
        must(len(event["routing_key"]) == 32 and event["routing_key"] in self.routing_keys, "routing_key is invalid")
        for link in event.get("links", []):
            must(
                set(link) <= {"href", "text"} and urlsplit(link["href"]).scheme in ("http", "https"), "link is invalid"
            )
        if request.path == "/v2/change/enqueue":
            return self._change(event)
        must(request.path == "/v2/enqueue", "path")
        return self._event(event)

    def _change(self, event: dict[str, Any]) -> Reply:
        must(set(event) <= {"routing_key", "payload", "links", "images"}, "unknown field")
        payload = event["payload"]
        must(set(payload) <= {"summary", "source", "timestamp", "custom_details"}, "unknown field of a change")
        must(is_text(payload["summary"], 1024), "summary")
        datetime.fromisoformat(payload["timestamp"])
        self.changes.append(event)
        return Reply(status=202, body={"status": "success", "message": "Change event processed"})

    def _event(self, event: dict[str, Any]) -> Reply:
        must(set(event) <= PD_KEYS, f"unknown field {set(event) - PD_KEYS}")
        action = event["event_action"]
        must(action in ("trigger", "acknowledge", "resolve"), "event_action")
        key = event.get("dedup_key") or ("" if action == "trigger" else event["dedup_key"])
        must(isinstance(key, str) and len(key) <= 255, "dedup_key is too long")
        if action == "trigger":
            key = key or uuid.uuid4().hex
            self._payload(event["payload"])
        self._step(action, event["routing_key"], key, event.get("payload", {}).get("summary", ""))
        return Reply(status=202, body={"status": "success", "message": "Event processed", "dedup_key": key})

    def _payload(self, payload: dict[str, Any]) -> None:
        must(set(payload) <= PD_PAYLOAD, f"unknown field {set(payload) - PD_PAYLOAD}")
        must(is_text(payload["summary"], 1024), "summary is longer than 1024 characters")
        must(isinstance(payload["source"], str) and payload["source"], "source")
        must(payload["severity"] in ("critical", "error", "warning", "info"), "severity")
        datetime.fromisoformat(payload["timestamp"])
        must(isinstance(payload.get("custom_details", {}), dict), "custom_details")
        for name in ("component", "group", "class"):
            must(isinstance(payload.get(name, ""), str), name)

    def _step(self, action: str, routing_key: str, key: str, summary: str) -> None:
        state = self.alerts.get((routing_key, key))
        is_open = state in ("triggered", "acknowledged")
        if action == "trigger":
            if not is_open:
                self.pages[key] += 1
            self.alerts[routing_key, key] = state if is_open and state else "triggered"
        elif not is_open:
            return  # dropped, with 202
        else:
            self.alerts[routing_key, key] = "acknowledged" if action == "acknowledge" else "resolved"
        self.log.append((action, key, summary))


class JsmReceiver(Receiver):
    """The integration API of JSM Operations: what is taken is queued, and done once it has been asked about
    `polls_until_done` times."""

    def __init__(self, api_key: str, *, polls_until_done: int = 0, tells_status: bool = True) -> None:
        super().__init__()
        self.api_key = api_key
        self.polls_until_done = polls_until_done
        self.tells_status = tells_status
        self.alerts: dict[str, dict[str, Any]] = {}
        """By alias, open or closed."""
        self.queue: dict[str, list[Any]] = {}
        """By request: polls left, what to do, result."""

    def malformed(self, why: str) -> Reply:
        return Reply(status=422, body={"message": "Request body is not processable.", "errors": {"body": why}})

    def judge(self, request: Request) -> Reply:
        if request.headers.get("authorization") != f"GenieKey {self.api_key}":
            raise Refused(Reply(status=401, body={"message": "Could not authenticate"}))
        parts = [unquote(part) for part in request.path.split("/")][1:]
        if request.method == "GET":
            return self._status(parts[-1])
        must(parts[-1] == "alerts" or parts[-3] == "alerts", "path")
        document = request.json()
        work: Callable[[], dict[str, Any]]
        if parts[-1] == "alerts":
            self._check(document)
            work = lambda: self._create(document)  # noqa: E731
        else:
            must(parts[-1] in ("acknowledge", "close", "notes"), "no such action")
            must(set(document) <= {"source", "user", "note"} and len(document.get("note", "")) <= 25_000, "note")
            identifier = parts[-2] if request.query.get("identifierType") == "alias" else ""
            work = lambda: self._act(parts[-1], identifier, document)  # noqa: E731
        number = str(uuid.uuid4())
        self.queue[number] = [self.polls_until_done, work]
        if not self.tells_status:
            work()
        return Reply(status=202, body={"result": "Request will be processed", "took": 0.1, "requestId": number})

    def _status(self, number: str) -> Reply:
        if not self.tells_status or number not in self.queue:
            raise Refused(Reply(status=404, body={"message": "Request not found"}))
        left, work = self.queue[number]
        if left > 0:
            self.queue[number][0] -= 1
            return Reply(status=404, body={"message": "Request not found. It might not be processed, yet."})
        del self.queue[number]
        return Reply(body={"data": work(), "took": 0.01, "requestId": number})

    def _check(self, document: dict[str, Any]) -> None:
        must(is_text(document["message"], 130), "message")
        must(is_text(document["alias"], 512), "alias")
        must(len(document.get("description", "")) <= 15_000, "description")
        must(document.get("priority", "P3") in ("P1", "P2", "P3", "P4", "P5"), "priority")
        must(len(document.get("entity", "")) <= 512 and len(document.get("source", "")) <= 100, "entity")
        tags = document.get("tags", [])
        must(len(tags) <= 20 and all(is_text(tag, 50) for tag in tags), "tags")
        details = document.get("details", {})
        must(all(isinstance(value, str) for value in details.values()), "details")
        must(sum(len(name) + len(value) for name, value in details.items()) <= 8_000, "details")

    def _create(self, document: dict[str, Any]) -> dict[str, Any]:
        known = self.alerts.get(document["alias"])
        if known and known["status"] != "closed":
            known["count"] += 1
            return self._done("Create", known)
        made = {"status": "open", "count": 1, "notes": [], "id": str(uuid.uuid4()), **document}
        self.alerts[document["alias"]] = made
        return self._done("Create", made)

    def _act(self, action: str, alias: str, document: dict[str, Any]) -> dict[str, Any]:
        alert = self.alerts.get(alias)
        if alert is None or (alert["status"] == "closed" and action != "notes"):
            return {"action": action, "isSuccess": False, "status": "Alert does not exist", "alertId": "", "alias": ""}
        if action == "notes":
            alert["notes"].append(document["note"])
        else:
            alert["status"] = "acked" if action == "acknowledge" else "closed"
        return self._done(action, alert)

    def _done(self, action: str, alert: dict[str, Any]) -> dict[str, Any]:
        return {"action": action, "isSuccess": True, "status": f"{action} done", "alertId": alert["id"]}


class GrafanaIrmReceiver(Receiver):
    """A formatted-webhook integration: `groups` is alert_uid -> firing or resolved."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.groups: dict[str, str] = {}

    def judge(self, request: Request) -> Reply:
        if request.path != f"/integrations/v1/formatted_webhook/{self.key}/":
            raise Refused(Reply(status=404))
        document = request.json()
        must(
            set(document) <= {"alert_uid", "title", "state", "message", "link_to_upstream_details", "image_url"},
            "field",
        )
        must(document["state"] in ("alerting", "ok"), "state")
        must(is_text(document["alert_uid"], 255) and document["title"], "alert_uid")
        if document["state"] == "alerting" or document["alert_uid"] in self.groups:
            self.groups[document["alert_uid"]] = "firing" if document["state"] == "alerting" else "resolved"
        return Reply(body=b"Ok.")


class WebhookReceiver(Receiver):
    """Verifies with the standard's own library, drops ids that it has seen, and holds bodies to the schema."""

    def __init__(self, key: str, schema: dict[str, Any]) -> None:
        super().__init__()
        self.verifier = standardwebhooks.Webhook(key)
        self.validator = jsonschema_rs.validator_for(schema)
        self.taken: list[dict[str, Any]] = []
        self.repeats = 0
        self._ids: set[str] = set()

    def judge(self, request: Request) -> Reply:
        must(len(request.body) < 20_000, "20 kB or more")
        try:
            self.verifier.verify(request.body, dict(request.headers), json_parse=False)
        except standardwebhooks.WebhookVerificationError as error:
            raise Refused(Reply(status=401, body={"error": str(error)})) from error
        document = json.loads(request.body)
        self.validator.validate(document)
        if request.headers["webhook-id"] in self._ids:
            self.repeats += 1
        else:
            self._ids.add(request.headers["webhook-id"])
            self.taken.append(document)
        return Reply(status=204)
