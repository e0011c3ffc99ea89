"""What came of one file, as a value: its kind, what it says, what is concluded. Every reader of this root makes one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trimtab.detect.verdict import verdict_of
from trimtab.errors import UnreadableInput
from trimtab.model.advice import Action, Finding, Severity, Subject


class Refused(UnreadableInput):
    """The input is of a known kind, and one must not go on with it; the text names the cause."""

    def __init__(self, text: str, *, kind: str, reading: object = None) -> None:
        """`reading`: what could be read all the same."""
        super().__init__(text)
        self.kind = kind
        self.reading = reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The reading in brief, for people."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What one file says. `sentence` sums up what was read; `notes` tell what must not be concluded from it."""

    kind: str
    reading: object
    sentence: str
    findings: tuple[Finding, ...] = ()
    errors: int = 0
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    steps: tuple[str, ...] = ()
    """A plan, in order, where one was made."""
    meaning: str = ""
    """What the verdict means here, where its usual sentence would mislead."""

    @property
    def verdict(self) -> Action:
        """The worst of the findings."""
        return verdict_of(self.findings)

    def as_dict(self) -> dict[str, object]:
        """What `--json` prints."""
        return {
            "kind": self.kind,
            "verdict": self.verdict.value,
            "reading": self.reading,
            "findings": [
                {
                    "rule": finding.rule,
                    "subject": subject_text(finding),
                    "action": finding.action.value,
                    "text": finding.sentence,
                }
                for finding in self.findings
            ],
            "errors": self.errors,
        }


_PLACE = re.compile(r"(?:\S+ )?(?:GPU [\w:.]+|GPUs [\w:.]+(?:, [\w:.]+)*|NVSwitch [\w:.]+)")


def subject_text(finding: Finding) -> str:
    """What a finding is about: its GPU, else the place that its sentence starts with, else its node or workload."""
    place = _PLACE.match(finding.sentence) if finding.subject.gpu is None else None
    return place[0] if place else finding.subject.text or "the node"


def remark(
    rule: str,
    about: str,
    action: Action,
    sentence: str,
    *,
    advice: str = "",
    facts: Mapping[str, str] | None = None,
) -> Finding:
    """A finding of inspect's own, about something that has a name in the file."""
    return Finding(
        rule=rule,
        incident=f"{rule}:{about}",
        subject=Subject(cluster="", node=about),
        action=action,
        severity=Severity.INFO if action in (Action.NONE, Action.WATCH) else Severity.WARNING,
        sentence=sentence,
        advice=advice,
        facts=facts or {},
    )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first, else as found."""
    return tuple(sorted(findings, key=lambda finding: -finding.action.rank))


@dataclass(frozen=True, slots=True)
class Counted:
    """A count and its noun, for sentences."""

    number: int
    noun: str
    nouns: str = field(default="")

    def __str__(self) -> str:
        """`1 GPU`, `8 GPUs`."""
        return f"{self.number} {self.noun if self.number == 1 else self.nouns or self.noun + 's'}"
