"""Whether on-call would hear of a fault now: what doctor says, each failure with its fix. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.clock import count_text
from trimtab.model.oncall import Pager
from trimtab.show.api_types import Check
from trimtab.show.api_types_oncall import OnCall, TargetRow


def oncall_checks(oncall: OnCall) -> Iterable[Check]:
    """Who pages, and each target."""
    yield _pager(oncall)
    for row in oncall.targets:
        yield _target(row)


def _pager(oncall: OnCall) -> Check:
    if oncall.pager is Pager.NONE:
        return Check(
            name="on-call",
            is_ok=False,
            sentence="Nobody pages: faults are on the page alone.",
            fix="`trimtab pager outbox --reason …`, or [oncall] pager in the settings.",
        )
    if oncall.pager is Pager.OUTBOX and not oncall.targets:
        # An installation that nobody has set up yet is not ill.
        return Check(
            name="on-call",
            is_ok=True,
            sentence="No target is set up, so nobody is paged.",
            fix="Add [oncall.targets.NAME] to the daemon's settings (docs/how-to/on-call.md).",
        )
    switched = "" if oncall.pager is oncall.setting else f" (switched; the settings say {oncall.setting.value})"
    return Check(name="on-call", is_ok=True, sentence=f"{oncall.pager.value} pages{switched}.")


def _target(row: TargetRow) -> Check:
    name = f"on-call {row.name}"
    said = f"{count_text(row.waiting, 'message')} waiting, {row.dead} dead."
    if row.trouble:
        fix = "Mend what it names; what waits is sent by itself, what is dead by `trimtab outbox --resend NUMBER`."
        sentence = f"{row.name} does not take messages: {row.trouble}. {said}"
        return Check(name=name, is_ok=False, sentence=sentence, fix=fix)
    if row.dead:
        fix = "`trimtab outbox` shows them and why; `trimtab outbox --resend NUMBER` tries one again."
        return Check(name=name, is_ok=False, sentence=said, fix=fix)
    return Check(name=name, is_ok=True, sentence=said)
