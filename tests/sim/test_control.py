"""The control plane over HTTP: the snapshot whole, writes marked, refusals as sentences, bad input named."""

from __future__ import annotations

import msgspec
import pytest
from tests.sim.worlds import a_cluster, a_spec, cordon, running

from trimtab.model.cluster import ClusterSnapshot
from trimtab.outbound import session
from trimtab.sim.control import ControlServer
from trimtab.sim.writes import WriteDesk

MARK = "trimtab:R11"


class Rig:
    def __init__(self):
        self.cluster = a_cluster()
        self.job = running(self.cluster, a_spec(), "gpu-00")
        self.server = ControlServer(self.cluster, WriteDesk(self.cluster))
        self.server.start()
        self.session = session(timeout_seconds=5.0)

    def get(self, path):
        return self.session.get(self.server.url + path)

    def post(self, path, body):
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return self.session.post(self.server.url + path, data=data)

    def close(self):
        self.session.close()
        self.server.stop()


@pytest.fixture
def rig():
    made = Rig()
    yield made
    made.close()


def test_the_snapshot_goes_over_the_wire_and_comes_out_equal(rig):
    answer = rig.get("/snapshot")
    assert msgspec.json.decode(answer.content, type=ClusterSnapshot) == rig.cluster.snapshot()


def test_a_snapshot_that_was_looked_into_still_goes_over_the_wire(rig):
    snapshot = rig.cluster.snapshot()
    assert snapshot.free_gpus
    assert snapshot.holders
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=ClusterSnapshot) == snapshot


def test_a_write_is_done_once_and_given_back_by_its_mark(rig):
    for _ in range(2):
        assert rig.post("/writes", {"mark": MARK, "write": cordon("gpu-01")}).status_code == 200
    assert rig.get("/held").json() == {MARK: ["cordon of gpu-01"]}
    assert rig.post("/release", {"mark": MARK}).json() == {}
    assert rig.get("/held").json() == {}


def test_a_refusal_is_409_with_its_sentence(rig):
    answer = rig.post("/writes", {"mark": MARK, "write": cordon("gpu-99")})
    assert (answer.status_code, answer.json()) == (409, {"sentence": "There is no node 'gpu-99'."})


def test_a_fault_can_be_put_in_over_http(rig):
    assert rig.post("/faults", {"kind": "gpu_falls_off", "node": "gpu-00", "gpus": [3]}).status_code == 200
    assert rig.cluster.nodes["gpu-00"].is_lost(3)


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/writes", b"{", 400, "not JSON"),
        ("/writes", b"\xff\xfe", 400, "not JSON"),
        ("/writes", {"mark": MARK}, 400, "missing required field `write`"),
        ("/writes", {"mark": MARK, "write": {"verb": "explode"}}, 400, "Invalid enum value 'explode'"),
        ("/release", {"mark": 7}, 400, "Expected `str`"),
        ("/elsewhere", {}, 404, "Nothing to post to at /elsewhere"),
        ("/writes", b"x" * (1024 * 1024 + 1), 409, "is more than 1048576"),
    ],
)
def test_bad_input_gets_a_clear_no(rig, path, body, status, sentence):
    answer = rig.post(path, body)
    assert answer.status_code == status
    assert sentence in answer.json()["sentence"]
    assert rig.get("/healthz").status_code == 200


def test_an_unknown_page_says_what_there_is(rig):
    answer = rig.get("/nothing")
    assert (answer.status_code, "/snapshot" in answer.json()["sentence"]) == (404, True)
