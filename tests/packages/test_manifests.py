"""What the Kubernetes manifests name is what the image has: its name, user, verbs, ports and places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from packages import image
from trimtab.cli import VERBS
from trimtab.settings import AgentSettings, DaemonSettings, load

FOLDER = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes"
Json = dict[str, Any]


def objects() -> list[Json]:
    return [one for path in sorted(FOLDER.rglob("*.yaml")) for one in yaml.safe_load_all(path.read_text()) if one]


def workloads() -> list[tuple[Json, Json]]:
    """(Pod's spec, container) of everything that runs."""
    specs = [one["spec"]["template"]["spec"] for one in objects() if one["kind"] in ("Deployment", "DaemonSet")]
    return [(spec, container) for spec in specs for container in spec.get("containers", [])]


def full() -> list[tuple[Json, Json]]:
    return [(spec, container) for spec, container in workloads() if "image" in container]


def test_there_are_the_daemon_and_the_agent():
    assert sorted(container["name"] for _, container in full()) == ["agent", "daemon"]


@pytest.mark.parametrize("name", ["agent", "daemon"])
def test_a_container_names_the_image_and_asks_for_what_is_in_it(name: str):
    [container] = [one for _, one in full() if one["name"] == name]
    assert container["image"] == f"{image.NAME}:latest"  # one of the two tags that the layout has
    assert "command" not in container  # the image's entrypoint is trimtab
    assert container["args"][0] in VERBS
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    kept = [one["mountPath"] for one in container["volumeMounts"] if one["mountPath"].startswith("/var/lib/")]
    assert kept == [image.VOLUMES[0] if name == "daemon" else image.VOLUMES[1]]
    ports = {f"{one['containerPort']}/tcp" for one in container.get("ports", [])}
    assert ports <= set(image.PORTS)


def test_the_daemon_runs_as_the_images_user_and_the_agent_as_root():
    by_name = {container["name"]: (spec, container) for spec, container in full()}
    spec, _ = by_name["daemon"]
    user = {spec["securityContext"][one] for one in ("runAsUser", "runAsGroup", "fsGroup")}
    assert user == {image.UID}
    _, agent = by_name["agent"]
    assert agent["securityContext"]["runAsUser"] == 0  # /dev/kmsg and the node's folder are root's


@pytest.mark.parametrize(("name", "kind"), [("daemon.toml", DaemonSettings), ("agent.toml", AgentSettings)])
def test_the_settings_in_the_manifests_are_settings(
    name: str, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRIMTAB_NODE", "gpu-07")
    found = [one["data"][name] for one in objects() if one["kind"] == "ConfigMap" and name in one.get("data", {})]
    assert found
    for text in found:
        file = tmp_path / name
        file.write_text(text)
        load(file, kind)
