"""Story d: a Volcano gang in racks of five nodes leaves a bad node, on a real API server beside Volcano's stand-in.

Snapshots are the reader's, as the issuer gets them; each step is taken when a snapshot shows that the one before it is
done. A rival waits for the very seat all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import build
from tests.cluster.client import Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.volcano.standin import Standin
from tests.cluster.volcano.webhook_server import WebhookServer
from tests.cluster.volcano.world import node
from tests.schedulers.hands import Desk
from tests.schedulers.volcano_hall import EVICTED_RESTARTS, HARD, a_move, command_of, rack_node, vcjob

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerRefused, SchedulerUnavailable
from trimtab.issue.arrival import is_settled
from trimtab.issue.look import is_held
from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.command import Command, CommandState
from trimtab.schedulers.connect import connect
from trimtab.schedulers.mirror import Mirror
from trimtab.schedulers.reader import KubernetesReader
from trimtab.schedulers.volcano import VolcanoScheduler
from trimtab.settings import KubernetesSettings

CRDS = Path(__file__).parent / "volcano" / "crds.yaml"
SPACE = "team-a"
JOBS = "batch.volcano.sh/v1alpha1/jobs"
DEADLINE_SECONDS = 90.0
RACKS = {f"rack-{rack}": [f"n{5 * rack - 5 + number:02}" for number in range(1, 6)] for rack in (1, 2)}


@dataclass
class Hall:
    """Two racks of five nodes × 8 GPUs, the reader, the adapter, and what drives it as the issuer does."""

    plane: Plane
    standin: Standin
    reader: KubernetesReader
    desk: Desk
    adapter: VolcanoScheduler
    most_retries: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def snapshot(self) -> ClusterSnapshot:
        """The reader's, as soon as it is whole."""

        def whole() -> ClusterSnapshot | None:
            try:
                return self.reader.snapshot()
            except SchedulerUnavailable:
                return None

        found = wait_for(whole, "a whole snapshot", deadline_seconds=DEADLINE_SECONDS)
        assert found is not None
        for job in self.plane.client.list(JOBS, SPACE):
            retries = int((job.get("status") or {}).get("retryCount", 0))
            name = job["metadata"]["name"]
            self.most_retries[name] = max(self.most_retries.get(name, 0), retries)
        return found

    def run(self, body: Json, *, is_running: bool = True) -> str:
        """Create a job; by default wait until the reader sees it run."""
        self.plane.client.create(JOBS, body)
        workload = f"{SPACE}/vcjob/{body['metadata']['name']}"
        if is_running:
            wanted = sum(task["replicas"] for task in body["spec"]["tasks"])
            self.until(lambda: len(self.seats(workload)) == wanted, f"{workload} runs")
        return workload

    def until(self, is_there: Callable[[], bool], what: str) -> None:
        wait_for(is_there, what, deadline_seconds=DEADLINE_SECONDS)

    def workload(self, workload: str) -> Workload | None:
        return self.snapshot().workload_by_id.get(workload)

    def seats(self, workload: str) -> dict[str, str]:
        """Pod -> node, once it is seen to run."""
        found = self.workload(workload)
        if found is None or found.state.value != "running":
            return {}
        return {placement.pod: placement.node for placement in found.placements}

    def uids(self, name: str) -> dict[str, str]:
        pods = self.plane.client.list("pods", SPACE)
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in pods
            if pod["metadata"]["labels"].get("volcano.sh/job-name") == name
        }

    def cordon(self, name: str) -> None:
        """As a person does."""
        self.plane.client.patch("nodes", name, {"spec": {"unschedulable": True}}, fieldManager="kubectl-cordon")

    def job(self, name: str = "train") -> Json:
        found: Json = self.plane.client.get(JOBS, name, SPACE)
        return found

    def carry_out(self, command: Command) -> Command:
        """Hold until it is seen, submit every beat until it is seen to be settled, release; the settled command."""
        self.until(lambda: self._went(self.adapter.hold, command), "the hold is written")
        self.until(lambda: is_held(command, self.snapshot()), "the hold is seen")
        command = replace(command, submitted_at=SystemClock().now())

        def is_over() -> bool:
            if is_settled(command, self.snapshot()):
                return True
            self._went(self.adapter.submit, command)
            return False

        self.until(is_over, f"settled; said: {self.said[-2:]}")
        return self.give_back(replace(command, state=CommandState.SETTLED))

    def give_back(self, command: Command) -> Command:
        """Release until no snapshot shows anything of it but what lasts."""

        def is_back() -> bool:
            self._went(self.adapter.release, command)
            snapshot = self.snapshot()
            held = [one for one in snapshot.held if one.mark == command.mark and not one.lasts]
            kept = [one for one in snapshot.reservations if one.command == command.mark]
            stopped = [one for one in snapshot.workloads if one.suspended_by == command.mark]
            return not (held or kept or stopped)

        self.until(is_back, "everything given back")
        return command

    def _went(self, write: Callable[[Command], None], command: Command) -> bool:
        try:
            write(command)
        except (SchedulerBusy, SchedulerConflict, SchedulerUnavailable) as error:
            self.said.append(str(error))
            return False
        return True

    def clear(self) -> None:
        """No jobs, nodes open and bare."""
        client = self.plane.client
        self.standin.start()
        for one in client.list(JOBS, SPACE):
            client.delete(JOBS, one["metadata"]["name"], SPACE)
        for one in client.list("nodes"):
            bare: dict[str, Any] = {"spec": {"unschedulable": None, "taints": None}}
            bare["metadata"] = {"annotations": {"trimtab/hold": None}}
            client.patch("nodes", one["metadata"]["name"], bare)
        self.until(lambda: not client.list("pods", SPACE), "no pods")
        self.until(lambda: not self.snapshot().workloads, "nothing is seen any more")
        self.most_retries.clear()
        self.said.clear()


@pytest.fixture(scope="module")
def volcano_plane() -> Iterator[Plane]:
    """A plane of its own: Volcano's kinds from the start, no Kueue."""
    if (reason := build.why_not()) is not None or build.find() is None:
        refuse = pytest.fail if build.mode() == "require" else pytest.skip
        refuse(reason or f"the real control plane is not built: {build.BUILD}")
    plane = Plane.boot(build.find(), crds=[CRDS], has_kueue=False)
    yield plane
    plane.stop()


@pytest.fixture(scope="module")
def module_hall(volcano_plane: Plane) -> Iterator[Hall]:
    plane = volcano_plane
    client = plane.client
    client.create("namespaces", {"metadata": {"name": SPACE}})
    for rack, names in RACKS.items():
        client.create("topology.volcano.sh/v1alpha1/hypernodes", rack_node(rack, 0, int(names[0][1:]), 5))
        for name in names:
            made = node(name, rack=rack, gpus=8)
            status = made.pop("status")
            client.create("nodes", made)
            client.patch("nodes", name, {"status": status}, kind="strategic", subresource="status")
    settings = KubernetesSettings(kubeconfig=str(plane.admin_kubeconfig))
    standin = Standin(client)
    webhook = WebhookServer(client, standin.api, certificates=plane.certificates)
    standin.start()
    mirror, api = Mirror(connect(settings), settings, SystemClock()), connect(settings)
    mirror.start()
    reader = KubernetesReader(mirror, api=api, settings=settings, cluster="hall-a", clock=SystemClock())
    desk = Desk(api, clock=SystemClock(), settings=settings)
    adapter = VolcanoScheduler(desk.pen, lambda: reader.view, settings, SystemClock())
    yield Hall(plane, standin, reader, desk, adapter)
    mirror.stop()
    api.close()
    webhook.stop()
    standin.stop()


@pytest.fixture
def hall(module_hall: Hall) -> Iterator[Hall]:
    yield module_hall
    module_hall.clear()


def rack_of(seats: dict[str, str]) -> str:
    """The one rack of these seats."""
    (rack,) = {rack for rack, names in RACKS.items() for node in seats.values() if node in names}
    return rack


def spare_of(seats: dict[str, str]) -> str:
    return next(name for name in RACKS[rack_of(seats)] if name not in seats.values())


def test_a_gang_without_policies_loses_one_pod_to_the_seat_of_its_rack_and_no_retry(hall: Hall) -> None:
    workload = hall.run(vcjob("train", networkTopology=HARD))
    before, uids = hall.seats(workload), hall.uids("train")
    left = before["train-worker-1"]
    after = {**before, "train-worker-1": spare_of(before)}
    other = next(rack for rack in RACKS if rack != rack_of(before))
    full = hall.run(vcjob("full", pods=5, networkTopology=HARD))
    assert rack_of(hall.seats(full)) == other
    command = command_of([a_move(workload, before, after, replaced=["train-worker-1"])], cordons=[left])
    hall.adapter.hold(command)
    rival = hall.run(vcjob("rival", pods=1), is_running=False)
    hall.carry_out(command)
    assert hall.seats(workload) == after
    assert [pod for pod, uid in hall.uids("train").items() if uids[pod] == uid] == [
        "train-worker-0",
        "train-worker-2",
        "train-worker-3",
    ]
    assert hall.most_retries["train"] == 0
    assert hall.seats(rival) == {}
    found = hall.snapshot().node_by_name[left]
    assert (found.is_cordoned, found.cordoned_by) == (True, command.mark)


def test_a_gang_with_a_restart_policy_keeps_its_rack_and_all_its_seats_for_one_retry(hall: Hall) -> None:
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS], networkTopology=HARD))
    before = hall.seats(workload)
    left = before["train-worker-1"]
    after = {**before, "train-worker-1": spare_of(before)}
    hall.run(vcjob("full", pods=5, networkTopology=HARD))
    alone = a_move(workload, before, after, replaced=["train-worker-1"])
    refusal = hall.adapter.refusal(alone, hall.snapshot())
    assert refusal is not None
    assert "“job: PodEvicted → RestartJob” restarts the whole job" in refusal.sentence
    command = command_of([a_move(workload, before, after)], cordons=[left])
    hall.adapter.hold(command)
    rival = hall.run(vcjob("rival", pods=1), is_running=False)
    hall.carry_out(command)
    assert hall.seats(workload) == after
    assert hall.most_retries["train"] == 1
    assert hall.seats(rival) == {}


@pytest.mark.parametrize(("policies", "retries"), [([], 0), ([EVICTED_RESTARTS], 1)], ids=["zero-and-back", "restart"])
def test_a_gang_whose_rack_has_no_room_moves_whole_to_the_seats_of_another(
    hall: Hall, policies: list[Json], retries: int
) -> None:
    workload = hall.run(vcjob("train", policies=policies, maxRetry=1 + 2 * retries, networkTopology=HARD))
    before = hall.seats(workload)
    spec = hall.job()["spec"]
    home, left = rack_of(before), before["train-worker-1"]
    hall.cordon(spare_of(before))
    away = next(rack for rack in RACKS if rack != home)
    after = dict(zip(sorted(before), RACKS[away], strict=False))
    command = command_of([a_move(workload, before, after)], cordons=[left])
    hall.adapter.hold(command)
    rivals = [hall.run(vcjob(f"rival-{number}", pods=1), is_running=False) for number in (1, 2)]
    hall.until(lambda: any(hall.seats(rival) for rival in rivals), "the node that nobody keeps is taken")
    hall.carry_out(command)
    assert hall.seats(workload) == after
    assert hall.most_retries["train"] == retries
    assert hall.job()["spec"] == spec
    taken = [node for rival in rivals for node in hall.seats(rival).values()]
    assert not set(taken) & set(after.values())


def test_a_gang_without_retry_room_is_refused_and_untouched(hall: Hall) -> None:
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS], maxRetry=1, networkTopology=HARD))
    before, uids = hall.seats(workload), hall.uids("train")
    after = {**before, "train-worker-1": spare_of(before)}
    move = a_move(workload, before, after)
    refusal = hall.adapter.refusal(move, hall.snapshot())
    assert refusal is not None
    assert refusal.sentence.endswith("it has used 0 of 1 retries, and restart 1 fails it for good.")
    command = command_of([move], cordons=[before["train-worker-1"]])
    hall.adapter.hold(command)
    with pytest.raises(SchedulerRefused, match="restart 1 fails it for good"):
        hall.adapter.submit(command)
    hall.give_back(replace(command, state=CommandState.ABANDONED))
    assert hall.uids("train") == uids
    assert [node.name for node in hall.snapshot().nodes if node.is_cordoned] == []


def test_a_command_that_a_dead_controller_leaves_lying_is_withdrawn_and_does_nothing_later(hall: Hall) -> None:
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS], networkTopology=HARD))
    before, uids = hall.seats(workload), hall.uids("train")
    after = {**before, "train-worker-1": spare_of(before)}
    command = command_of([a_move(workload, before, after)], cordons=[before["train-worker-1"]])
    hall.adapter.hold(command)
    hall.standin.kill("controller")
    hall.adapter.submit(command)
    hall.until(lambda: any("Command RestartJob" in one.what for one in hall.snapshot().held), "the Command is seen")

    def is_withdrawn() -> bool:
        try:
            hall.adapter.submit(command)
        except SchedulerRefused as error:
            hall.said.append(str(error))
            return True
        return False

    hall.until(is_withdrawn, "nobody takes it")
    assert hall.said[-1].startswith("Volcano's controller-manager did not take RestartJob for team-a/train within 10 s")
    hall.give_back(replace(command, state=CommandState.ABANDONED))
    hall.standin.start("controller")
    late = hall.run(vcjob("late", pods=1, gpus=1))  # it is at work again, and has nothing of ours to do
    assert hall.seats(late)
    assert (hall.uids("train"), hall.most_retries["train"]) == (uids, 0)


@pytest.mark.parametrize("policies", [[], [EVICTED_RESTARTS]], ids=["zero-and-back", "restart"])
def test_given_up_in_the_middle_the_gang_runs_again_and_nothing_of_ours_is_left(
    hall: Hall, policies: list[Json]
) -> None:
    workload = hall.run(vcjob("train", policies=policies, networkTopology=HARD))
    before = hall.seats(workload)
    spec = hall.job()["spec"]
    after = {**before, "train-worker-1": spare_of(before)}
    command = command_of([a_move(workload, before, after)])
    hall.adapter.hold(command)
    hall.until(lambda: is_held(command, hall.snapshot()), "the hold is seen")
    hall.adapter.submit(command)
    hall.until(lambda: not hall.seats(workload), "the gang has stopped")
    hall.give_back(replace(command, state=CommandState.ABANDONED))
    hall.until(lambda: len(hall.seats(workload)) == 4, "the gang runs again")
    assert hall.job()["spec"] == spec
    snapshot = hall.snapshot()
    assert (snapshot.held, snapshot.reservations) == ((), ())
