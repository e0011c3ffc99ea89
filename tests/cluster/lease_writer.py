"""A small daemon that only writes with the Lease: `python -m tests.cluster.lease_writer KUBECONFIG NAMESPACE NAME LOG`.

It signs one ConfigMap as fast as it may, through the product's fence and with a resourceVersion, and keeps a line of
JSON for each write that was done: who, which epoch, the resourceVersion that came of it, and when it was begun
(monotonic seconds, which all processes of a machine share). It ends with its parent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerError
from trimtab.schedulers.connect import connect
from trimtab.schedulers.kubernetes import PatchKind, Resource
from trimtab.schedulers.lease import FencedApi, Lease
from trimtab.settings import KubernetesSettings

TARGET = "signed"
PACE_SECONDS = 0.02
REQUEST_SECONDS = 0.4
CONFIG_MAPS = Resource(group="", version="v1", plural="configmaps")


def settings(kubeconfig: str, namespace: str) -> KubernetesSettings:
    """The shortest timings that one-second leases allow."""
    return KubernetesSettings(
        kubeconfig=kubeconfig,
        namespace=namespace,
        request_timeout_seconds=REQUEST_SECONDS,
        lease_seconds=1,
        lease_retry_seconds=0.1,
    )


def main(kubeconfig: str, namespace: str, name: str, log: Path) -> None:
    made, clock, parent, pause = settings(kubeconfig, namespace), SystemClock(), os.getppid(), threading.Event()
    api = connect(made)
    lease = Lease(connect(made), made, identity=name, clock=clock)

    def renew() -> None:
        while os.getppid() == parent:
            lease.tick()
            pause.wait(made.lease_retry_seconds)

    threading.Thread(target=renew, daemon=True).start()
    fenced, path = FencedApi(api, lease), CONFIG_MAPS.path(namespace, TARGET)
    with log.open("a", encoding="utf-8", buffering=1) as lines:
        while os.getppid() == parent:
            pause.wait(PACE_SECONDS)
            try:
                version = api.get(path)["metadata"]["resourceVersion"]
                epoch, since = lease.epoch, clock.monotonic_seconds()
                body = {"metadata": {"resourceVersion": version}, "data": {"who": name, "epoch": str(epoch)}}
                answer = fenced.patch(path, body, PatchKind.MERGE)
            except SchedulerError:
                continue
            entry = {
                "who": name,
                "epoch": epoch,
                "version": int(answer["metadata"]["resourceVersion"]),
                "since": since,
            }
            lines.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
