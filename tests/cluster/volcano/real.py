"""Real Volcano beside the test plane, from a folder that TRIMTAB_VOLCANO_BIN names: its three programs and its CRDs."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml
from tests.cluster import build
from tests.cluster.client import Json
from tests.cluster.plane import Plane
from tests.cluster.processes import PortBlock, Program, Spawner
from tests.cluster.volcano.standin import Standin
from tests.cluster.volcano.webhook_server import wait_until_asked

VARIABLE = "TRIMTAB_VOLCANO_BIN"
SCHEDULER, CONTROLLER, WEBHOOKS = "vc-scheduler", "vc-controller-manager", "vc-webhook-manager"
PARTS = {"scheduler": SCHEDULER, "controller": CONTROLLER}
ADMISSIONS = ("/jobs/mutate", "/jobs/validate", "/podgroups/validate")
CONFIGURATION = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]},
        {
            "plugins": [
                {"name": "drf", "enablePreemptable": False},
                {"name": "predicates"},
                {"name": "capacity"},
                {"name": "nodeorder"},
                {
                    "name": "binpack",
                    "arguments": {
                        "binpack.weight": 10,
                        "binpack.resources": "nvidia.com/gpu",
                        "binpack.resources.nvidia.com/gpu": 10,
                    },
                },
                {"name": "network-topology-aware"},
            ]
        },
    ],
}
"""The configuration of the recordings: GPUs packed, quotas by capacity, topology."""


def folder() -> Path | None:
    """Where real Volcano is, or None when nobody said."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def why_not() -> str | None:
    """What is missing, in a sentence; None when real Volcano can be run."""
    there = folder()
    if there is None:
        return f"set {VARIABLE} to a folder with {SCHEDULER}, {CONTROLLER}, {WEBHOOKS} and crds/*.yaml of Volcano 1.15"
    missing = [name for name in (SCHEDULER, CONTROLLER, WEBHOOKS) if not (there / name).is_file()]
    missing += [] if list(there.glob("crds/*.yaml")) else ["crds/*.yaml"]
    return f"{VARIABLE}={there} has no {', '.join(missing)}" if missing else None


def crds() -> list[Path]:
    """Its CRDs; those of JobFlow must be among them, or its controller waits for ever."""
    there = folder()
    return sorted(there.glob("crds/*.yaml")) if there else []


class RealVolcano:
    """Its processes, with the stand-in's kubelets; `cycle_seconds` is the scheduler's period."""

    def __init__(self, plane: Plane, *, cycle_seconds: float) -> None:
        self._plane = plane
        self._kubelets = Standin(plane.client, cycle_seconds=cycle_seconds, parts=["kubelets"])
        self.api, self.silent = self._kubelets.api, self._kubelets.silent
        self._block = PortBlock(build.cache() / "ports")
        self._spawner = Spawner()
        there = folder()
        assert there is not None, why_not()
        configuration = plane.folder / "volcano-scheduler.yaml"
        configuration.write_text(yaml.safe_dump(CONFIGURATION), encoding="utf-8")
        common = [f"--kubeconfig={plane.admin_kubeconfig}"]
        elected = [*common, "--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000"]
        period = f"--schedule-period={int(cycle_seconds * 1000)}ms"
        scheduler = [f"--scheduler-conf={configuration}", period, "--cache-dumper=false", *self._listening()]
        self._webhook_port = self._block.next()
        self._url = f"https://127.0.0.1:{self._webhook_port}"
        served = [
            *common,
            f"--webhook-url={self._url}",
            f"--port={self._webhook_port}",
            f"--tls-cert-file={plane.certificates}/tls.crt",
            f"--tls-private-key-file={plane.certificates}/tls.key",
            f"--ca-cert-file={plane.ca_file}",
            f"--enabled-admission={','.join(ADMISSIONS)}",
        ]
        arguments = {
            SCHEDULER: [*elected, *scheduler],
            CONTROLLER: [*elected, *self._listening()],
            WEBHOOKS: [*served, f"--healthz-address=127.0.0.1:{self._block.next()}"],
        }
        self.programs = {
            name: Program(name, [str(there / name), *more], folder=plane.folder, spawner=self._spawner)
            for name, more in arguments.items()
        }

    def _listening(self) -> list[str]:
        return [f"--{what}-address=127.0.0.1:{self._block.next()}" for what in ("listen", "healthz")]

    def start(self, name: str = "") -> None:
        """Starts `scheduler`, `controller` or both."""
        self._kubelets.start()
        for one in [name] if name else PARTS:
            self.programs[PARTS[one]].start()

    def kill(self, name: str) -> None:
        self.programs[PARTS[name]].kill()

    def stop(self) -> None:
        """Ends everything."""
        for program in self.programs.values():
            program.kill()
        self._kubelets.stop()
        self._spawner.close()
        self._block.close()

    def start_webhooks(self, certificates: Path) -> None:
        """Its admission: configurations first, as it only fills in their CA."""
        client = self._plane.client
        for path in ADMISSIONS:
            client.ensure(_resource(path), _admission(path, self._url, self._plane.ca_file.read_bytes()))
        self.programs[WEBHOOKS].start()
        wait_until_asked(client)

    def stop_webhooks(self) -> None:
        for path in ADMISSIONS:
            self._plane.client.delete(_resource(path), _name(path))
        self.programs[WEBHOOKS].kill()


def _name(path: str) -> str:
    return "volcano-admission-service" + path.replace("/", "-")


def _resource(path: str) -> str:
    return "mutatingwebhookconfigurations" if path.endswith("mutate") else "validatingwebhookconfigurations"


def _admission(path: str, url: str, ca: bytes) -> Json:
    _, plural, verb = path.split("/")
    group, version = {"jobs": ("batch.volcano.sh", "v1alpha1"), "podgroups": ("scheduling.volcano.sh", "v1beta1")}[
        plural
    ]
    operations = ["CREATE"] if (plural, verb) != ("jobs", "validate") else ["CREATE", "UPDATE"]
    kind = "MutatingWebhookConfiguration" if verb == "mutate" else "ValidatingWebhookConfiguration"
    webhook = {
        "name": f"{verb}{plural.removesuffix('s')}.volcano.sh",
        "clientConfig": {"url": url + path, "caBundle": base64.b64encode(ca).decode()},
        "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": [plural]}],
        "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": _name(path)},
        "webhooks": [webhook],
    }
