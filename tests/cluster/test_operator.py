"""A person at work on the real thing, by the verbs: a pause set with kubectl, lines to copy, release in the middle."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import objects
from tests.cluster.client import Json
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed as _installed
from tests.cluster.whole import Whole
from tests.system.processes import eventually, verb

from trimtab.model.board import ReleaseRow
from trimtab.model.standing import StandingKind

installed = _installed
PAUSE = "trimtab-pause"
ONE_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}


class Person:
    """Runs verbs that find the daemon by its client file."""

    def __init__(self, whole: Whole, home: Path) -> None:
        self.whole, self.home = whole, home
        (home / "trimtab").mkdir()
        (home / "trimtab" / "client.toml").symlink_to(whole.daemon.state_directory / "client.toml")

    def says(self, *words: str, code: int = 0) -> str:
        done = verb(*words, home=self.home, COLUMNS="200")
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (words, done.stdout, done.stderr)
        return done.stdout

    def metric(self, name: str) -> float | None:
        page = self.whole.daemon.ask("GET", "/metrics").text
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.M)
        return float(found[1]) if found is not None else None


@pytest.fixture
def whole(installed: Plane, space: Space, tmp_path: Path) -> Iterator[Whole]:
    made = Whole(installed, space, tmp_path)
    yield made
    made.close()


@pytest.fixture
def person(whole: Whole, tmp_path: Path) -> Person:
    whole.space.add_racks(racks=1, nodes_per_rack=3)
    whole.space.run_gang("train", pods=1, gpus=8, topology=ONE_RACK)
    home = tmp_path / "anna"
    home.mkdir()
    whole.up()
    return Person(whole, home)


@pytest.fixture
def paused_there(installed: Plane) -> Iterator[None]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PAUSE}, "data": {"reason": "an upgrade"}}
    installed.client.create("configmaps", body, "trimtab")
    yield
    if installed.client.find("configmaps", PAUSE, "trimtab") is not None:
        installed.client.delete("configmaps", PAUSE, "trimtab")


def test_a_pause_set_with_kubectl_is_shown_and_only_kubectl_ends_it(person: Person, paused_there: None) -> None:
    board = person.whole.daemon.board
    sentence = "Paused in the cluster itself: an upgrade."
    eventually(lambda: board().pauses == (sentence,), said=person.whole.told)
    assert board().is_paused
    assert sentence in person.says("status")
    lines = person.says("resume").splitlines()
    assert lines[0] == "Resumed."
    assert lines[1].startswith("Still paused in the cluster itself: an upgrade.")
    assert lines[1].endswith("kubectl --namespace trimtab delete configmap trimtab-pause")
    person.whole.plane.client.delete("configmaps", PAUSE, "trimtab")
    eventually(lambda: not board().is_paused, said=person.whole.told)
    assert board().pauses == ()


def test_release_in_the_middle_of_a_move_gives_everything_back(person: Person) -> None:
    whole = person.whole
    bad = whole.space.pods("train")[0]["spec"]["nodeName"]
    eventually(lambda: person.metric("trimtab_lease_held") == 1.0, said=whole.told)
    assert "standby" not in person.says("status")
    whole.reporter.break_gpu(bad)
    row = whole.command(f"evacuate:{bad}")
    explained = person.says("explain", row.name).splitlines()
    assert row.command.recommendation.steps
    for line in (line for step in row.command.recommendation.steps for line in step.splitlines()):
        assert f"  {line}" in explained
    assert "How it goes" in explained
    person.says("approve", row.name)
    whole.until(row.command.id, "held", "confirmed", "submitted", "settled")
    said = person.says("release", "--all", "--wait", "--reason", "we leave", "--limit", "2m")
    assert "Everything of ours is given back." in said
    assert whole.row(row.command.id).command.state == "undone"
    assert marked(whole.space) == []
    whole.space.wait_running("train", 1)
    release = whole.daemon.board().release
    assert isinstance(release, ReleaseRow)
    assert (release.is_done, release.left) == (True, ())
    assert whole.daemon.board().pauses[0].startswith("Paused by operator:")
    assert "release --all: we leave" in whole.daemon.board().pauses[0]
    assert (person.metric('trimtab_reader_lists_total{kind="pods"}') or 0) >= 1
    assert (person.metric('trimtab_scheduler_writes_total{result="done",what="cordon"}') or 0) >= 1
    assert person.metric("trimtab_lease_epoch") is not None
    assert person.says("resume") == "Resumed.\n"
    vetoes = [one for one in whole.daemon.board().vetoes if one.kind is StandingKind.VETO]
    assert vetoes == [], "what we open ourselves is no veto"


def marked(space: Space) -> list[str]:
    """Objects of the space that bear an annotation of ours, a cordon, or a stopped workload."""
    found = [name for name in space.nodes if _is_marked(space.client.get("nodes", name))]
    items = [*space.client.list("workloads", space.namespace), *space.client.list("jobs", space.namespace)]
    return found + [one["metadata"]["name"] for one in items if _is_marked(one)]


def _is_marked(item: Json) -> bool:
    annotations = item["metadata"].get("annotations") or {}
    spec = item["spec"]
    return "trimtab/hold" in annotations or bool(spec.get("unschedulable")) or spec.get("active") is False
