"""Fifty kills and ten cut networks with commands under way: how long each take-over took; never two actors."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.pair.checker import check, turns
from tests.pair.ground import PairDaemon, TcpPostgres, a_server, active_and_standby
from tests.pair.scene import Scene
from tests.system.processes import eventually

pytestmark = pytest.mark.long

KILLS, CUTS = 50, 10
LIMIT_SECONDS = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[TcpPostgres]:
    with a_server() as made:
        yield made


class Round:
    """One take-over, in seconds since the blow."""

    def __init__(self, scene: Scene, successor: PairDaemon, blow: Callable[[], None]) -> None:
        booked, pause = scene.hall.books.total, threading.Event()
        self.load = os.getloadavg()[0]
        blow()
        begun = time.monotonic()
        self.ready_seconds = self.taken_seconds = self.acting_seconds = 0.0
        while not self.acting_seconds or not self.taken_seconds:
            now = time.monotonic() - begun
            assert now < LIMIT_SECONDS, scene.said()
            if not self.ready_seconds:
                self.ready_seconds = now if successor.is_active() else 0.0
                # What was on its way to the one that fell is no sign of the other.
                booked = scene.hall.books.total
            elif not self.taken_seconds and scene.hall.books.total > booked:
                self.taken_seconds = now
            if self.ready_seconds and not self.acting_seconds and successor.metric("trimtab_daemon_acting") == 1.0:
                self.acting_seconds = now
            pause.wait(0.02)
        print(
            f"ready {self.ready_seconds:5.2f} s, report taken {self.taken_seconds:5.2f} s, "
            f"acting {self.acting_seconds:5.2f} s (load {self.load:.1f})",
            flush=True,
        )


def _say(what: str, rounds: Sequence[Round]) -> None:
    print(
        f"\n{what}: {len(rounds)} take-overs, seconds since the blow; load of the host "
        f"{_span([one.load for one in rounds])}"
    )
    print(f"{'':28}{'min':>7}{'median':>8}{'p90':>7}{'p98':>7}{'max':>7}")
    for name, told in (
        ("takes reports", [one.ready_seconds for one in rounds]),
        ("first report acknowledged", [one.taken_seconds for one in rounds]),
        ("begins moves and letters", [one.acting_seconds for one in rounds]),
    ):
        ordered = sorted(told)
        p90, p98 = (ordered[min(int(len(ordered) * share), len(ordered) - 1)] for share in (0.9, 0.98))
        print(f"{name:28}{ordered[0]:7.2f}{statistics.median(told):8.2f}{p90:7.2f}{p98:7.2f}{ordered[-1]:7.2f}")
        print("".join(f" {value:.1f}" for value in told))


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f} on {os.cpu_count()} cores"


def _prove(scene: Scene, *, terms: int) -> None:
    scene.prove()
    proof = check(scene.url, scene.pair, scene.hall.written)
    print(
        f"{len(proof.terms)} terms, {proof.lines} audit lines, {proof.submitted} commands submitted, "
        f"{proof.written} writes in {len(turns(scene.hall.written))} turns; acknowledged reports: "
        f"{scene.hall.books.total}, lost: 0; troubles: {len(proof.troubles)}"
    )
    assert len(proof.terms) >= terms


def test_fifty_kills(tmp_path: Path, server: TcpPostgres) -> None:
    rounds: list[Round] = []
    with ExitStack() as stack:
        scene = Scene(tmp_path, server, stack, nodes=KILLS // 3 + 3, has_networks=False, interval_seconds=4.0)
        active, standby = scene.up()
        for number in range(KILLS):
            if number % 3 == 0:
                scene.hall.break_one()
            rounds.append(Round(scene, standby, active.kill))
            active.start()
            active, standby = active_and_standby(scene.pair)
        _say("kill -9", rounds)
        eventually(lambda: scene.hall.waiting == 0, seconds=120.0, said=scene.said)
        _prove(scene, terms=KILLS + 1)


def test_ten_cut_networks(tmp_path: Path, server: TcpPostgres) -> None:
    rounds: list[Round] = []
    with ExitStack() as stack:
        scene = Scene(tmp_path, server, stack, nodes=CUTS + 1, has_networks=True, interval_seconds=1.0)
        active, standby = scene.up()
        for _ in range(CUTS):
            scene.hall.break_one()
            assert active.network is not None
            rounds.append(Round(scene, standby, active.network.cut))
            active.network.mend()
            active, standby = active_and_standby(scene.pair)
        _say("cut network", rounds)
        _prove(scene, terms=CUTS + 1)
