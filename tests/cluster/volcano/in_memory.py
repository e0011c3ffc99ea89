"""The stand-in's Api on the fake API server in memory: explicit steps, no threads."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tests.cluster.volcano.api import JSON, JSON_PATCH, MERGE, Answer, Change, Object
from tests.fakes.kube import FakeKube
from tests.fakes.kube_paths import Served, address_of
from tests.fakes.kube_store import Event

from trimtab.errors import SchedulerError
from trimtab.schedulers.kubernetes import PatchKind

EXTRA_KINDS = {
    "events": Served("Event", ("v1",)),
    "priorityclasses.scheduling.k8s.io": Served("PriorityClass", ("v1",), False),
}
REASONS = {404: "NotFound", 409: "Conflict", 422: "Invalid", 429: "TooManyRequests"}
BUDGET = "disruption budget."
KINDS_OF_PATCH = {MERGE: PatchKind.MERGE, JSON_PATCH: PatchKind.JSON}


class InMemoryApi:
    """Calls and feeds on a FakeKube, whose log must be kept."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        kube.kinds.update({name: served for name, served in EXTRA_KINDS.items() if name not in kube.kinds})

    def call(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Answer:
        """One request."""
        plain, _, query = path.partition("?")
        params = dict(part.split("=", 1) for part in query.split("&") if part)
        try:
            return self._call(method, plain, copy.deepcopy(body), content_type, params)
        except SchedulerError as error:
            code = error.code or 500
            message = str(error).partition(f": {code} ")[2]
            if code == 429:
                message = f"{message.partition(BUDGET)[0]}{BUDGET}"  # without its causes, which come beside it
            return Answer(code, {"code": code, "reason": REASONS.get(code, ""), "message": message})

    def _call(self, method: str, path: str, body: Any, content_type: str, params: Mapping[str, str]) -> Answer:
        if method == "GET":
            return Answer(200, self.kube.get(path, params))
        if method == "POST":
            return self._bind(path, body) if path.endswith("/binding") else self._post(path, body, params)
        if method == "PUT":
            return Answer(200, self.kube.put(path, body, params))
        if method == "DELETE":
            return Answer(200, self.kube.delete(path, body))
        return Answer(200, self.kube.patch(path, body, KINDS_OF_PATCH[content_type], params))

    def _post(self, path: str, body: Object, params: Mapping[str, str]) -> Answer:
        """Fills in what the server's defaults would."""
        address = address_of(path)
        spec = body.get("spec") or {}
        if address and address.kind_key == "pods" and not address.subresource:
            spec.setdefault("terminationGracePeriodSeconds", 30)
            spec.setdefault("tolerations", [])
        elif address and address.kind_key == "jobs.batch.volcano.sh":
            spec.setdefault("maxRetry", 3)
            spec.setdefault("queue", "default")
        return Answer(201, self.kube.post(path, body, params))

    def _bind(self, path: str, body: Object) -> Answer:
        place = path.removesuffix("/binding")
        pod = self.kube.see(place)
        if pod is None:
            return Answer(404, {"code": 404, "reason": "NotFound", "message": "pod not found"})
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            text = f'Operation cannot be fulfilled on pods/binding "{name}": pod {name} is being deleted, '
            return Answer(409, {"code": 409, "reason": "Conflict", "message": f"{text}cannot be assigned to a host"})
        others = [one for one in pod["status"].get("conditions", []) if one["type"] != "PodScheduled"]
        status = {"conditions": [*others, {"type": "PodScheduled", "status": "True"}], "nominatedNodeName": None}
        self.kube.edit(place, {"spec": {"nodeName": body["target"]["name"]}, "status": status}, by="volcano")
        return Answer(201, {"kind": "Status", "status": "Success"})

    def follow(self, collection: str) -> _LogFeed:
        """What is there, then every change, read from the server's log."""
        return _LogFeed(self.kube, collection)


class _LogFeed:
    def __init__(self, kube: FakeKube, collection: str) -> None:
        address = address_of(collection)
        self._kind_key = address.kind_key if address else ""
        self._kube = kube
        self._there = [Change("ADDED", one) for one in kube.all(self._kind_key)]
        self._seen = kube.snapshot().version

    def drain(self) -> list[Change]:
        state = self._kube.snapshot()
        events = [event for event in _after(state.log, self._seen) if event.key[0] == self._kind_key]
        self._seen = state.version
        there, self._there = self._there, []
        return there + [_change(event) for event in events]

    def close(self) -> None:
        self._there = []


def _after(log: tuple[Event, ...], version: int) -> tuple[Event, ...]:
    """The events of later versions: the log is in order, so they are its end."""
    first = len(log)
    while first and log[first - 1].version > version:
        first -= 1
    return log[first:]


def _change(event: Event) -> Change:
    if event.new is None:
        old = event.old or {}
        metadata = {**old["metadata"], "resourceVersion": str(event.version)}
        return Change("DELETED", {**old, "metadata": metadata})
    return Change("ADDED" if event.old is None else "MODIFIED", event.new)  # never edited in place: shared
