"""One kind kept in step: lists and watches, gaps, silence, and bounds on attempts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube
from tests.schedulers.test_mirror import PODS, a_kube, a_node, a_pod

from trimtab.errors import SchedulerBusy, SchedulerSilent, SchedulerUnavailable
from trimtab.schedulers.objects import Loose, Pod
from trimtab.schedulers.pace import ATTEMPTS_MAX, CAP_SECONDS, CLOSED_CAP_SECONDS, Pace
from trimtab.schedulers.reflector import SILENT_WATCHES_MAX, Reflector
from trimtab.schedulers.resources import RESOURCES
from trimtab.schedulers.shelf import Shelf


def a_reflector(kube: FakeKube, clock: FakeClock, name: str = "pods") -> Reflector:
    """One that has listed and watched once."""
    kind = next(kind for kind in RESOURCES if kind.name == name)
    reflector = Reflector(
        kube,
        Shelf(kind, Pod if name == "pods" else Loose),
        path=kind.path(kind.versions[0], "trimtab"),
        selection={},
        clock=clock,
        pace=Pace(clock, lambda: 0.5),
    )
    reflector.step()
    return reflector


def test_an_expired_version_means_a_list_which_finds_what_the_gap_hid() -> None:
    kube, clock = a_kube(), FakeClock()
    reflector = a_reflector(kube, clock)
    kube.remove("/api/v1/namespaces/a/pods/p0")
    kube.add(a_pod("p2"))
    kube.compact()
    kube.add(a_node("later"))  # the version that was seen last is now too old
    reflector.step()
    assert reflector.error is not None
    assert reflector.counts.errors == {"gone": 1}
    assert list(reflector.shelf.content().objects) == ["a/p0", "a/p1"]
    reflector.step()
    assert list(reflector.shelf.content().objects) == ["a/p1", "a/p2"]
    assert reflector.error is None
    assert (reflector.counts.lists, reflector.counts.relisted_differing) == (2, 2)


def test_long_lists_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.schedulers.reflector.PAGE_OBJECTS", 2)
    kube = a_kube()
    for number in range(5):
        kube.add(a_pod(f"q{number}"))
    reflector = a_reflector(kube, FakeClock())
    assert len(reflector.shelf.content().objects) == 7
    lists = [call for call in kube.calls if call.text == f"GET {PODS}"]
    assert len(lists) == 4


def test_slim_kinds_keep_their_replicas_and_not_their_templates() -> None:
    kube = a_kube()
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    body = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d", "namespace": "a"}}
    kube.add({**body, "spec": {**spec, "template": template}})
    content = a_reflector(kube, FakeClock(), "deployments.apps").shelf.content().objects["a/d"]
    assert content.spec == {**spec, "template": {"metadata": {"labels": {"a": "b"}}}}
    assert (content.kind, content.api_version) == ("Deployment", "apps/v1")


class Silent(FakeKube):
    """Its watches open and say nothing, as those from a version that a restored server never had."""

    def watch(self, path: str, params: Mapping[str, str], *, quiet_seconds_max: float) -> Iterator[bytes]:
        super().watch(path, params, quiet_seconds_max=quiet_seconds_max)

        def lines() -> Iterator[bytes]:
            raise SchedulerSilent(f"WATCH {path}: nothing came for 90 s")
            yield b""

        return lines()


def test_after_watches_that_say_nothing_the_version_is_doubted() -> None:
    kube, clock = Silent(), FakeClock()
    kube.add(a_pod("p0"))
    reflector = a_reflector(kube, clock)
    for _ in range(SILENT_WATCHES_MAX + 1):
        clock.advance(90)
        reflector.step()
    assert reflector.counts.errors["silent"] == SILENT_WATCHES_MAX + 2
    assert reflector.counts.lists == 2


def test_an_event_that_cannot_be_read_means_a_list() -> None:
    class Garbled(FakeKube):
        garbage: list[bytes] = [b'{"type": "MODIFIED", "object": ']  # noqa: RUF012 - of one test

        def watch(self, path: str, params: Mapping[str, str], *, quiet_seconds_max: float) -> Iterator[bytes]:
            return iter([self.garbage.pop()]) if self.garbage else super().watch(path, params, quiet_seconds_max=1)

    kube = Garbled()
    kube.add(a_pod("p0"))
    reflector = a_reflector(kube, FakeClock())
    assert "an event cannot be read" in str(reflector.error)
    kube.add(a_pod("p1"))
    reflector.step()
    assert sorted(reflector.shelf.content().objects) == ["a/p0", "a/p1"]
    assert reflector.counts.lists == 2


def test_a_busy_server_is_asked_again_when_it_says() -> None:
    kube, clock = a_kube(), FakeClock()
    reflector = a_reflector(kube, clock)
    busy = SchedulerBusy("429 storage is (re)initializing")
    busy.retry_after_seconds = 12.0
    kube.fail(busy, PODS, hits_reads=True)
    assert reflector.step() >= 12.0
    assert reflector.counts.errors == {"busy": 1}


@pytest.mark.parametrize("is_failure", [True, False])
@pytest.mark.parametrize("lived_seconds", [0.0, 0.5, 29.0])
def test_no_server_is_asked_more_than_ten_times_a_minute(lived_seconds: float, is_failure: bool) -> None:
    clock = FakeClock()
    pace = Pace(clock, random.Random(1).random)
    begun: list[float] = []
    while clock.monotonic_seconds() < 5000:
        begun.append(clock.monotonic_seconds())
        pace.begin()
        clock.advance(lived_seconds)
        clock.advance(pace.after(is_failure=is_failure))
    for at in begun:
        assert sum(1 for other in begun if at <= other < at + 60) <= ATTEMPTS_MAX
    longest = max(later - earlier for earlier, later in pairwise(begun)) - lived_seconds
    assert longest <= (CAP_SECONDS if is_failure else CLOSED_CAP_SECONDS), "and it is not forgotten either"


def test_a_connection_that_lived_long_makes_a_fresh_start() -> None:
    clock = FakeClock()
    pace = Pace(clock, lambda: 1.0)
    waits = []
    for _ in range(4):
        pace.begin()
        waits.append(pace.after(is_failure=True))
        clock.advance(waits[-1])
    assert waits == [1.0, 2.0, 4.0, 8.0]
    pace.begin()
    clock.advance(290)
    assert pace.after(is_failure=False) == 0.0


WORDS = ("add", "edit", "remove", "step", "forget", "refuse", "cut")
DEEDS = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(min_value=0, max_value=4)), max_size=40)


class Cutting(FakeKube):
    """Its next watch is cut after so many lines."""

    cut_after: int | None = None

    def watch(self, path: str, params: Mapping[str, str], *, quiet_seconds_max: float) -> Iterator[bytes]:
        lines = list(super().watch(path, params, quiet_seconds_max=quiet_seconds_max))
        after, self.cut_after = self.cut_after, None
        if after is None:
            return iter(lines)

        def cut() -> Iterator[bytes]:
            yield from lines[:after]
            raise SchedulerUnavailable("cut")

        return cut()


def do(kube: Cutting, reflector: Reflector, deed: str, number: int) -> None:
    path = f"/api/v1/namespaces/a/pods/p{number}"
    is_there = kube.see(path) is not None
    if deed == "edit" and is_there:
        kube.edit(path, {"metadata": {"labels": {"n": str(number)}}})
    elif deed == "remove" and is_there:
        kube.remove(path)
    elif deed == "cut":
        kube.cut_after = number
    else:
        {
            "add": lambda: kube.add(a_pod(f"p{number}")),
            "forget": kube.compact,
            "refuse": lambda: kube.fail(SchedulerUnavailable("refused"), hits_reads=True),
            "step": reflector.step,
        }.get(deed, lambda: None)()


@given(DEEDS)
def test_whatever_happens_between_two_looks_nothing_is_lost_and_nothing_stays(deeds: list[tuple[str, int]]) -> None:
    kube = Cutting()
    reflector = a_reflector(kube, FakeClock())
    for deed, number in deeds:
        do(kube, reflector, deed, number)
    kube.faults.clear()
    kube.cut_after = None
    for _ in range(3):  # at most: what is left of a gap, a list, a watch
        reflector.step()
    held = {key: one.metadata.resource_version for key, one in reflector.shelf.content().objects.items()}
    there = {f"a/{pod['metadata']['name']}": pod["metadata"]["resourceVersion"] for pod in kube.all("pods")}
    assert held == there


def test_a_kind_that_others_call_while_its_own_server_is_still_away_keeps_attempts_for_later() -> None:
    """Nine kinds are answered one after the other, each calls: the last one still has an attempt soon."""
    clock = FakeClock()
    pace = Pace(clock, lambda: 0.5)
    for _ in range(9):
        pace.begin()
        clock.advance(pace.when_called(pace.after(is_failure=True)))
    pace.begin()

    assert pace.when_called(pace.after(is_failure=True)) <= 15
