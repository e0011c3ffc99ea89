"""Which writes the whole daemon makes by account, out of the API server's audit log; and two daemons on one Lease."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cluster import objects
from tests.cluster.audit import Asked, Audit, assert_allowed, kinds
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed as _installed
from tests.cluster.whole import Whole, act
from tests.system.processes import eventually

installed = _installed

ONE_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}
TAKEOVERS = 12 if os.environ.get("TRIMTAB_LONG") else 2
LEASES = "leases.coordination.k8s.io"


@pytest.fixture
def watching(installed: Plane, space: Space, tmp_path: Path) -> Iterator[Whole]:
    made = Whole(installed, space, tmp_path, settings='[issue]\nmode = "recommend"\n', account="trimtab-reader")
    yield made
    made.close()


def test_the_readers_account_recommends_and_tries_no_write_but_its_own(
    watching: Whole, capsys: pytest.CaptureFixture[str]
) -> None:
    space, audit = watching.space, Audit(watching.plane, "trimtab-reader")
    space.add_racks(racks=1, nodes_per_rack=4)
    space.run_gang("train", pods=2, gpus=8, topology=ONE_RACK)
    bad = space.seats("train")[0]
    watching.up()
    watching.reporter.break_gpu(bad)
    row = watching.command(f"evacuate:{bad}")
    answer = watching.daemon.ask(
        "POST", f"/api/v1/recommendations/{row.command.id}/approve", {"fingerprint": row.fingerprint}
    )
    assert answer.status_code == 409
    assert "advice in mode recommend" in answer.text
    assert row.command.recommendation.steps, "what a person would type is there"
    said = eventually(lambda: [one for one in audit.writes() if "events" in one.what], said=watching.told)
    assert said
    writes = audit.writes()
    assert_allowed(writes, may_act=False)
    with capsys.disabled():
        print(f"\n  reader, mode recommend: {kinds(writes)}")


@pytest.mark.long
def test_two_daemons_never_write_at_once_and_the_second_takes_over(
    installed: Plane, space: Space, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space.add_racks(racks=1, nodes_per_rack=TAKEOVERS + 2)
    audit = Audit(installed)
    with ExitStack() as stack:
        pair = []
        for name in ("one", "two"):
            home = tmp_path / name
            home.mkdir()
            made = Whole(installed, space, home, settings=act())
            stack.callback(made.close)
            pair.append(made.up())
        for number in range(TAKEOVERS):
            writer, other = _writer_first(pair)
            node = space.nodes[number]
            for each in pair:
                each.reporter.break_gpu(node)
            eventually(lambda node=node: _is_closed(space, node), seconds=90.0, said=writer.told)
            assert "lease" in (other.daemon.board().why_not_written or ""), "the board of the other says why"
            writer.daemon.kill()
            eventually(lambda other=other: _may_write(other), seconds=90.0, said=other.told)
            writer.daemon.up()
        writer, _ = _writer_first(pair)
        last = space.nodes[TAKEOVERS]
        for each in pair:
            each.reporter.break_gpu(last)
        eventually(lambda: _is_closed(space, last), seconds=90.0, said=writer.told)
    asked = audit.asked()
    acts, changes = _assert_one_writer(asked)
    assert_allowed([one for one in asked if one.is_write])
    assert changes >= TAKEOVERS
    with capsys.disabled():
        print(f"\n  {changes} changes of the writer, {acts} writes, by {len({one.token for one in asked})} tokens")


def _may_write(whole: Whole) -> bool:
    return whole.daemon.board().why_not_written is None


def _writer_first(pair: list[Whole]) -> tuple[Whole, Whole]:
    """Who may write, and who may not, once it is decided."""

    def look() -> tuple[Whole, Whole] | None:
        may = [_may_write(one) for one in pair]
        return (pair[may.index(True)], pair[may.index(False)]) if may.count(True) == 1 else None

    return eventually(look, seconds=60.0, said=lambda: [one.told() for one in pair])


def _is_closed(space: Space, node: str) -> bool:
    return bool(space.client.get("nodes", node)["spec"].get("unschedulable"))


def _assert_one_writer(asked: list[Asked]) -> tuple[int, int]:
    """In the server's own order: whoever writes is whoever took or renewed the Lease last. Writes, changes of writer.

    Two tokens of one account are two daemons; a daemon keeps its token when it is started again.
    """
    holder, changes, acts = "", 0, 0
    for one in asked:
        if one.what == LEASES and one.is_lease_kept:
            changes += one.token != holder
            holder = one.token
        elif one.is_act:
            acts += 1
            assert one.token == holder, f"written without the Lease: {one}"
    return acts, changes - 1
