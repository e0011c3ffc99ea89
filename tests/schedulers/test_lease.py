"""One writer at any instant: two daemons, one Lease, clocks of their own, on the API server in memory."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube

from trimtab.errors import SchedulerUnavailable, SettingsError
from trimtab.model.command import AuditLine
from trimtab.schedulers.kubernetes import PatchKind
from trimtab.schedulers.lease import FencedApi, Lease
from trimtab.settings import KubernetesSettings

PATH = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases/trimtab"
SETTINGS = KubernetesSettings()
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-00"}}


@dataclass
class Pair:
    """Two daemons whose wall clocks disagree by an hour and whose monotonic clocks began elsewhere."""

    kube: FakeKube = field(default_factory=FakeKube)
    clocks: tuple[FakeClock, FakeClock] = field(default_factory=lambda: (FakeClock(), FakeClock()))

    def __post_init__(self) -> None:
        self.clocks[1].advance(3600)
        self.kube.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trimtab"}})
        self.a, self.b = self.lease("a", 0), self.lease("b", 1)

    def lease(self, identity: str, clock: int, **changes) -> Lease:
        return Lease(self.kube, SETTINGS, identity=identity, clock=self.clocks[clock], **changes)

    def pass_time(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.advance(seconds)

    @property
    def writers(self) -> list[str]:
        return [one.identity for one in (self.a, self.b) if one.why_not() is None]

    def settle(self) -> None:
        """`a` holds it and may write."""
        self.a.tick()
        for _ in range(8):
            self.pass_time(2)
            self.a.tick()
            self.b.tick()
        assert self.writers == ["a"]

    @property
    def record(self):
        return self.kube.get(PATH)["spec"]


def test_one_holds_it_and_the_other_says_who():
    pair = Pair()
    pair.settle()
    assert pair.b.why_not() == "the lease is held by a"
    assert (pair.a.epoch, pair.b.epoch) == (1, None)
    assert (pair.record["holderIdentity"], pair.record["leaseDurationSeconds"]) == ("a", 15)


def test_a_lease_that_was_just_made_is_not_written_under_until_an_older_one_would_have_ended():
    pair = Pair()
    pair.a.tick()
    assert pair.a.why_not() == "the lease of the daemon before this one runs for another 15.0 s"
    pair.settle()


def test_a_dead_holders_lease_is_taken_over_when_it_has_run_out_and_not_before():
    pair = Pair()
    pair.settle()
    said = []
    for _ in range(10):
        pair.pass_time(2)
        said.append(pair.b.tick())
    assert said[:7] == 7 * ["the lease is held by a"]
    assert "the lease is taken over from a" in said
    assert pair.writers == ["b"]
    assert (pair.b.epoch, pair.record["leaseTransitions"]) == (2, 2)


def test_a_lease_given_up_is_taken_over_at_once():
    pair = Pair()
    pair.settle()
    assert pair.a.release() == "the lease is given up"
    assert pair.writers == []
    assert pair.b.tick() == "the lease is taken over from nobody"
    assert pair.writers == ["b"]
    assert pair.a.release() == "the lease was not ours"


def test_nothing_is_written_when_what_is_left_does_not_outlast_a_request():
    pair = Pair()
    pair.settle()
    pair.pass_time(4)
    assert pair.a.why_not() is None
    pair.pass_time(2)
    assert pair.a.why_not() == "the lease is ours for another 9.0 s and a request may take 10 s"


def test_a_frozen_holder_writes_nothing_when_it_wakes():
    pair = Pair()
    pair.settle()
    api = FencedApi(pair.kube, pair.a)
    pair.kube.add(NODE)
    api.patch("/api/v1/nodes/gpu-00", {"spec": {"unschedulable": True}}, PatchKind.MERGE)
    for _ in range(12):
        pair.pass_time(2)
        pair.b.tick()
    assert pair.b.why_not() is None
    with pytest.raises(SchedulerUnavailable, match=r"not sent \(PATCH /api/v1/nodes/gpu-00\): the lease is ours for"):
        api.patch("/api/v1/nodes/gpu-00", {"spec": {"unschedulable": False}}, PatchKind.MERGE)
    assert pair.a.tick() == "the lease is held by b"
    assert pair.a.why_not() == "the lease is held by b"


def test_every_kind_of_write_is_fenced_and_reads_pass():
    pair = Pair()
    api = FencedApi(pair.kube, pair.b)
    pair.kube.add(NODE)
    path = "/api/v1/nodes/gpu-00"
    assert api.get(path)["metadata"]["name"] == "gpu-00"
    assert b"gpu-00" in api.raw(path)
    for write in (
        lambda: api.post("/api/v1/nodes", NODE),
        lambda: api.put(path, NODE),
        lambda: api.patch(path, {}, PatchKind.MERGE),
        lambda: api.delete(path),
    ):
        with pytest.raises(SchedulerUnavailable, match="the lease is not held by this daemon"):
            write()
    pair.a = pair.b
    pair.a.tick()
    for _ in range(8):
        pair.pass_time(2)
        pair.a.tick()
    api.patch(path, {"spec": {"unschedulable": True}}, PatchKind.MERGE)
    assert pair.kube.calls[-1].params["timeout"] == "10s", "the server gives up when we do"
    api.delete(path)
    assert pair.kube.calls[-1].params["timeout"] == "10s"


def test_an_api_that_does_not_answer_leaves_what_is_held_until_it_runs_out():
    pair = Pair()
    pair.settle()
    pair.kube.fail(SchedulerUnavailable("no answer within 10 s"), at="leases", hits_reads=True, times=100)
    pair.pass_time(2)
    assert pair.a.tick() == "the lease cannot be reached: no answer within 10 s"
    assert pair.a.why_not() is None
    pair.pass_time(8)
    assert pair.a.why_not() is not None


def test_a_renewal_whose_answer_was_lost_is_still_ours():
    pair = Pair()
    pair.settle()
    pair.pass_time(2)
    pair.kube.fail(SchedulerUnavailable("lost"), at="PUT", is_after=True)
    pair.a.tick()
    pair.pass_time(2)
    assert pair.a.tick() == "the lease is ours"
    assert pair.writers == ["a"]


def test_an_acquisition_whose_answer_was_lost_waits_a_full_term():
    pair = Pair()
    pair.settle()
    pair.pass_time(30)
    pair.kube.fail(SchedulerUnavailable("lost"), at="PUT", is_after=True)
    assert pair.b.tick() == "the lease cannot be reached: lost"
    assert pair.writers == []
    assert pair.b.tick() == "the lease is ours"
    assert "runs for another" in str(pair.b.why_not())
    for _ in range(8):
        pair.pass_time(2)
        pair.b.tick()
    assert pair.writers == ["b"]


def test_who_writes_first_wins_and_the_other_looks_again():
    pair = Pair()
    pair.settle()
    pair.pass_time(2)
    pair.a.tick()
    pair.b.tick()
    pair.pass_time(16)
    found = pair.kube.get(PATH)
    original = pair.kube.get

    def stale(path, params=None):
        pair.kube.get = original
        pair.b.tick()
        return found

    pair.kube.get = stale
    pair.a.tick()
    assert pair.record["holderIdentity"] == "b"
    assert pair.writers == ["b"]


# --- elected elsewhere (PostgreSQL)


def test_an_elected_daemon_takes_the_lease_over_at_once_and_writes_when_the_former_holders_has_run_out():
    pair = Pair()
    pair.settle()
    pair.b = pair.lease("b", 1, is_elected=lambda: True)
    pair.a.tick()
    assert pair.b.tick() == "the lease is taken over from a"
    assert pair.record["holderIdentity"] == "b"
    assert pair.writers == ["a"], "it does not know yet"
    assert pair.b.why_not() == "the lease of the daemon before this one runs for another 15.0 s"
    assert pair.a.tick() == "the lease is held by b"
    assert pair.writers == []
    for _ in range(8):
        pair.pass_time(2)
        pair.b.tick()
    assert pair.writers == ["b"]


def test_a_daemon_that_is_not_elected_gives_way_at_once():
    pair = Pair()
    is_active = [True]
    pair.a = pair.lease("a", 0, is_elected=lambda: is_active[0])
    pair.settle()
    is_active[0] = False
    assert pair.a.tick() == "another daemon is the active one"
    assert pair.writers == []


# --- any order of anything


@dataclass
class Chaos:
    """Two daemons, frozen, cut off, released, elected by chance; now and then somebody deletes the Lease."""

    chance: random.Random
    pair: Pair
    active: str = "a"
    frozen: dict[str, int] = field(default_factory=lambda: {"a": 0, "b": 0})

    def turn(self, lease: Lease) -> None:
        if self.frozen[lease.identity] > 0:
            self.frozen[lease.identity] -= 1
            return
        if self.chance.random() < 0.02:
            self.frozen[lease.identity] = self.chance.randrange(40)
        self.trouble(lease, self.chance.random())
        lease.tick()
        self.pair.kube.faults.clear()

    def trouble(self, lease: Lease, what: float) -> None:
        kube = self.pair.kube
        if what < 0.05:
            kube.fail(SchedulerUnavailable("lost"), at="leases", is_after=self.chance.random() < 0.5)
        elif what < 0.052 and kube.get(PATH.removesuffix("/trimtab"))["items"]:
            kube.remove(PATH)
        elif 0.052 < what < 0.056:
            lease.release()
        elif 0.056 < what < 0.07:
            self.active = self.chance.choice("ab")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("is_elected", [False, True])
def test_never_two_writers_whatever_happens(seed, is_elected):
    chaos = Chaos(random.Random(seed), Pair())
    pair, holders = chaos.pair, [""]
    if is_elected:
        pair.a = pair.lease("a", 0, is_elected=lambda: chaos.active == "a")
        pair.b = pair.lease("b", 1, is_elected=lambda: chaos.active == "b")
    for _ in range(1200):
        pair.pass_time(chaos.chance.choice((0.1, 0.5, 1.0, 2.0, 2.0, 2.0, 5.0)))
        for lease in (pair.a, pair.b):
            chaos.turn(lease)
            assert len(pair.writers) <= 1
        holders += [one for one in pair.writers if one != holders[-1]]
    assert len(holders) > 3


def test_the_audit_bears_the_epoch():
    pair = Pair()
    pair.settle()
    lines: list[AuditLine] = []
    line = AuditLine(at=pair.clocks[0].now(), who="trimtab", what="cordon gpu-00", why="F1")
    pair.a.noting(lines.append)(line)
    pair.b.noting(lines.append)(line)
    assert [one.why for one in lines] == ["F1 (epoch 1)", "F1"]


def test_timings_that_could_never_write_are_refused():
    settings = KubernetesSettings(lease_seconds=10, request_timeout_seconds=10)
    with pytest.raises(SettingsError, match=r"lease_seconds is 10 and must be more than .* \(12\)"):
        Lease(FakeKube(), settings, identity="a", clock=FakeClock())
