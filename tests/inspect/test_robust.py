"""No file, whole or torn, ends in anything but an inspection or a sentence."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.field_cases import ROOT, FieldCase, field_cases

from trimtab.errors import UnreadableInput
from trimtab.inspect.inspection import Inspection
from trimtab.inspect.reader import BYTES_MAX, WHOLE_BYTES_MAX, inspect_bytes, inspect_stream
from trimtab.inspect.show import lines_of
from trimtab.model.advice import Action

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
SOURCES = {case.id: case.path.read_bytes() for case in field_cases()}


def read(data: bytes) -> Inspection | str:
    """The inspection, shown in both ways, or the sentence of the refusal."""
    try:
        inspection = inspect_bytes(data, now=NOW)
    except UnreadableInput as error:
        assert str(error)
        return str(error)
    json.dumps(inspection.as_dict(), allow_nan=False)
    assert all("\n" not in line for line in lines_of(inspection, name="x", columns=80))
    return inspection


@pytest.mark.parametrize("path", sorted(path for path in ROOT.rglob("*") if path.is_file()), ids=lambda path: path.name)
def test_no_file_of_the_folders_ends_in_a_traceback(path: Path) -> None:
    read(path.read_bytes())


@pytest.mark.parametrize("case", field_cases(), ids=str)
def test_a_file_cut_anywhere_is_read_or_refused(case: FieldCase) -> None:
    data = case.path.read_bytes()
    for part in range(1, 12):
        read(data[: len(data) * part // 12])
        read(data[len(data) * part // 12 :])


@given(
    source=st.sampled_from(sorted(SOURCES)),
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=12), st.integers(0, 40)), min_size=1, max_size=6),
)
@settings(max_examples=300, deadline=None)
def test_a_damaged_file_is_read_or_refused(source: str, edits: list[tuple[float, bytes, int]]) -> None:
    data = SOURCES[source][:20_000]
    for place, put, gone in edits:
        at = int(place * len(data))
        data = data[:at] + put + data[at + gone :]
    read(data)


@given(st.one_of(st.binary(max_size=400), st.text(max_size=400).map(str.encode)))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read(data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_KINDS = st.sampled_from(
    ["Node", "Pod", "Job", "Workload", "ClusterQueue", "Queue", "RayCluster", "Deployment", "List", "ResourceFlavor"]
)


@given(kind=_KINDS, metadata=_JSON, spec=_JSON, status=_JSON, items=_JSON)
@settings(max_examples=200, deadline=None)
def test_objects_of_any_shape_are_read_or_refused(kind: str, **parts: object) -> None:
    apis = {"Workload": "kueue.x-k8s.io/v1", "ClusterQueue": "kueue.x-k8s.io/v1", "Queue": "scheduling.volcano.sh/v1",
            "RayCluster": "ray.io/v1", "Deployment": "apps/v1", "Job": "batch.volcano.sh/v1"}  # fmt: skip
    read(json.dumps({"apiVersion": apis.get(kind, "v1"), "kind": kind, **parts}).encode())


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\x1f\x8b\x08\x00" + bytes(50), "zcat"),
        (b"\x7fELF" + bytes(range(256)) * 20, "is a program"),
        (bytes(range(256)) * 40, "is not text"),
        (b"LPKSHHRH" + bytes(100), "journalctl"),
        (b"hello world\n" * 5, "nothing that trimtab knows"),
        (b"NAME     STATUS   ROLES\nnode-1   Ready    worker\n", "give -o json"),
        (b"<html><body>x</body></html>", "web page"),
        (b'{"kind": "Node", "apiVersion": ', "looks like JSON but is broken"),
        (b"kind: [Node\napiVersion: v1\n", "looks like YAML but is broken"),
        (b'{"a": 1}', "of a kind that trimtab does not know"),
        (b'{"kind": "List", "apiVersion": "v1", "items": []}', "kubectl get nodes,pods"),
        (b'{"kind": "Service", "apiVersion": "v1"}', "1 Service"),
        (b"[" * 100_000, "looks like JSON but is broken"),
        (b"<nvidia_smi_log><gpu id='1'>", "the XML is broken"),
        (b"<!DOCTYPE x [<!ENTITY a 'b'>]><nvidia_smi_log>&a;</nvidia_smi_log>", "entities"),
        (b'node_load1 0.5\nnode_load5{a="b"} 0.7\n', "an exporter that trimtab does not read"),
        (b"# HELP DCGM_FI_DEV_GPU_TEMP x\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n", "without a single sample"),
        (b"==============NVSMI LOG==============\n\nDriver Version : 1\n", "lists no GPU"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_cause(data: bytes, sentence: str) -> None:
    said = read(data)
    assert isinstance(said, str)
    assert sentence in said


def test_utf_16_with_a_mark_is_text() -> None:
    text = SOURCES["B11"].decode()
    for encoding in ("utf-16", "utf-8-sig"):
        inspection = read(text.encode(encoding))
        assert isinstance(inspection, Inspection)
        assert inspection.verdict is Action.CORDON_REBOOT


def test_windows_line_ends_change_nothing() -> None:
    for case in ("B12", "A24", "C10", "C17"):
        plain, other = read(SOURCES[case]), read(SOURCES[case].replace(b"\n", b"\r\n"))
        assert isinstance(plain, Inspection)
        assert isinstance(other, Inspection)
        assert plain.as_dict() == other.as_dict()


class _Pipe:
    """A stream of blocks that gives little at a time and keeps none of it."""

    def __init__(self, block: bytes, times: int) -> None:
        self._block, self._left, self._pending = block, times, b""

    def read(self, size: int = -1) -> bytes:
        while self._left and len(self._pending) < min(size, 65536):
            self._pending += self._block
            self._left -= 1
        given, self._pending = self._pending[:size], self._pending[size:]
        return given


def test_a_log_of_any_size_is_read_in_a_stream() -> None:
    quiet = b"".join(
        b"[%8d.000000] usb 1-1: new high-speed USB device number 4 using xhci_hcd\n" % n for n in range(999)
    )
    xid = (
        b"[  999.000000] NVRM: Xid (PCI:0000:3d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    times = WHOLE_BYTES_MAX // len(quiet + xid) + 40
    inspection = inspect_stream(_Pipe(quiet + xid, times), now=NOW)  # type: ignore[arg-type]
    assert inspection.verdict is Action.CORDON_REBOOT
    assert [finding.sentence for finding in inspection.findings] == ["GPU 3d:00.0 fell off the bus (XID 79)"]
    assert len(inspection.reading) == times  # type: ignore[arg-type]
    assert inspection.sentence == f"{times * 1000} lines, {times} driver events"


def test_a_storm_is_counted_and_not_kept() -> None:
    line = b"[ 6612.700400] NVRM: Xid (PCI:0000:03:00): 95, pid=5188, Uncontained: LTC TAG (0x2,0x0). RST: Yes\n"
    times = WHOLE_BYTES_MAX // len(line) + 1000
    inspection = inspect_stream(_Pipe(line, times), now=NOW)  # type: ignore[arg-type]
    assert inspection.verdict is Action.CORDON_RESET
    assert len(inspection.findings) == 1
    assert inspection.sentence == f"{times} lines, {times} driver events"
    assert len(inspection.reading) == 20_000  # type: ignore[arg-type]


def test_anything_else_that_is_too_large_is_refused() -> None:
    block = b'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 30\n' * 1000
    with pytest.raises(UnreadableInput, match="larger than 64 MiB"):
        inspect_stream(_Pipe(block, BYTES_MAX // len(block) + 2), now=NOW)  # type: ignore[arg-type]


def test_a_stream_that_ends_without_a_newline_loses_nothing() -> None:
    inspection = inspect_stream(BytesIO(SOURCES["B11"].rstrip(b"\n")), now=NOW)
    assert inspection.verdict is Action.CORDON_REBOOT
