"""The field cases of tests/fixtures/field-cases: inputs with the reading that a good monitor gives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent / "fixtures" / "field-cases"


@dataclass(frozen=True)
class FieldCase:
    id: str
    folder: str
    file: str
    reading: str
    verdict: str
    counts: dict[str, int]

    @property
    def path(self) -> Path:
        return ROOT / self.folder / self.file

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def expected(self) -> Any:
        return json.loads((ROOT / self.folder / f"{self.file}.expected.json").read_text(encoding="utf-8"))

    def __str__(self) -> str:
        return self.id


def field_cases(folder: str | None = None) -> list[FieldCase]:
    """The cases of INDEX.tsv, read without quote handling, of one folder or of all."""
    rows = (ROOT / "INDEX.tsv").read_text(encoding="utf-8").splitlines()[1:]
    cases = []
    for row in rows:
        id_, in_folder, file, reading, verdict, count = row.split("\t")
        counts = {key: int(value) for key, value in (pair.split("=") for pair in count.split())}
        cases.append(FieldCase(id_, in_folder, file, reading, verdict, counts))
    return [case for case in cases if folder in (None, case.folder)]


def case(id_: str) -> FieldCase:
    return next(found for found in field_cases() if found.id == id_)
