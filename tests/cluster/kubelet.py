"""A fake kubelet: plays the life of pods on nodes that exist only as API objects. Whoever binds a pod, it runs.

Annotations of a pod steer it: `fake/start-s` (bound to running), `fake/run-s` (running to finished; never without it),
`fake/exit` (code at that end, 0), `fake/term-s` (SIGTERM to exit, at most the grace period), `fake/term-exit` (143).
"""

from __future__ import annotations

import contextlib
import heapq
import sys
import threading
import time
from collections.abc import Callable

import requests
from tests.cluster.client import ApiError, Client, Json, Watch

START_SECONDS, TERM_SECONDS = 0.2, 0.3
AGAIN_SECONDS = 1.0
EXIT_ON_TERM = 143
_BOUND = "spec.nodeName!="
_AWAY = (requests.RequestException, OSError, ValueError)


class Kubelet:
    """Runs pods on all nodes, or on those that a label selector matches; the client is its own and closed by `stop`."""

    def __init__(self, client: Client, *, node_labels: str = "", workers: int = 4) -> None:
        self._client, self._node_labels = client, node_labels
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._queue: list[tuple[float, int, Callable[[Json], None], Json]] = []
        self._sequence = 0
        self._begun: set[tuple[str, str]] = set()
        self._is_mine: dict[str, bool] = {}
        self._dead: set[str] = set()
        self._watch: Watch | None = None
        names = ["watch", *(f"worker-{index}" for index in range(workers))]
        targets = [self._follow, *[self._work] * workers]
        self._threads = [
            threading.Thread(target=target, name=f"kubelet-{name}", daemon=True)
            for name, target in zip(names, targets, strict=True)
        ]

    def start(self) -> None:
        """Begin; pods that are bound already are taken up."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End its threads and connections; pods stay as they are."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
            watch = self._watch
        if watch is not None:
            watch.close()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._client.close()

    def kill_node(self, node: str) -> None:
        """From now on nothing starts, finishes or ends on this node; its conditions stay: see `set_ready`."""
        with self._changed:
            self._dead.add(node)

    def revive_node(self, node: str) -> None:
        """Its pods go on from where the API has them."""
        with self._changed:
            self._dead.discard(node)
        for pod in self._client.list("pods", fields=f"spec.nodeName={node}"):
            self._forget(pod)
            self._handle(pod)

    def set_ready(self, node: str, status: str = "True") -> None:
        """Write the Ready condition: True, False, or Unknown (as when a kubelet falls silent)."""
        set_ready(self._client, node, status)

    # The watch

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._list_and_watch()
            except (ApiError, *_AWAY):
                self._stopping.wait(0.2)

    def _list_and_watch(self) -> None:
        whole = self._client.list_whole("pods", fields=_BOUND)
        for pod in whole["items"]:
            self._handle(pod)
        version = whole["metadata"]["resourceVersion"]
        with self._client.watch("pods", fields=_BOUND, resource_version=version) as watch:
            with self._changed:
                self._watch = watch
            for event in watch if not self._stopping.is_set() else ():
                if event["type"] == "ERROR":
                    return
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._handle(event["object"])
                elif event["type"] == "DELETED":
                    self._forget(event["object"])

    def _handle(self, pod: Json) -> None:
        metadata, phase = pod["metadata"], pod.get("status", {}).get("phase", "Pending")
        if not self._runs_on(pod["spec"]["nodeName"]):
            return
        if metadata.get("deletionTimestamp"):
            grace = metadata.get("deletionGracePeriodSeconds", 30)
            self._begin("end", pod, min(_number(pod, "term-s", TERM_SECONDS), grace), self._end)
        elif phase == "Pending":
            self._begin("start", pod, _number(pod, "start-s", START_SECONDS), self._start)
        elif phase == "Running" and (run_seconds := _number(pod, "run-s", -1.0)) >= 0:
            self._begin("finish", pod, run_seconds, self._finish)

    def _begin(self, stage: str, pod: Json, delay_seconds: float, act: Callable[[Json], None]) -> None:
        key = (pod["metadata"]["uid"], stage)
        with self._changed:
            if key in self._begun:
                return
            self._begun.add(key)
        self._at(delay_seconds, act, pod)

    def _at(self, delay_seconds: float, act: Callable[[Json], None], pod: Json) -> None:
        with self._changed:
            self._sequence += 1  # equal times must not compare functions
            heapq.heappush(self._queue, (time.monotonic() + delay_seconds, self._sequence, act, pod))
            self._changed.notify()

    def _forget(self, pod: Json) -> None:
        with self._changed:
            self._begun -= {(pod["metadata"]["uid"], stage) for stage in ("start", "finish", "end")}

    def _runs_on(self, node: str) -> bool:
        if node not in self._is_mine:
            fields = f"metadata.name={node}"
            found = not self._node_labels or self._client.list("nodes", labels=self._node_labels, fields=fields)
            self._is_mine[node] = bool(found)
        return self._is_mine[node]

    # The workers

    def _work(self) -> None:
        while (due := self._next()) is not None:
            act, pod = due
            if pod["spec"]["nodeName"] in self._dead:
                continue
            try:
                act(pod)
            except ApiError as error:
                self._answer(error, act, pod)
            except _AWAY:
                self._at(AGAIN_SECONDS, act, pod)

    def _next(self) -> tuple[Callable[[Json], None], Json] | None:
        with self._changed:
            while not self._stopping.is_set():
                now = time.monotonic()
                if self._queue and self._queue[0][0] <= now:
                    return heapq.heappop(self._queue)[2:]
                self._changed.wait(self._queue[0][0] - now if self._queue else None)
        return None

    def _answer(self, error: ApiError, act: Callable[[Json], None], pod: Json) -> None:
        if error.status == 404:
            return  # the pod is gone
        if error.status == 409:
            self._again(act, pod)
            return
        print(f"kubelet: {pod['metadata']['name']}: {error}", file=sys.stderr)
        self._at(AGAIN_SECONDS, act, pod)

    def _again(self, act: Callable[[Json], None], pod: Json) -> None:
        """After a conflict: the same on what is there now, if it is still that pod."""
        with contextlib.suppress(ApiError, *_AWAY):
            now = self._client.get("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])
            if now["metadata"]["uid"] != pod["metadata"]["uid"]:
                return
            pod = now
        self._at(0.02, act, pod)

    # What a kubelet does with a pod

    def _start(self, pod: Json) -> None:
        if pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase", "Pending") != "Pending":
            return
        now = _now()
        ready = [_condition(name, "True", now) for name in (*_STARTED, *_READY)]
        status = {
            "phase": "Running",
            "startTime": now,
            "hostIP": "10.9.0.1",
            "podIP": "10.9.0.2",
            "podIPs": [{"ip": "10.9.0.2"}],
            "conditions": ready,
            "containerStatuses": _containers(pod, {"running": {"startedAt": now}}, is_ready=True),
        }
        self._write(pod, status)

    def _finish(self, pod: Json) -> None:
        if not pod["metadata"].get("deletionTimestamp"):
            self._terminate(pod, int(_number(pod, "exit", 0)))

    def _end(self, pod: Json) -> None:
        """Terminal phase and exit code first, then gone: the Job controller looks at the order."""
        if pod["status"].get("phase") not in ("Succeeded", "Failed"):
            self._terminate(pod, int(_number(pod, "term-exit", EXIT_ON_TERM)))
        metadata = pod["metadata"]
        self._client.delete("pods", metadata["name"], metadata["namespace"], grace_seconds=0, uid=metadata["uid"])

    def _terminate(self, pod: Json, code: int) -> None:
        now = _now()
        started = pod["status"].get("startTime", now)
        reason = "Completed" if code == 0 else "Error"
        state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}}
        why = "PodCompleted" if code == 0 else "PodFailed"
        status = {
            "phase": "Succeeded" if code == 0 else "Failed",
            "conditions": [{**_condition(name, "False", now), "reason": why} for name in _READY],
            "containerStatuses": _containers(pod, state, is_ready=False),
        }
        self._write(pod, status)

    def _write(self, pod: Json, status: Json) -> None:
        metadata = pod["metadata"]
        # The version makes a late "running" lose against a deletion that came in between.
        version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"metadata": version, "status": status}
        name, namespace = metadata["name"], metadata["namespace"]
        self._client.patch("pods", name, body, namespace, kind="strategic", subresource="status")


def set_ready(client: Client, node: str, status: str = "True") -> None:
    """Write a node's Ready condition by hand: True, False or Unknown."""
    reason = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}[status]
    now = _now()
    condition = {**_condition("Ready", status, now), "reason": reason, "message": "", "lastHeartbeatTime": now}
    client.patch("nodes", node, {"status": {"conditions": [condition]}}, kind="strategic", subresource="status")


_STARTED = ("Initialized", "PodReadyToStartContainers")
_READY = ("Ready", "ContainersReady")


def _condition(name: str, status: str, now: str) -> Json:
    return {"type": name, "status": status, "lastTransitionTime": now}


def _containers(pod: Json, state: Json, *, is_ready: bool) -> list[Json]:
    common = {"ready": is_ready, "started": is_ready, "restartCount": 0, "imageID": "sha256:0", "state": state}
    return [{"name": found["name"], "image": found["image"], **common} for found in pod["spec"]["containers"]]


def _number(pod: Json, annotation: str, default: float) -> float:
    given = pod["metadata"].get("annotations", {}).get(f"fake/{annotation}", default)
    try:
        return float(given)
    except ValueError:
        print(
            f"kubelet: {pod['metadata']['name']}: fake/{annotation}={given} is no number, {default} it is",
            file=sys.stderr,
        )
        return default


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
