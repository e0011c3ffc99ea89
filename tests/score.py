"""The score over the field cases: `python -m tests.score [folder]`. Reading, verdict and counts, by verdict."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent / "daemon"))

from tests.field_cases import FieldCase, field_cases

from trimtab.errors import UnreadableInput
from trimtab.inspect.inspection import Refused
from trimtab.inspect.reader import inspect_bytes

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
FOLDERS = ("a-dcgm", "b-kernel", "c-smi", "d-exporters", "e-k8s", "f-alerting")


@dataclass(frozen=True)
class Score:
    case: FieldCase
    verdict: str
    is_reading_right: bool
    is_verdict_right: bool
    is_count_right: bool
    why: str = ""


def covers(expected: Any, got: Any) -> bool:
    """Whether everything that the sidecar states stands in the reading; a missing key counts as null."""
    if isinstance(expected, Mapping):
        return isinstance(got, Mapping) and all(covers(value, got.get(key)) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(covers, expected, got))
    if isinstance(expected, float) or isinstance(got, float):
        return (expected is None) == (got is None) and abs(float(expected) - float(got)) <= 1e-6 * max(abs(expected), 1)
    return bool(expected == got) and type(expected) is type(got)


def first_miss(expected: Any, got: Any, path: str = "") -> str:
    """Where a reading first differs."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key, value in expected.items():
            if not covers(value, got.get(key)):
                return first_miss(value, got.get(key), f"{path}.{key}")
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for place, (one, other) in enumerate(zip(expected, got, strict=True)):
            if not covers(one, other):
                return first_miss(one, other, f"{path}[{place}]")
    return f"{path}: expected {str(expected)[:80]}, got {str(got)[:80]}"


def score_of(case: FieldCase) -> Score:
    """Read one case as `trimtab inspect --json` does and compare."""
    try:
        said = inspect_bytes(case.path.read_bytes(), now=NOW).as_dict()
    except Refused as refusal:
        said = {"verdict": "reject", "reading": refusal.reading, "findings": [], "errors": 0}
    except UnreadableInput as error:
        return Score(case, "unreadable", False, False, False, f"{case.file} {error}")
    reading = said["reading"]
    is_exact = case.folder == "b-kernel"
    reading_right = reading == case.expected if is_exact else covers(case.expected, reading)
    counts = {name: count(name, said) for name in case.counts}
    verdict_right = case.verdict == "parse" or said["verdict"] == case.verdict
    why = "" if reading_right else f"reading {first_miss(case.expected, reading)}"
    why += "" if verdict_right else f" verdict {said['verdict']}, expected {case.verdict}"
    why += "" if counts == case.counts else f" counts {counts}, expected {case.counts}"
    return Score(case, str(said["verdict"]), reading_right, verdict_right, counts == case.counts, why.strip())


def count(name: str, said: Mapping[str, Any]) -> Any:
    """One count of the index: from the records of a log, else from the reading."""
    reading = said["reading"]
    if isinstance(reading, list):
        return _LOG_COUNTS[name](reading, said)
    if name in _OF_READING:
        return _OF_READING[name](reading, said)
    counts = reading.get("counts") or {}
    found = counts[name] if name in counts else reading.get(name)
    return len(found) if isinstance(found, (list, dict)) else found


def _kinds(reading: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [record for record in reading if record["kind"] == kind]


def _fresh(reading: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in _kinds(reading, "xid") if not record.get("stale") and "duplicate_of" not in record]


def _switch_events(reading: list[dict[str, Any]]) -> int:
    return len(
        {(record["code"], record["pci"], record["link"]) for record in _kinds(reading, "sxid") if "link" in record}
    )


_LOG_COUNTS: dict[str, Callable[[list[dict[str, Any]], Mapping[str, Any]], int]] = {
    "xid": lambda reading, said: len(_kinds(reading, "xid")),
    "sxid": lambda reading, said: len(_kinds(reading, "sxid")),
    "sxid_lines": lambda reading, said: len(_kinds(reading, "sxid")),
    "incidents": lambda reading, said: len(said["findings"]),
    "gpus": lambda reading, said: len({r["pci"] for r in reading if r["kind"] in ("xid", "rm_init") and r["pci"]}),
    "fallen_off": lambda reading, said: len(_kinds(reading, "fallen_off")),
    "rm_init": lambda reading, said: len(_kinds(reading, "rm_init")),
    "reset_required": lambda reading, said: sum(bool(record.get("reset_required")) for record in reading),
    "nodes": lambda reading, said: sum("total" in record for record in reading),
    "events": lambda reading, said: _switch_events(reading) + len(_kinds(reading, "xid")),
    "fatal": lambda reading, said: sum(record.get("severity") == "Fatal" for record in reading),
    "parse_errors": lambda reading, said: said["errors"],
    "xid_current": lambda reading, said: len(_fresh(reading)),
    "duplicates": lambda reading, said: sum("duplicate_of" in record for record in reading),
    "stale": lambda reading, said: sum(bool(record.get("stale")) for record in reading),
}  # fmt: skip
_OF_READING: dict[str, Callable[[dict[str, Any], Mapping[str, Any]], Any]] = {
    "jobs": lambda reading, said: reading.get("job_count") or len(said["findings"]),
    "npus": lambda reading, said: reading.get("devices"),
    "mlus": lambda reading, said: reading.get("devices"),
    "evictions": lambda reading, said: reading["plan"]["evictions"],
    "moves": lambda reading, said: reading["plan"]["moves"],
    "unresolved": lambda reading, said: reading["occurrences"],
    "bad": lambda reading, said: len(reading["bad"]),
    "reset": lambda reading, said: len(reading["needs_reset"]),
    "pairs": lambda reading, said: len(reading["pairs"]),
}


def main(folders: list[str]) -> int:
    """Print the table per folder and verdict, and every miss."""
    missed = 0
    print(f"{'folder':<12} {'verdict':<18} {'cases':>5} {'reading':>8} {'verdict':>8} {'count':>6}")
    for folder in folders or FOLDERS:
        scores = [score_of(case) for case in field_cases(folder)]
        for verdict, cases in sorted(Counter(score.case.verdict for score in scores).items()):
            own = [score for score in scores if score.case.verdict == verdict]
            print(_row(folder, verdict, cases, own))
        print(_row(folder, "ALL", len(scores), scores))
        for score in scores:
            if score.why:
                missed += 1
                print(f"  {score.case.id} {score.why}")
    return 1 if missed else 0


def _row(folder: str, verdict: str, cases: int, own: list[Score]) -> str:
    readings, verdicts = sum(one.is_reading_right for one in own), sum(one.is_verdict_right for one in own)
    counts = sum(one.is_count_right for one in own)
    return f"{folder:<12} {verdict:<18} {cases:>5} {readings:>8} {verdicts:>8} {counts:>6}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
