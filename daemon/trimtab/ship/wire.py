"""Reports as bytes: msgpack in one zstd frame, JSON accepted. The agent encodes, the receiver decodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from trimtab.errors import ShipError
from trimtab.model.reading import SCHEMA_MAJOR, Report
from trimtab.ship import zstd
from trimtab.ship.bounds import Unfit, fit

REPORTS_MAX = 500
"""Reports in one body at most."""
SCHEMA_MAJORS = (SCHEMA_MAJOR,)
"""Schema versions that this daemon speaks."""
MSGPACK = "application/msgpack"
ZSTD = "zstd"
SENT_AT_HEADER = "Trimtab-Sent-At"
"""Sender's clock when it sent: tells an old report from a wrong clock."""
BACKLOG_HEADER = "Trimtab-Backlog"
"""How many reports the body holds that were kept during an outage; where there is no room for them, it is not read."""

_MSGPACK_TYPES = frozenset({MSGPACK, "application/x-msgpack", "application/vnd.msgpack"})


@dataclass(slots=True)
class _Head:
    schema_major: int = SCHEMA_MAJOR


_encoder = msgspec.msgpack.Encoder()
_msgpack_reports = msgspec.msgpack.Decoder(list[Report])
_msgpack_heads = msgspec.msgpack.Decoder(list[_Head])
_json_reports = msgspec.json.Decoder(list[Report])
_json_heads = msgspec.json.Decoder(list[_Head])


class WireError(ShipError):
    """A body that is refused; `status` is the HTTP answer that says so (400, 413, 415, 422 or 426)."""

    def __init__(self, status: int, sentence: str) -> None:
        """Keep the answer with its sentence."""
        super().__init__(sentence)
        self.status = status


def encode_report(report: Report) -> bytes:
    """One report as one msgpack value, as `join` takes it."""
    return _encoder.encode(report)


def join(encoded: Sequence[bytes]) -> bytes:
    """A body of reports that are encoded already: what the spool holds goes out without being decoded."""
    if not 1 <= len(encoded) <= REPORTS_MAX:
        raise ShipError(f"A body holds 1 to {REPORTS_MAX} reports, not {len(encoded)}.")
    head = b"\xdc" + len(encoded).to_bytes(2, "big")  # msgpack's array of 16-bit length
    return zstd.compress(head + b"".join(encoded))


def encode_reports(reports: Sequence[Report]) -> bytes:
    """A body of 1 to 500 reports: msgpack in one zstd frame."""
    return join([encode_report(report) for report in reports])


def decode_reports(
    body: bytes, *, content_type: str, content_encoding: str, decoded_bytes_max: int
) -> tuple[Report, ...]:
    """The reports of a body from outside, typed and within all bounds. Raises WireError and nothing else."""
    is_json = _is_json(content_type)
    plain = _expand(body, content_encoding, decoded_bytes_max)
    reports = _decode(plain, is_json=is_json)
    if not 1 <= len(reports) <= REPORTS_MAX:
        raise WireError(422, f"$: {len(reports)} reports; a body holds 1 to {REPORTS_MAX}.")
    try:
        return tuple([fit(report, f"$[{index}]") for index, report in enumerate(reports)])
    except Unfit as error:
        raise WireError(422, f"{error}.") from error


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _MSGPACK_TYPES:
        return False
    if kind == "application/json":
        return True
    raise WireError(415, f"Content-Type {kind or 'is missing'}: send {MSGPACK} or application/json.")


def _expand(body: bytes, content_encoding: str, decoded_bytes_max: int) -> bytes:
    encoding = content_encoding.strip().lower()
    if encoding == ZSTD:
        try:
            return zstd.expand(body, bytes_max=decoded_bytes_max)
        except zstd.FrameTooLarge as error:
            raise WireError(413, f"The body is too large: {error}. Send fewer reports at once.") from error
        except zstd.FrameDamaged as error:
            raise WireError(400, f"The body is not whole zstd: {error}.") from error
    if encoding not in ("", "identity"):
        raise WireError(415, f"Content-Encoding {encoding}: send zstd, or the body as it is.")
    if len(body) > decoded_bytes_max:
        raise WireError(413, f"The body is larger than {decoded_bytes_max} bytes. Send fewer reports at once.")
    return body


def _decode(plain: bytes, *, is_json: bool) -> list[Report]:
    decoder = _json_reports if is_json else _msgpack_reports
    try:
        reports = decoder.decode(plain)
    except msgspec.ValidationError as error:
        # A report of a later major may well not fit today's types: then the version is the news, not the type.
        _refuse_unknown_majors(_majors(plain, is_json=is_json))
        raise WireError(422, f"{error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        kind = "JSON" if is_json else "msgpack"
        raise WireError(400, f"The body is not whole {kind}: {error}.") from error
    _refuse_unknown_majors([report.schema_major for report in reports])
    return reports


def _majors(plain: bytes, *, is_json: bool) -> list[int]:
    try:
        return [head.schema_major for head in (_json_heads if is_json else _msgpack_heads).decode(plain)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _refuse_unknown_majors(majors: list[int]) -> None:
    unknown = sorted({major for major in majors if major not in SCHEMA_MAJORS})
    if unknown:
        spoken = ", ".join(str(major) for major in SCHEMA_MAJORS)
        raise WireError(426, f"Schema {unknown[0]} is unknown here; this daemon speaks {spoken}. Upgrade the daemon.")
