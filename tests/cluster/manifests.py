"""The deploy manifests of docs/how-to/kubernetes as a client applies them, without what needs an image."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.cluster.client import Client, Json, wait_for

FOLDER = Path(__file__).parents[2] / "docs/how-to/kubernetes"
NOT_RUN_HERE = ("Deployment", "DaemonSet", "PersistentVolumeClaim", "Service", "ConfigMap", "Kustomization")
PLURALS = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "AdmissionCheck": "admissionchecks",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
"""Kind -> plural, in the order in which they are put there."""


def documents() -> list[Json]:
    """What is applied."""
    found: list[Json] = []
    for path in sorted(FOLDER.glob("*/*.yaml")):
        found += [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]
    kept = [one for one in found if one["kind"] not in NOT_RUN_HERE]
    return sorted(kept, key=lambda one: list(PLURALS).index(one["kind"]))


def install(client: Client) -> None:
    """Put them there, or bring them up to date."""
    for one in documents():
        client.ensure(PLURALS[one["kind"]], one)


def remove(client: Client) -> None:
    """Take them away again; the namespace stays. What a finalizer still holds is waited for: the next to install
    would take it for present.
    """
    gone = [one for one in documents() if one["kind"] != "Namespace"]
    for one in gone:
        client.delete(*_place(one))
    wait_for(lambda: all(client.find(*_place(one)) is None for one in gone), "the deploy manifests gone")


def _place(document: Json) -> tuple[str, str, str | None]:
    metadata = document["metadata"]
    return PLURALS[document["kind"]], metadata["name"], metadata.get("namespace")
