"""Two real daemons: one is killed, frozen, cut off or loses its database, and there are never two that act."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.pair.ground import TcpPostgres, a_server, active_and_standby
from tests.pair.scene import Scene
from tests.system.processes import eventually


@pytest.fixture(scope="module")
def server() -> Iterator[TcpPostgres]:
    with a_server() as made:
        yield made


@pytest.fixture
def scene(tmp_path: Path, server: TcpPostgres) -> Iterator[Callable[..., Scene]]:
    with ExitStack() as stack:
        yield lambda *, nodes=6, has_networks=False: Scene(
            tmp_path, server, stack, nodes=nodes, has_networks=has_networks
        )


def test_killed_frozen_and_ended_the_other_takes_over_and_no_two_ever_act(scene: Callable[..., Scene]) -> None:
    hall = scene()
    active, standby = hall.up()
    hall.wait_for_cordon(hall.hall.break_one())

    # Who stands by says so to everybody, and is well.
    page = standby._session.get(standby.url, headers={"Accept": "text/html"})
    assert (page.status_code, active.url in page.text) == (503, True)
    said = standby.ask("GET", "/api/v1/board", token="anybody")
    assert f"{active.name} is active since" in said.json()["error"]
    assert (standby.metric("trimtab_daemon_active"), active.metric("trimtab_daemon_active")) == (0.0, 1.0)
    eventually(lambda: active.metric("trimtab_daemon_standbys") == 1.0, said=hall.said)

    # kill -9
    broken = hall.hall.break_one()
    active.kill()
    eventually(standby.is_active, seconds=60.0, said=hall.said)
    hall.wait_for_cordon(broken)
    active.start()
    active, standby = active_and_standby(hall.pair)
    assert active.metric("trimtab_daemon_term") == 2.0

    # Frozen: its connections live on, and it wakes in the belief that it is the active one.
    os.kill(active.pid, signal.SIGSTOP)
    broken = hall.hall.break_one()
    eventually(standby.is_active, seconds=60.0, said=hall.said)
    hall.wait_for_cordon(broken)
    os.kill(active.pid, signal.SIGCONT)
    eventually(active.is_standby, seconds=60.0, said=hall.said)
    assert "this process begins anew, and stands by" in active.text()
    active, standby = active_and_standby(hall.pair)

    # SIGTERM: the office is given back, and the other need not wait.
    assert active.stop() == 0
    eventually(standby.is_active, seconds=60.0, said=hall.said)
    assert standby.metric("trimtab_daemon_term") == 4.0
    hall.wait_for_cordon(hall.hall.break_one())
    hall.prove()


@pytest.mark.long
def test_a_cut_network_and_a_restarted_postgresql(scene: Callable[..., Scene], server: TcpPostgres) -> None:
    hall = scene(has_networks=True)
    active, standby = hall.up()
    hall.wait_for_cordon(hall.hall.break_one())

    assert active.network is not None
    active.network.cut()
    broken = hall.hall.break_one()
    eventually(standby.is_active, seconds=60.0, said=hall.said)
    hall.wait_for_cordon(broken)
    active.network.mend()
    eventually(active.is_standby, seconds=60.0, said=hall.said)
    active, standby = active_and_standby(hall.pair)

    server.halt()
    try:
        eventually(lambda: "beat failed" in active.text(), said=hall.said)
    finally:
        server.go_on()
    broken = hall.hall.break_one()
    hall.wait_for_cordon(broken)
    active_and_standby(hall.pair)
    hall.prove()
