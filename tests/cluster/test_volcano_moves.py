"""Story d: a Volcano gang in racks of five nodes leaves a bad node, on a real API server beside Volcano's stand-in.

Snapshots are the reader's, as the issuer gets them; each step is taken when a snapshot shows that the one before it is
done. A rival waits for the very seat all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster import build, manifests
from tests.cluster.client import ApiError, Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.volcano_hall import JOBS, RACKS, SPACE, Daemon, Hall, a_hall, rack_of, spare_of
from tests.schedulers.hands import Desk
from tests.schedulers.volcano_hall import EVICTED_RESTARTS, HARD, a_move, command_of, vcjob

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerRefused
from trimtab.issue.look import is_held
from trimtab.model.command import CommandState
from trimtab.schedulers.connect import connect
from trimtab.schedulers.volcano import VolcanoScheduler
from trimtab.settings import KubernetesSettings

CRDS = Path(__file__).parent / "volcano" / "crds.yaml"


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
    with a_hall(volcano_plane) as made:
        yield made


@pytest.fixture
def hall(module_hall: Hall) -> Iterator[Hall]:
    yield module_hall
    module_hall.clear()


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
    hall.until(lambda: not any(node.is_cordoned for node in hall.snapshot().nodes), "no node is cordoned any more")


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


# --- the whole path: reader, planner, issuer, adapter


@pytest.mark.parametrize(
    ("policies", "retries"), [([], 0), ([EVICTED_RESTARTS], 1)], ids=["no-policy", "restart-policy"]
)
def test_xid_79_under_a_gang_and_the_daemon_brings_it_to_the_spare_node_of_its_rack(
    hall: Hall, policies: list[Json], retries: int
) -> None:
    workload = hall.run(vcjob("train", policies=policies, networkTopology=HARD))
    before = hall.seats(workload)
    home, left = rack_of(before), before["train-worker-2"]
    hall.run(vcjob("full", pods=5, networkTopology=HARD))
    daemon = Daemon(hall)
    daemon.bad(left)
    daemon.run_until(daemon.has_settled, "settled")
    after = hall.seats(workload)
    assert (rack_of(after), len(after), left in after.values()) == (home, 4, False)
    assert hall.most_retries["train"] == retries
    (command,) = daemon.commands
    outcome = daemon.ledger.results[command.id]
    print(f"{command.recommendation.way} It took {outcome.seconds_to_settle:.1f} s: {outcome.sentence}")
    assert (outcome.seats_hit, outcome.seats_planned) == (4, 4)


@pytest.mark.parametrize("policies", [[], [EVICTED_RESTARTS]], ids=["no-policy", "restarts"])
def test_small_jobs_make_room_for_a_waiting_one_though_other_nodes_are_open(hall: Hall, policies: list[Json]) -> None:
    """Who starts on an open node before we met it makes the command a miss, never the waiting job."""
    for name in RACKS["rack-2"]:
        hall.cordon(name)
    for number, name in enumerate(RACKS["rack-1"]):
        hall.run_on(vcjob(f"small-{number}", pods=1, gpus=2, policies=policies), name)
    big = hall.run(vcjob("big", pods=1), is_running=False)
    hall.until(lambda: big in {one.id for one in hall.snapshot().waiting}, "it waits")
    daemon = Daemon(hall)
    daemon.run_until(daemon.is_over, "over")
    for command in daemon.commands:
        assert command.state is CommandState.SETTLED or command.reason.endswith("runs elsewhere than planned.")
    assert len(hall.seats(big)) == 1
    for number in range(5):
        assert len(hall.seats(f"team-a/vcjob/small-{number}")) == 1
    outcomes = daemon.ledger.results.values()
    hit, planned = sum(one.seats_hit for one in outcomes), sum(one.seats_planned for one in outcomes)
    print(f"seats hit: {hit} of {planned}")
    hall.until(lambda: not hall.snapshot().held and not hall.snapshot().reservations, "everything is given back")


# --- with the rights that are shipped


@pytest.fixture
def as_actor(hall: Hall) -> Iterator[Hall]:
    """The same hall, written to by the acting account, under its policies."""
    client = hall.plane.client
    shipped = [one for one in manifests.documents() if one["kind"] != "AdmissionCheck"]  # there is no Kueue here
    for one in shipped:
        client.ensure(manifests.PLURALS[one["kind"]], one)
    settings = KubernetesSettings(kubeconfig=str(hall.plane.kubeconfig("trimtab-actor", "trimtab")))
    api = connect(settings)
    desk = Desk(api, clock=SystemClock(), settings=settings)
    yield replace(hall, desk=desk, adapter=VolcanoScheduler(desk.pen, lambda: hall.reader.view, settings, desk.clock))
    api.close()
    for one in shipped:
        if one["kind"] != "Namespace":
            client.delete(manifests.PLURALS[one["kind"]], one["metadata"]["name"], one["metadata"].get("namespace"))


def _is_fenced(hall: Hall) -> bool:
    """A policy takes a moment after it is made."""
    actor = hall.plane.client_of("trimtab-actor", "trimtab")
    try:
        actor.patch(JOBS, "train", {"spec": {"queue": "other"}}, SPACE, dryRun="All")
    except ApiError as error:
        return "trimtab changes only" in str(error)
    finally:
        actor.close()
    return False


@pytest.mark.parametrize(("policies", "is_alone"), [([], True), ([], False), ([EVICTED_RESTARTS], False)])
def test_the_acting_account_needs_no_right_that_is_not_shipped(
    as_actor: Hall, policies: list[Json], is_alone: bool
) -> None:
    hall = as_actor
    workload = hall.run(vcjob("train", policies=policies, networkTopology=HARD))
    wait_for(lambda: _is_fenced(hall), "the policies in force")
    before = hall.seats(workload)
    for name in next(names for rack, names in RACKS.items() if rack != rack_of(before)):
        hall.cordon(name)
    left = before["train-worker-0"]
    after = {**before, "train-worker-0": spare_of(before)}
    replaced = ["train-worker-0"] if is_alone else []
    hall.carry_out(command_of([a_move(workload, before, after, replaced=replaced)], cordons=[left]))
    assert hall.seats(workload) == after
    # A Job whose status was written at that very moment is tried again; what counts is that no right was missing.
    assert [line for line in hall.desk.lines if " 403 " in line.why or "trimtab changes" in line.why] == []
    assert [what for what in hall.desk.said if what.startswith("nominate ")]
