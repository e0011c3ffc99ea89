"""Reads and writes of the stand-in, in Kubernetes' own terms, over any Api."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tests.cluster.volcano.api import EVENT, MERGE, POD, Answer, Api, Change, Feed, Kind, Object, Refused
from tests.cluster.volcano.objects import key_of, uid_of, version_of

NOT_FOUND = 404
CONFLICT = 409


class Store:
    """Typed requests; a refusal is an exception with its code."""

    def __init__(self, api: Api, *, component: str) -> None:
        self.api = api
        self._component = component
        self._events = itertools.count(1)

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """The object, or None when it is not there."""
        answer = self.api.call("GET", kind.path(namespace, name))
        if answer.code == NOT_FOUND:
            return None
        return _body(answer)

    def create(self, kind: Kind, body: Object) -> Object:
        """The object as it was made."""
        filled = {"apiVersion": kind.version, "kind": kind.name, **body}
        return _body(self.api.call("POST", kind.path(body["metadata"].get("namespace", "")), filled))

    def replace(self, kind: Kind, body: Object, *, sub: str = "") -> Object:
        """The object after a PUT that is refused when somebody wrote in between."""
        metadata = body["metadata"]
        filled = {"apiVersion": kind.version, "kind": kind.name, **body}
        return _body(self.api.call("PUT", kind.path(metadata.get("namespace", ""), metadata["name"], sub), filled))

    def merge(self, kind: Kind, namespace: str, name: str, patch: Object, *, sub: str = "") -> Object:
        """The object after a merge patch."""
        return _body(self.api.call("PATCH", kind.path(namespace, name, sub), patch, content_type=MERGE))

    def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "") -> bool:
        """True when it was there; a pod gets its own grace period."""
        body = {"preconditions": {"uid": uid}} if uid else None
        answer = self.api.call("DELETE", kind.path(namespace, name), body)
        if answer.code == NOT_FOUND:
            return False
        _body(answer)
        return True

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """Gives the pod to the node."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace},
            "target": target,
        }
        _body(self.api.call("POST", POD.path(namespace, pod, "binding"), body))

    def record(self, kind: Kind, obj: Object, *, reason: str, message: str, is_warning: bool = False) -> None:
        """An Event on the object; a lost one is nobody's trouble."""
        metadata = obj["metadata"]
        namespace = metadata.get("namespace") or "default"
        reference = {
            "apiVersion": kind.version,
            "kind": kind.name,
            "name": metadata["name"],
            "namespace": namespace,
            "uid": metadata.get("uid", ""),
        }
        body = {
            "metadata": {"generateName": f"{metadata['name']}.", "namespace": namespace},
            "involvedObject": reference,
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if is_warning else "Normal",
            "source": {"component": self._component},
            "count": next(self._events),
        }
        self.api.call("POST", EVENT.path(namespace), {"apiVersion": "v1", "kind": "Event", **body})


def _body(answer: Answer) -> Object:
    if not answer.is_ok:
        raise Refused(answer)
    return answer.body


OnChange = Callable[[str, Object | None, Object], None]
"""Told of each change: its type, what the object was before, what it is."""


class Mirror:
    """A kind's objects as a feed told them, by namespace and name, with what we ourselves did to them meanwhile."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._removed: set[str] = set()
        self.objects: dict[tuple[str, str], Object] = {}

    def take(self, on_change: OnChange | None = None) -> bool:
        """Takes over all that changed; True when there was anything."""
        changes = self.changes()
        for change in changes:
            self.apply(change, on_change)
        return bool(changes)

    def changes(self) -> list[Change]:
        """What changed since the last time, to be applied in order."""
        return self._feed.drain()

    def apply(self, change: Change, on_change: OnChange | None = None) -> None:
        """Takes over one change, unless what we know is newer; tells of it either way."""
        key, uid = key_of(change.object), uid_of(change.object)
        before = self.objects.get(key)
        is_ours = before is not None and uid_of(before) == uid
        if change.type == "DELETED":
            self._removed.discard(uid)
            if is_ours:
                del self.objects[key]
        elif uid in self._removed:
            return
        elif not (is_ours and before is not None and version_of(before) > version_of(change.object)):
            self.objects[key] = change.object
        if on_change is not None:
            on_change(change.type, before if is_ours else None, change.object)

    def put(self, obj: Object) -> None:
        """What we wrote, before the feed tells of it."""
        self.objects[key_of(obj)] = obj

    def remove(self, obj: Object) -> None:
        """What we deleted at once, before the feed tells of it."""
        self.objects.pop(key_of(obj), None)
        self._removed.add(uid_of(obj))

    def close(self) -> None:
        self._feed.close()
