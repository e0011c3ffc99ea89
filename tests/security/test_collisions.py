"""Names that two nodes claim: each node speaks for itself alone."""

from __future__ import annotations

from dataclasses import replace

from tests.builders import a_reading, a_report, an_xid
from tests.security.hall import Hall
from tests.system.processes import CLUSTER, eventually

from trimtab.clock import SystemClock
from trimtab.outbound import session
from trimtab.ship.wire import MSGPACK, ZSTD, encode_reports


def test_a_uuid_of_another_node_is_another_gpu(shared_hall: Hall) -> None:
    hall = shared_hall
    now = SystemClock().now()
    gpu = a_reading("n1", 0)
    fault = replace(an_xid(79, node="n1", index=0, at=now, boot_id="b"), gpu=gpu.uuid)
    made = a_report("thief", cluster=CLUSTER, spool_id="s", boot_id="b", sampled_at=now, gpus=1, events=(fault,))
    made = replace(made, gpus=(gpu,))
    with session(timeout_seconds=20.0, token=hall.daemon.token_of("thief")) as peer:
        headers = {"Content-Type": MSGPACK, "Content-Encoding": ZSTD}
        answer = peer.post(f"{hall.daemon.ingest_url}/v1/reports", data=encode_reports([made]), headers=headers)
        assert answer.status_code == 200, answer.text

    def found() -> list[str]:
        return [str(one.finding.subject.node) for one in hall.daemon.board().findings]

    eventually(lambda: "thief" in found(), said=hall.daemon.tail)
    assert "n1" not in found()
    own, claimed = hall.daemon.node("n1"), hall.daemon.node("thief")
    assert own is not None
    assert claimed is not None
    assert gpu.uuid in {cell.uuid for cell in own.cells}
    assert [cell.uuid for cell in claimed.cells] == [gpu.uuid]
    text = hall.daemon.ask("GET", "/metrics", token=hall.credential("metrics")).text
    for node in ("n1", "thief"):
        assert f'node="{node}",gpu="{gpu.uuid}"' in text or f'gpu="{gpu.uuid}",node="{node}"' in text, node
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    series = [line.rpartition(" ")[0] for line in lines]
    assert len(series) == len(set(series)), "no series is there twice"
