"""What log lines carry so that the journal finds things: `journalctl XID=79` has the finding and each write for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import structlog

from trimtab import logs
from trimtab.detect.tracker import Changes
from trimtab.model.advice import Finding, OpenFinding, Subject
from trimtab.model.command import Command

log = structlog.get_logger()

_XID = re.compile(r"XID (\d{1,4})\b")


def remember(findings: Iterable[OpenFinding], commands: Iterable[Command] = ()) -> None:
    """From now on every line that names one of these carries what it is about."""
    known = {one.name: _of_finding(one) for one in findings}
    for command in commands:
        known[command.name] = _of_command(command, known)
    logs.stand(known)


def log_changes(changes: Changes) -> None:
    """One line per change of a finding; a warning only for what is new."""
    for one in changes.opened:
        log.warning("finding opened", said=one.finding.sentence, finding=one.name, **_of_finding(one))
    for one in changes.changed:
        log.info("finding changed", said=one.finding.sentence, finding=one.name, **_of_finding(one))
    for one in changes.closed:
        log.info("finding closed", why=one.close_reason, finding=one.name, **_of_finding(one))


def log_drill(name: str, finding: Finding) -> None:
    """A drill is found as what it plays would be, and says that it is one."""
    log.info("drill, nothing is wrong", said=finding.sentence, incident=name, **_about(finding))


def _of_finding(one: OpenFinding) -> dict[str, str]:
    return _about(one.finding)


def _about(finding: Finding) -> dict[str, str]:
    found = _XID.search(finding.facts.get("label", ""))
    return {"rule": finding.rule, **({"xid": found[1]} if found else {}), **_of_subject(finding.subject)}


def _of_command(command: Command, known: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What it is about, and of the first finding that it rests on what is not said by that."""
    advice = command.recommendation
    names = [f"F{number}" for number in advice.findings]
    finding = next((known[name] for name in names if name in known), {})
    rest = {name: value for name, value in finding.items() if name in ("xid", "gpu")}
    first = {"finding": names[0]} if names else {}
    return {**rest, **first, "rule": advice.rule, **_of_subject(advice.subject)}


def _of_subject(subject: Subject) -> dict[str, str]:
    named = {"node": subject.node, "gpu": subject.gpu, "workload": subject.workload, "cluster": subject.cluster}
    return {name: value for name, value in named.items() if value}
