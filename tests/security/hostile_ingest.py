"""Hostile reports: of others' nodes, damaged, larger than they look, and with numbers and names that break things."""

from __future__ import annotations

import gzip

import msgspec
from tests.builders import a_report
from tests.security.hostile import Came, Hostile, Target, raw, reports
from tests.system.processes import CLUSTER

from trimtab.ship import zstd
from trimtab.ship.wire import encode_reports

MSGPACK, ZSTD = "Content-Type: application/msgpack", "Content-Encoding: zstd"
JSON = "Content-Type: application/json"


def _mine(**changes: object) -> dict[str, object]:
    made = a_report("n1", cluster=CLUSTER, spool_id="s", boot_id="b", sequence=1, gpus=1)
    found: dict[str, object] = msgspec.json.decode(msgspec.json.encode(made))
    return {**found, **changes}


def _json(**changes: object) -> bytes:
    return msgspec.json.encode([_mine(**changes)])


def _gpu(**info: object) -> list[dict[str, object]]:
    (gpu,) = _mine()["gpus"]  # type: ignore[misc]
    return [{**gpu, "info": {**gpu["info"], **info}}]


def _of(node: str, cluster: str = CLUSTER) -> bytes:
    return encode_reports([a_report(node, cluster=cluster, spool_id="s", boot_id="b", sequence=1, gpus=1)])


def _unfit(name: str, sends: str, body: bytes, *lines: str, status: int, says: str, group: str = "bodies") -> Hostile:
    return Hostile(
        name=name, group=group, sends=sends, meets=f"{status}, nothing stored", statuses=(status,), says=says,
        answer="unfit", fire=reports(body, *lines),
    )  # fmt: skip


def _deep_join(target: Target) -> Came:
    """A body that no parser of ours may fall over, from somebody with no token at all."""
    body = b'{"x":' + b"[" * 15_000
    head = f"POST /v1/enroll HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer x\r\nContent-Length: {len(body)}\r\n"
    return raw(target.ingest_port, f"{head}Content-Type: application/json\r\nConnection: close\r\n\r\n".encode(), body)


ZEROS = b"\0" * (1 << 20)
ROWS: tuple[Hostile, ...] = (
    Hostile(name="reports without a token", group="others' credentials", sends="reports, no `Authorization`",
            meets="401", statuses=(401,), says="this node's token", audit="refused reports", answer="stranger",
            fire=reports(_of("n1"), MSGPACK, ZSTD, credential="")),
    Hostile(name="reports with an invented token", group="others' credentials", sends="a token that nobody was given",
            meets="401", statuses=(401,), says="No node has this token", audit="refused reports", answer="stranger",
            fire=reports(_of("n1"), MSGPACK, ZSTD, credential="invented")),
    Hostile(name="reports with a person's token", group="others' credentials", sends="an admin's token at the ingest",
            meets="401", statuses=(401,), says="No node has this token", audit="refused reports", answer="stranger",
            fire=reports(_of("n1"), MSGPACK, ZSTD, credential="admin")),
    Hostile(name="reports of another node", group="others' credentials", sends="n1's token, a report of n2",
            meets="403", statuses=(403,), says="this token is of node n1", audit="refused reports",
            answer="other_node", fire=reports(_of("n2"), MSGPACK, ZSTD)),
    Hostile(name="reports of another cluster", group="others' credentials", sends="n1's token, a report of hall-z",
            meets="403", statuses=(403,), says="this daemon watches", audit="refused reports", answer="other_node",
            fire=reports(_of("n1", "hall-z"), MSGPACK, ZSTD)),
    _unfit("zstd bomb", "1 GiB of zeros in 33 kB of zstd", zstd.compress(ZEROS * 1024), MSGPACK, ZSTD, status=413,
           says="it holds more than", group="sizes"),
    _unfit("zstd window", "a frame that asks for a window of 2 GiB",
           b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00" + b"\0" * 16, MSGPACK, ZSTD, status=413,
           says="too large", group="sizes"),
    _unfit("many zstd frames", "a second frame behind the first", _of("n1") + _of("n1"), MSGPACK, ZSTD, status=400,
           says="send one frame"),
    _unfit("gzip bomb", "1 GiB of zeros in gzip", gzip.compress(ZEROS * 64, 6), MSGPACK, "Content-Encoding: gzip",
           status=415, says="send zstd", group="sizes"),
    _unfit("twice encoded", "`Content-Encoding: zstd, zstd`", zstd.compress(_of("n1")), MSGPACK,
           "Content-Encoding: zstd, zstd", status=415, says="send zstd"),
    _unfit("a body over the bound", "17 MiB", b"a" * (17 << 20), MSGPACK, status=413, says="larger than",
           group="sizes"),
    _unfit("half a frame", "a zstd frame that ends early", _of("n1")[:-9], MSGPACK, ZSTD, status=400,
           says="not whole zstd"),
    _unfit("deep JSON", "200,000 brackets", b'[{"x":' + b"[" * 200_000, JSON, status=400, says="not whole JSON"),
    Hostile(name="deep JSON in a join", group="bodies", sends="15 kB of brackets to /v1/enroll", meets="422",
            statuses=(422,), says="not right", fire=_deep_join,
            told="422 alone: nobody is named in it"),
    _unfit("deep msgpack", "100,000 arrays in arrays", b"\xdc\x00\x01\x81\xa1x" + b"\x91" * 100_000, MSGPACK,
           status=400, says="not whole msgpack"),
    _unfit("a list of four billion", "a msgpack head that announces 2^32 reports", b"\xdd\xff\xff\xff\xff", MSGPACK,
           status=400, says="not whole msgpack"),
    _unfit("a number of 5,000 digits", "`\"sequence\": 999…`",
           _json().replace(b'"sequence":1', b'"sequence":' + b"9" * 5000), JSON, status=422, says="$[0].sequence"),
    _unfit("a number of 65 bits", "`\"sequence\": 2^64`", _json(sequence=2**64 - 1), JSON, status=422,
           says="$[0].sequence"),
    _unfit("NaN as JSON", "`\"sampled_at\": NaN`", _json().replace(b'"sequence":1', b'"sequence":NaN'), JSON,
           status=400,
           says="not whole JSON"),
    _unfit("half a surrogate pair", "a node's name with `\\ud800`",
           _json().replace(b'"node":"n1"', b'"node":"n1\\ud800"'), JSON, status=400, says="not whole JSON"),
    _unfit("a name with a line end", "`\"boot_id\": \"a\\nlevel=error\"`", _json(boot_id="a\nlevel=error"), JSON,
           status=422, says="control characters", group="names"),
    _unfit("a GPU's name with colours", "a UUID with an ANSI escape", _json(gpus=_gpu(uuid="GPU-\x1b[2J")), JSON,
           status=422, says="control characters", group="names"),
    _unfit("a GPU's name turned round", "a UUID with a right-to-left mark", _json(gpus=_gpu(uuid="GPU-\u202eabc")),
           JSON, status=422, says="control characters", group="names"),
    _unfit("a GPU twice", "two GPUs of one UUID in one report", _json(gpus=_gpu() * 2), JSON, status=422,
           says="the same uuid", group="names"),
    _unfit("too many GPUs", "65 GPUs of one node", _json(gpus=_gpu() * 65), JSON, status=422, says="64 are the most",
           group="names"),
    _unfit("labels without an end", "2,000 values under names of their own",
           _json(node_values={f"made_up_{number}": 1.0 for number in range(2000)}), JSON, status=422,
           says="1024 are the most", group="names"),
    _unfit("a label that is a query", "a value named `up{x=\"y\"} or vector(1) #`",
           _json(node_values={'up{x="y"} or vector(1) #': 1.0}), JSON, status=422, says="not a sample key",
           group="names"),
)  # fmt: skip
