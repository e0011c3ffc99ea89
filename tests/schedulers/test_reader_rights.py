"""The base manifests: the reader may read every kind that is read and nothing else, the agent opens the kernel log."""

from __future__ import annotations

from pathlib import Path

import yaml

from trimtab.schedulers.resources import RESOURCES
from trimtab.schedulers.rights import NOTHING, rights_of
from trimtab.settings import KubernetesSettings

BASE = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes" / "base"
ROLE, AGENT = BASE / "reader.yaml", BASE / "agent.yaml"


def allowed() -> set[tuple[str, str]]:
    """Group and plural of what the role lets be read."""
    found: set[tuple[str, str]] = set()
    for document in yaml.safe_load_all(ROLE.read_text()):
        for rule in document.get("rules") or ():
            if {"get", "list", "watch"} <= set(rule["verbs"]):
                found |= {(group, name) for group in rule["apiGroups"] for name in rule["resources"]}
    return found


def test_the_readers_role_allows_to_read_every_kind() -> None:
    assert [kind.name for kind in RESOURCES if (kind.group, kind.plural) not in allowed()] == []


def test_the_readers_role_allows_to_read_nothing_else() -> None:
    # Volcano's own Leases say whether its processes live; they are read when one is looked at, not kept.
    assert allowed() - {(kind.group, kind.plural) for kind in RESOURCES} == {("coordination.k8s.io", "leases")}


def test_doctor_asks_for_every_kind_that_is_read_and_says_what_a_missing_one_costs() -> None:
    rights = {(one.verb, one.group, one.resource): one for one in rights_of(KubernetesSettings(), may_act=False)}
    for kind in RESOURCES:
        for verb in ("list", "watch"):
            right = rights[(verb, kind.group, kind.plural)]
            assert (right.costs == NOTHING) is kind.is_needed, right.text
            assert (right.namespace == "trimtab") is kind.is_ours


def test_an_agent_that_is_given_the_kernel_log_may_open_it() -> None:
    (agent,) = [one for one in yaml.safe_load_all(AGENT.read_text()) if one["kind"] == "DaemonSet"]
    spec = agent["spec"]["template"]["spec"]
    assert "/dev/kmsg" in {one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    (container,) = spec["containers"]
    # The device cgroup lets nothing less open it; what `privileged` makes meaningless is not written beside it.
    # The image's own user is not root, and the device and the spool on the node are root's.
    root = {"runAsUser": 0, "runAsGroup": 0}
    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True, **root}
