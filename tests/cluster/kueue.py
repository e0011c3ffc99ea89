"""Kueue on a plane of loopback processes: its CRDs, webhooks and visibility API by URL, and its configuration."""

from __future__ import annotations

import copy

from tests.cluster.client import Client, Json

NAMESPACE = "kueue-system"
KINDS = 11
"""How many kinds kueue.x-k8s.io/v1beta2 serves; Kueue exits when it starts before discovery lists them."""
_CONVERTED = ("workloads", "clusterqueues", "localqueues", "cohorts", "multikueueclusters")
_OF_EVERY_POD = ("pod", "deployment", "statefulset")
"""Their webhooks keep out of the system's namespaces, as Kueue's own kustomization has it."""


def install(client: Client, *, crds: list[Json], webhooks: list[Json], ca: str, ports: dict[str, int]) -> None:
    """Create what Kueue's manifests hold, with URLs on loopback in place of Services; `ca` is base64."""
    webhook_url = f"https://127.0.0.1:{ports['kueue-webhook']}"
    for crd in crds:
        client.ensure(
            "customresourcedefinitions", _with_conversion(crd, {"url": f"{webhook_url}/convert", "caBundle": ca})
        )
    client.ensure("namespaces", {"metadata": {"name": NAMESPACE}})
    for configuration in webhooks:
        resource = configuration["kind"].lower() + "s"
        client.ensure(resource, _by_url(configuration, webhook_url, ca))
    _install_visibility(client, ca, ports["kueue-visibility"])


def configuration(*, webhook_certificates: str, ports: dict[str, int], gates: dict[str, bool], extra: Json) -> Json:
    """Kueue's configuration file; `extra` replaces its top-level keys."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports['kueue-health']}"},
        "metrics": {"bindAddress": f"127.0.0.1:{ports['kueue-metrics']}", "enableClusterQueueResources": True},
        "webhook": {"port": ports["kueue-webhook"], "host": "127.0.0.1", "certDir": webhook_certificates},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": ports["kueue-visibility"]},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 500, "burst": 1000},
        "integrations": {"frameworks": ["batch/job", "pod", "deployment", "statefulset"]},
        **({"featureGates": gates} if gates else {}),
        **extra,
    }


def _with_conversion(crd: Json, client_config: Json) -> Json:
    if crd["spec"]["names"]["plural"] not in _CONVERTED:
        return crd
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client_config}
    return {**crd, "spec": {**crd["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}


def _by_url(configuration: Json, url: str, ca: str) -> Json:
    changed = copy.deepcopy(configuration)
    changed["metadata"]["name"] = f"kueue-{changed['metadata']['name']}"
    for webhook in changed["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {"url": url + path, "caBundle": ca}
        if webhook["name"].split(".")[0][1:] in _OF_EVERY_POD:  # names are like mpod.kb.io, vpod.kb.io
            outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", NAMESPACE]}
            webhook["namespaceSelector"] = {"matchExpressions": [outside]}
    return changed


def _install_visibility(client: Client, ca: str, port: int) -> None:
    """An ExternalName Service leads the API server's aggregator to loopback."""
    service = {
        "metadata": {"name": "visibility-server", "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    client.ensure("services", service)
    for version in ("v1beta1", "v1beta2"):
        spec = {
            "group": "visibility.kueue.x-k8s.io",
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": ca,
            "service": {"name": "visibility-server", "namespace": NAMESPACE, "port": port},
        }
        client.ensure("apiservices", {"metadata": {"name": f"{version}.visibility.kueue.x-k8s.io"}, "spec": spec})
