"""Command lines of the plane's programs."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.client import Json

GATES = {"DRADeviceTaints": True, "DRADeviceTaintRules": True}
"""Device taints by rule: alpha in 1.35, so API server, controller manager and scheduler are told the same."""
CONTROLLERS = (
    "job-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "device-taint-eviction-controller",
    "resourceclaim-controller",
    "pod-garbage-collector-controller",
    "serviceaccount-controller",
)


def etcd(program: str, *, data: Path, client_port: int, peer_port: int) -> list[str]:
    """A single member on throw-away data."""
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        program,
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def apiserver(program: str, *, folder: Path, certificates: Path, etcd_port: int, port: int) -> list[str]:
    """RBAC, a token file for the administrator, service account tokens, aggregation, device taint rules."""
    return [
        program,
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        *_served_with(certificates),
        f"--client-ca-file={certificates}/ca.crt",
        f"--token-auth-file={folder}/tokens.csv",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder}/service-account.pub",
        f"--service-account-signing-key-file={folder}/service-account.key",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        "--disable-admission-plugins=ServiceAccount",  # pods of tests name none, and nobody makes `default` in time
        f"--requestheader-client-ca-file={folder}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={folder}/front-proxy-client.crt",
        f"--proxy-client-key-file={folder}/front-proxy-client.key",
        f"--audit-policy-file={folder}/audit-policy.json",
        f"--audit-log-path={folder}/audit.log",
        "--runtime-config=resource.k8s.io/v1alpha3=true",
        _gates(),
        "--profiling=false",
    ]


def audit_policy() -> Json:
    """What service accounts ask, and the bodies of what they write; of the plane's own programs nothing."""
    accounts = {"userGroups": ["system:serviceaccounts"], "omitStages": ["RequestReceived"]}
    writes = {"level": "Request", "verbs": ["create", "update", "patch", "delete", "deletecollection"], **accounts}
    rules = [writes, {"level": "Metadata", **accounts}, {"level": "None"}]
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}


def controller_manager(program: str, *, folder: Path, certificates: Path, port: int) -> list[str]:
    """The controllers that workloads need; nodes stay ready without heartbeats."""
    return [
        program,
        f"--kubeconfig={folder}/admin.kubeconfig",
        f"--service-account-private-key-file={folder}/service-account.key",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        *_served_with(certificates),
        "--node-monitor-grace-period=24h",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        f"--controllers={','.join(CONTROLLERS)}",
        _gates(),
    ]


def scheduler(program: str, *, configuration: Path, certificates: Path, port: int) -> list[str]:
    """The default scheduler."""
    served = ["--bind-address=127.0.0.1", f"--secure-port={port}", *_served_with(certificates)]
    return [program, f"--config={configuration}", *served, _gates()]


def scheduler_configuration(kubeconfig: Path) -> Json:
    """Its configuration file: no election, no throttle."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
    }


def kueue(program: str, *, configuration: Path, kubeconfig: Path) -> list[str]:
    """Kueue with its configuration file."""
    return [program, f"--config={configuration}", f"--kubeconfig={kubeconfig}", "--zap-log-level=2"]


def _served_with(certificates: Path) -> list[str]:
    return [f"--tls-cert-file={certificates}/tls.crt", f"--tls-private-key-file={certificates}/tls.key"]


def _gates() -> str:
    return "--feature-gates=" + ",".join(f"{name}={str(is_on).lower()}" for name, is_on in GATES.items())
