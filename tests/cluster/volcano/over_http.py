"""The stand-in's Api on a real API server: requests by the tests' client, one list-and-watch for each kind."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import requests
from tests.cluster.client import ApiError, Client, Json, Watch
from tests.cluster.volcano.api import JSON, Answer, Change, Object
from tests.cluster.volcano.objects import key_of, uid_of

AWAY = (requests.RequestException, OSError, ValueError)
AGAIN_SECONDS = 0.2
LISTED_SECONDS_MAX = 60.0


class HttpApi:
    """Calls and feeds; close it when nobody follows any more."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._watchers: dict[str, _Watcher] = {}
        self._lock = threading.Lock()
        self._told = threading.Condition()
        self._count = 0

    def wait_for_change(self, seen: int, seconds: float) -> int:
        """Until something changed since `seen` was given, or so long; what to give the next time."""
        with self._told:
            self._told.wait_for(lambda: self._count != seen, seconds)
            return self._count

    def _tell(self) -> None:
        with self._told:
            self._count += 1
            self._told.notify_all()

    def call(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Answer:
        """One request; that the server is away is an exception of `requests`."""
        try:
            answer = self._client.request(method, path, body, content_type=content_type)
        except ApiError as error:
            return Answer(error.status, error.body)
        return Answer(201 if method == "POST" else 200, answer if isinstance(answer, dict) else {})

    def follow(self, collection: str) -> _Feed:
        """What is there, then every change; the feeds of one kind share a watch."""
        with self._lock:
            if collection not in self._watchers:
                self._watchers[collection] = _Watcher(self._client, collection, self._tell)
            return self._watchers[collection].new_feed()

    def close(self) -> None:
        for watcher in self._watchers.values():
            watcher.stop()


class _Feed:
    def __init__(self, watcher: _Watcher, there: list[Change]) -> None:
        self._watcher = watcher
        self._changes: deque[Change] = deque(there)

    def tell(self, change: Change) -> None:
        self._changes.append(change)

    def drain(self) -> list[Change]:
        return [self._changes.popleft() for _ in range(len(self._changes))]

    def close(self) -> None:
        self._watcher.forget(self)


class _Watcher:
    """One kind, listed and watched; after every break it lists anew and tells what that changed."""

    def __init__(self, client: Client, collection: str, tell: Callable[[], None]) -> None:
        self._client = client
        self._tell = tell
        self._resource = collection.removeprefix("/apis/").removeprefix("/api/")
        self._known: dict[tuple[str, str], Object] = {}
        self._feeds: list[_Feed] = []
        self._lock = threading.Lock()
        self._listed, self._stopping = threading.Event(), threading.Event()
        self._watch: Watch | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {self._resource}", daemon=True)
        self._thread.start()

    def new_feed(self) -> _Feed:
        if not self._listed.wait(LISTED_SECONDS_MAX):
            raise TimeoutError(f"{self._resource} could not be listed within {LISTED_SECONDS_MAX:.0f} s")
        with self._lock:
            feed = _Feed(self, [Change("ADDED", obj) for obj in self._known.values()])
            self._feeds.append(feed)
            return feed

    def forget(self, feed: _Feed) -> None:
        with self._lock, suppress(ValueError):
            self._feeds.remove(feed)

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            watch = self._watch
        if watch is not None:
            watch.close()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(ApiError, *AWAY):
                self._list_and_watch()
            self._stopping.wait(AGAIN_SECONDS)

    def _list_and_watch(self) -> None:
        whole = self._client.list_whole(self._resource)
        version = whole["metadata"]["resourceVersion"]
        self._take_list(whole["items"], version)
        with self._client.watch(self._resource, resource_version=version) as watch:
            with self._lock:
                self._watch = watch
            for event in watch if not self._stopping.is_set() else ():
                if event["type"] == "ERROR":
                    return
                if event["type"] != "BOOKMARK":
                    self._take(event["type"], event["object"])

    def _take_list(self, items: list[Json], version: str) -> None:
        there = {key_of(item): item for item in items}
        for key, gone in list(self._known.items()):
            if uid_of(there.get(key, {"metadata": {}})) != uid_of(gone):
                self._take("DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": version}})
        for item in items:
            known = self._known.get(key_of(item))
            if known is None or known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._take("MODIFIED" if known else "ADDED", item)
        self._listed.set()

    def _take(self, type_: str, obj: Object) -> None:
        with self._lock:
            if type_ == "DELETED":
                self._known.pop(key_of(obj), None)
            else:
                self._known[key_of(obj)] = obj
            for feed in self._feeds:
                feed.tell(Change(type_, obj))
        self._tell()
