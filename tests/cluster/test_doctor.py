"""`doctor --cluster` against a real API server: it names each missing permission and what goes without it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.cluster.client import Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.test_rights import installed as _installed
from tests.system.processes import verb

from trimtab.model.command import Mode
from trimtab.schedulers.connect import KubernetesApi, connect
from trimtab.schedulers.discovery import offered
from trimtab.schedulers.rights import Right, rights_of
from trimtab.schedulers.survey import Seen, survey
from trimtab.settings import DaemonSettings, IssueSettings, KubernetesSettings

installed = _installed


def settings_of(plane: Plane, account: str, **changes: str) -> DaemonSettings:
    mode = Mode.APPROVE if account == "trimtab-actor" else Mode.RECOMMEND
    kubernetes = KubernetesSettings(kubeconfig=str(plane.kubeconfig(account, "trimtab")), **changes)
    return DaemonSettings(kubernetes=kubernetes, issue=IssueSettings(mode=mode))


def missing(api: KubernetesApi, settings: DaemonSettings) -> list[Seen]:
    return [one for one in survey(api, settings) if one.name == "permission"]


@pytest.fixture
def actor(installed: Plane) -> Iterator[tuple[KubernetesApi, DaemonSettings]]:
    settings = settings_of(installed, "trimtab-actor", admission_check="trimtab")
    assert settings.kubernetes is not None
    api = connect(settings.kubernetes)
    yield api, settings
    api.close()


def test_the_manifests_give_each_account_all_it_needs(installed: Plane, actor) -> None:
    api, settings = actor
    assert missing(api, settings) == []
    reader = settings_of(installed, "trimtab-reader")
    door = connect(reader.kubernetes or KubernetesSettings())
    try:
        assert missing(door, reader) == []
    finally:
        door.close()


def without(roles: list[Json], right: Right) -> list[Json]:
    """The roles as they would be without one permission."""
    found = copy.deepcopy(roles)
    for role in found:
        rules = []
        for rule in role["rules"]:
            if right.group not in rule.get("apiGroups", []) or right.resource not in rule.get("resources", []):
                rules.append(rule)
                continue
            others = [one for one in rule["resources"] if one != right.resource]
            verbs = [one for one in rule["verbs"] if one != right.verb]
            rules += [{**rule, "resources": others}] if others else []
            rules += [{**rule, "resources": [right.resource], "verbs": verbs}] if verbs else []
        role["rules"] = rules
    return found


def test_each_permission_taken_away_is_named_with_its_cost(installed: Plane, actor) -> None:
    api, settings = actor
    client = installed.client
    names = [("clusterroles", one, None) for one in ("trimtab-reader", "trimtab-actor", "trimtab-kueue-check")]
    names.append(("roles", "trimtab-own", "trimtab"))
    roles = [client.get(*name) for name in names]
    kinds = set(offered(api)[0])
    served = [
        one
        for one in rights_of(settings.kubernetes or KubernetesSettings(), may_act=True)
        # What is not installed here (Volcano, KAI, …) is absent, and so not missing.
        if not one.group or f"{one.resource.partition('/')[0]}.{one.group}" in kinds
    ]
    needed = {"daemonsets", "jobsets", "workloadpriorityclasses", "resourceflavors", "configmaps", "workloads/status"}
    assert needed <= {one.resource for one in served}

    def put(wanted: list[Json]) -> None:
        for (kind, name, namespace), role in zip(names, wanted, strict=True):
            client.patch(kind, name, {"rules": role["rules"]}, namespace)

    try:
        for right in served:
            put(without(roles, right))
            said = wait_for(lambda: missing(api, settings), f"{right.text} missed")
            assert [(one.sentence, one.costs) for one in said] == [(f"This account may not {right.text}.", right.costs)]
    finally:
        put(roles)


def test_the_verb_says_it_as_people_read_it(installed: Plane, tmp_path: Path) -> None:
    settings = tmp_path / "daemon.toml"
    kubeconfig = installed.kubeconfig("trimtab-agent", "trimtab")  # an account that may do nothing
    settings.write_text(f'[kubernetes]\nkubeconfig = "{kubeconfig}"\n')
    done = verb("doctor", "--cluster", "--settings", str(settings), home=tmp_path)
    assert done.returncode == 1
    assert "This account may not list nodes. No snapshot is whole, so nothing is planned." in " ".join(
        done.stdout.split()
    )
    assert "fix: Apply docs/how-to/kubernetes/base." in " ".join(done.stdout.split())


def test_a_cluster_that_cannot_be_reached_is_one_plain_sentence(tmp_path: Path) -> None:
    kubeconfig = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "x"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    (tmp_path / "k.yaml").write_text(yaml.safe_dump(kubeconfig))
    settings = tmp_path / "daemon.toml"
    settings.write_text(f'[kubernetes]\nkubeconfig = "{tmp_path}/k.yaml"\n')
    done = verb("doctor", "--cluster", "--settings", str(settings), home=tmp_path)
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
