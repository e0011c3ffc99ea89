"""Bodies from outside: what is taken, what is refused, with which answer."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from backports import zstd as raw_zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_reading, a_report, an_xid

from trimtab.errors import ShipError
from trimtab.model.metric import CATALOGUE
from trimtab.model.reading import GpuInfo, MigReading, Process, Report
from trimtab.ship.wire import MSGPACK, ZSTD, WireError, decode_reports, encode_reports

ROOT = Path(__file__).parent.parent.parent
JSON = "application/json"
DECODED_BYTES_MAX = 8 * 1024 * 1024


def decode(body: bytes, *, kind: str = MSGPACK, encoding: str = ZSTD, most: int = DECODED_BYTES_MAX) -> Any:
    return decode_reports(body, content_type=kind, content_encoding=encoding, decoded_bytes_max=most)


def refused(body: bytes, **how: Any) -> tuple[int, str]:
    with pytest.raises(WireError) as caught:
        decode(body, **how)
    return caught.value.status, str(caught.value)


def as_maps(*reports: Report) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = msgspec.to_builtins(list(reports))
    return made


def plain(content: object) -> bytes:
    return msgspec.msgpack.encode(content)


def test_what_is_encoded_is_decoded_whole() -> None:
    reports = [a_report(sequence=1), a_report(sequence=2, events=(an_xid(),), errors={"nvml": "slow"})]
    assert decode(encode_reports(reports)) == tuple(reports)


def test_json_is_taken_by_content_type() -> None:
    report = a_report(events=(an_xid(),))
    body = msgspec.json.encode([report])
    assert decode(body, kind="Application/JSON; charset=utf-8", encoding="") == (report,)
    assert decode(raw_zstd.compress(body), kind=JSON) == (report,)


def test_plain_msgpack_is_taken() -> None:
    assert decode(plain([a_report()]), encoding="identity") == (a_report(),)


def test_unknown_keys_are_ignored_so_that_newer_agents_can_talk_to_us() -> None:
    maps = as_maps(a_report())
    maps[0]["colour"] = {"deep": [1, 2, {"a": None}]}
    maps[0]["gpus"][0]["info"]["shoe_size"] = 44
    assert decode(plain(maps), encoding="") == (a_report(),)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-protobuf"])
def test_an_unknown_content_type_is_415(kind: str) -> None:
    status, sentence = refused(encode_reports([a_report()]), kind=kind)
    assert status == 415
    assert "application/msgpack" in sentence


@pytest.mark.parametrize("encoding", ["gzip", "zstd, gzip", "br"])
def test_an_unknown_content_encoding_is_415(encoding: str) -> None:
    assert refused(encode_reports([a_report()]), encoding=encoding)[0] == 415


def test_truncated_zstd_is_400_at_every_length() -> None:
    body = encode_reports([a_report(gpus=2)])
    for length in range(len(body)):
        assert refused(body[:length])[0] == 400


def test_truncated_msgpack_is_400_at_every_length() -> None:
    body = plain([a_report(gpus=1)])
    for length in range(len(body)):
        assert refused(body[:length], encoding="")[0] == 400


def test_bytes_behind_the_frame_are_400() -> None:
    body = encode_reports([a_report()])
    assert refused(body + body)[0] == 400


def test_a_body_larger_than_the_bound_after_decompression_is_413() -> None:
    body = raw_zstd.compress(b"\0" * 100_001)
    status, sentence = refused(body, most=100_000)
    assert (status, "100000 bytes" in sentence) == (413, True)
    assert refused(b"\0" * 100_001, encoding="", most=100_000)[0] == 413


def test_a_window_larger_than_8_mib_is_413() -> None:
    options = {raw_zstd.CompressionParameter.window_log: 27, raw_zstd.CompressionParameter.content_size_flag: 0}
    compressor = raw_zstd.ZstdCompressor(options=options)
    body = compressor.compress(plain([a_report()])) + compressor.flush()
    assert refused(body)[0] == 413


BOMB = """
import resource
from backports import zstd
from trimtab.ship.wire import WireError, decode_reports, encode_reports
compressor = zstd.ZstdCompressor()
block = b"\\0" * (1 << 20)
body = b"".join(compressor.compress(block) for _ in range(4096)) + compressor.flush()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decode_reports(body, content_type="application/msgpack", content_encoding="zstd", decoded_bytes_max=8 << 20)
except WireError as error:
    print(error.status, len(body), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_zstd_bomb_ends_at_the_bound_and_memory_stays_flat() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOMB],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "daemon")},
        timeout=120,
    )
    status, body_bytes, grown_kib = (int(word) for word in done.stdout.split())
    assert status == 413
    assert body_bytes < 1024 * 1024  # 4 GiB of zeros pass the first bound
    assert grown_kib < 48 * 1024


def test_a_type_error_is_422_and_names_the_path() -> None:
    maps = as_maps(a_report())
    maps[0]["gpus"][3]["values"]["power_watts"] = "hot"
    status, sentence = refused(plain(maps), encoding="")
    assert (status, "$[0].gpus[3].values" in sentence) == (422, True)


def test_a_missing_field_is_422() -> None:
    maps = as_maps(a_report())
    del maps[0]["boot_id"]
    assert refused(plain(maps), encoding="")[0] == 422


@pytest.mark.parametrize("change", [{}, {"gpus": "of a shape that only schema 2 knows"}])
def test_an_unknown_schema_is_426_whatever_else_changed(change: dict[str, Any]) -> None:
    maps = as_maps(a_report())
    maps[0] |= {"schema_major": 2, **change}
    status, sentence = refused(plain(maps), encoding="")
    assert status == 426
    assert "speaks 1" in sentence


def test_an_empty_body_list_and_one_too_long_are_422() -> None:
    assert refused(plain([]), encoding="")[0] == 422
    tiny = a_report(gpus=0)
    assert refused(plain([tiny] * 501), encoding="")[0] == 422
    assert len(decode(plain([tiny] * 500), encoding="")) == 500


def test_more_than_500_reports_are_not_encoded() -> None:
    with pytest.raises(ShipError, match="1 to 500"):
        encode_reports([a_report(gpus=0)] * 501)


def test_nan_and_infinities_are_absent_and_counted() -> None:
    values = {"power_watts": math.nan, "temperature_celsius": 61.0, "nvlink_up/3": math.inf}
    instance = MigReading(gi=1, values={"sm_active_ratio": -math.inf, "power_watts": math.nan})
    report = a_report(
        gpus=0,
        bad_samples={"power_watts": 4},
        node_values={"load": math.nan, "fans": 2.0},
    )
    report = replace(report, gpus=(a_reading(values=values, instances=(instance,), read_seconds=math.nan),))
    (decoded,) = decode(encode_reports([report]))
    (gpu,) = decoded.gpus
    assert gpu.values == {"temperature_celsius": 61.0}
    assert gpu.instances[0].values == {}
    assert gpu.read_seconds is None
    assert decoded.node_values == {"fans": 2.0}
    assert decoded.bad_samples == {
        "power_watts": 6, "nvlink_up/3": 1, "sm_active_ratio": 1, "load": 1, "read_seconds": 1,
    }  # fmt: skip


def test_huge_values_that_only_sum_to_infinity_are_kept() -> None:
    values = {"power_watts": 1.7e308, "memory_used_bytes": 1.7e308}
    report = replace(a_report(gpus=0), gpus=(a_reading(values=values),))
    (decoded,) = decode(encode_reports([report]))
    assert (decoded.gpus[0].values, decoded.bad_samples) == (values, {})


def test_long_texts_are_cut_and_nul_is_replaced() -> None:
    process = Process(pid=1, name="x" * 5000)
    event = an_xid(text="y" * 5000, details={"raw": "a\0b"})
    report = a_report(gpus=0, events=(event,), errors={"nvml": "z" * 5000})
    report = replace(report, gpus=(a_reading(processes=(process,)),))
    (decoded,) = decode(encode_reports([report]))
    assert decoded.events[0].text == "y" * 4095 + "…"
    assert decoded.events[0].details == {"raw": "a\N{REPLACEMENT CHARACTER}b"}
    assert len(decoded.errors["nvml"]) == 4096
    assert decoded.gpus[0].processes is not None
    assert len(decoded.gpus[0].processes[0].name or "") == 4096


def in_gpu(**changes: Any) -> Report:
    return replace(a_report(gpus=0), gpus=(a_reading(**changes),))


TOO_MUCH: list[tuple[Callable[[], Report], str]] = [
    (lambda: a_report("n" * 254), "$[0].node"),
    (lambda: a_report("a\nb"), "$[0].node"),
    (lambda: a_report(""), "$[0].node"),
    (lambda: a_report(cluster="c" * 254), "$[0].cluster"),
    (lambda: a_report(spool_id=""), "$[0].spool_id"),
    (lambda: a_report(sequence=0), "$[0].sequence"),
    (lambda: a_report(gpus=65), "$[0].gpus"),
    (lambda: replace(a_report(), gpus=(a_reading(), a_reading())), "$[0].gpus"),
    (lambda: a_report(events=(an_xid(),) * 1001), "$[0].events"),
    (lambda: a_report(events=(an_xid(gpu="G" * 254),)), "$[0].events[0].gpu"),
    (lambda: a_report(events=(an_xid(details={str(n): "" for n in range(65)}),)), "$[0].events[0].details"),
    (lambda: a_report(errors={str(n): "" for n in range(1025)}), "$[0].errors"),
    (lambda: a_report(node_values={"Not A Key": 1.0}), "$[0].node_values"),
    (lambda: a_report(bad_samples={"power_watts": -1}), "$[0].bad_samples"),
    (lambda: in_gpu(values={f"made_up_{n}": 1.0 for n in range(513)}), "$[0].gpus[0].values"),
    (lambda: in_gpu(values={"k" * 254: 1.0}), "$[0].gpus[0].values"),
    (lambda: in_gpu(values={"power_watts{a=\"b\"}": 1.0}), "$[0].gpus[0].values"),
    (lambda: in_gpu(info=GpuInfo(uuid="")), "$[0].gpus[0].info.uuid"),
    (lambda: in_gpu(info=GpuInfo(uuid="GPU-1", model="m" * 254)), "$[0].gpus[0].info.model"),
    (lambda: in_gpu(holder="h" * 508), "$[0].gpus[0].holder"),
    (lambda: in_gpu(shared_by=("a",) * 257), "$[0].gpus[0].shared_by"),
    (lambda: in_gpu(processes=(Process(pid=1),) * 4097), "$[0].gpus[0].processes"),
    (lambda: in_gpu(instances=(MigReading(gi=1),) * 65), "$[0].gpus[0].instances"),
    (lambda: in_gpu(instances=(MigReading(gi=1, holder="\0"),)), "$[0].gpus[0].instances[0].holder"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "path"), TOO_MUCH, ids=[path for _, path in TOO_MUCH])
def test_what_is_out_of_bounds_is_422_and_names_the_path(make: Callable[[], Report], path: str) -> None:
    status, sentence = refused(plain([make()]), encoding="")
    assert status == 422
    assert sentence.startswith(path)


def test_a_number_of_more_than_64_bits_is_422() -> None:
    body = msgspec.json.encode([a_report()]).replace(b'"sequence":1,', b'"sequence":99999999999999999999999,')
    assert refused(body, kind=JSON, encoding="")[0] == 422


@pytest.mark.parametrize("moment", ["2026-11-02T09:00:00", "0001-01-01T00:00:00+14:00"])
def test_a_moment_without_zone_or_outside_the_calendar_is_422(moment: str) -> None:
    maps = as_maps(a_report(gpus=0))
    maps[0]["sampled_at"] = moment
    status, sentence = refused(msgspec.json.encode(maps), kind=JSON, encoding="")
    assert (status, sentence.startswith("$[0].sampled_at")) == (422, True)


def test_a_moment_of_another_zone_becomes_utc() -> None:
    maps = as_maps(a_report(gpus=0))
    maps[0]["sampled_at"] = "2026-11-02T10:00:00+01:00"
    (decoded,) = decode(msgspec.json.encode(maps), kind=JSON, encoding="")
    assert decoded.sampled_at == datetime(2026, 11, 2, 9, tzinfo=UTC)
    assert decoded.sampled_at.tzinfo is UTC


def test_every_key_of_the_catalogue_passes_and_so_do_new_ones() -> None:
    values = {metric.name: 1.0 for metric in CATALOGUE} | {"nvlink_up/17": 1.0, "invented_ratio": 0.5}
    assert decode(encode_reports([in_gpu(values=values)])) == (in_gpu(values=values),)


def test_deep_nesting_is_refused() -> None:
    deep = b"\x91" * 200_000
    assert refused(b"\x91\x81\xa1x" + deep, encoding="")[0] == 400
    assert refused(b'[{"x":' + b"[" * 200_000, kind=JSON, encoding="")[0] == 400


def test_a_length_that_lies_takes_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert refused(b"\xdd\xff\xff\xff\xff", encoding="")[0] == 400
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


def answers_only_wire_errors(body: bytes, kind: str, encoding: str) -> None:
    try:
        decode(body, kind=kind, encoding=encoding, most=1 << 20)
    except WireError as error:
        assert error.status in (400, 413, 415, 422, 426)


@given(body=st.binary(max_size=400), kind=st.sampled_from([MSGPACK, JSON]), encoding=st.sampled_from([ZSTD, ""]))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_decoded_or_refused(body: bytes, kind: str, encoding: str) -> None:
    answers_only_wire_errors(body, kind, encoding)


WHOLE = plain([a_report(gpus=1, events=(an_xid(),))])
WHOLE_JSON = msgspec.json.encode([a_report(gpus=1, events=(an_xid(),))])
FLIPS = st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=8)


@given(flips=FLIPS)
@settings(max_examples=500, deadline=None)
def test_a_damaged_report_is_decoded_or_refused(flips: list[tuple[int, int]]) -> None:
    for whole, kind in ((WHOLE, MSGPACK), (WHOLE_JSON, JSON)):
        body = bytearray(whole)
        for at, value in flips:
            body[at] = value
        answers_only_wire_errors(bytes(body), kind, "")
        answers_only_wire_errors(raw_zstd.compress(bytes(body)), kind, ZSTD)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@given(field=st.sampled_from(sorted(as_maps(a_report())[0])), junk=JUNK)
@settings(max_examples=500, deadline=None)
def test_junk_in_any_field_is_decoded_or_refused(field: str, junk: object) -> None:
    maps = as_maps(a_report(gpus=1))
    maps[0][field] = junk
    answers_only_wire_errors(plain(maps), MSGPACK, "")
