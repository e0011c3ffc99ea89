"""What on-call and owners are told, in words: the first line that stands alone, and the lines below it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from trimtab.clock import iso
from trimtab.model.advice import Finding
from trimtab.model.command import Command
from trimtab.model.oncall import FIRST_LINE_CHARACTERS_MAX, Audience, Incident, Message, Verb
from trimtab.model.runbook import runbook_of
from trimtab.show.catalogue import Catalogue
from trimtab.show.oncall.text import one_line

_EVIDENCE_MAX = 3
_STEPS_MAX = 6
_NAMES_MAX = 3
_HOURS_MIN = 0.05
"""Less than this is said to have cost nothing."""
_MARK_CHARACTERS = 16
"""Kept free in the first line of a drill for its mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What all messages of a daemon share: where its page and its runbooks are."""

    page_url: str = ""
    runbook_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is to be told of an incident at a moment."""

    verb: Verb
    incident: Incident
    at: datetime
    finding: Finding | None = None
    is_loud: bool = False
    change: str = ""
    """What changed: `worse`, `better`, `victims`, `action`, `command`, `late`; of a summary: `summary`."""
    commands: Sequence[Command] = ()
    members: Sequence[Incident] = ()
    """Of a summary: what it speaks for."""
    who: str = ""


def compose(news: News, frame: Frame, *, audience: Audience, locale: str) -> Message:
    """The message for one kind of reader. The outbox gives it its place and id."""
    incident = news.incident
    words = Catalogue(locale)
    action = news.finding.action if news.finding is not None else incident.action
    return Message(
        id="",
        key=incident.key,
        verb=news.verb,
        sequence=0,
        at=news.at,
        opened_at=incident.opened_at,
        cluster=incident.cluster,
        rule=incident.rule,
        severity=incident.severity,
        subject=incident.subject,
        first_line=first_line(news, words, audience),
        title=incident.title,
        lines=tuple(lines(news, words, audience)),
        link=_link(news, frame),
        runbook=runbook_of(incident.rule, action, base=frame.runbook_url) if frame.runbook_url else "",
        queue=incident.queue,
        owner=incident.owner,
        who=news.who,
        locale=locale,
        facts=_facts(incident),
        is_loud=news.is_loud,
        is_drill=incident.is_drill,
    )


def first_line(news: News, words: Catalogue, audience: Audience = Audience.ONCALL) -> str:
    """At most 110 characters that stand alone on a lock screen: where, what, whom it hits."""
    incident = news.incident
    most = FIRST_LINE_CHARACTERS_MAX - (_MARK_CHARACTERS if incident.is_drill else 0)
    head = f"{incident.cluster}: " + _prefix(news, words, audience)
    sentence = one_line(summary_sentence(news.members, words) if news.members else incident.sentence).rstrip(".")
    impact = one_line(incident.impact).rstrip(".")
    whole = f"{head}{sentence}; {impact}" if impact and impact not in sentence else head + sentence
    return whole if len(whole) <= most else cut(head + sentence, most)


def cut(text: str, most: int) -> str:
    """The text in at most so many characters, ended at a word where one is near."""
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    space = kept.rfind(" ")
    return (kept[:space] if space > most * 2 // 3 else kept).rstrip(" ,;:") + "…"


def lines(news: News, words: Catalogue, audience: Audience) -> list[str]:
    """The lines below the first, the most important first."""
    told = {
        Verb.OPEN: _opening,
        Verb.UPDATE: _update,
        Verb.ACKNOWLEDGE: _acknowledged,
        Verb.RESOLVE: _closing,
    }[news.verb](news, words)
    owner = [words.say("oncall-for-owner")] if audience is Audience.OWNER and news.verb is Verb.OPEN else []
    return [one_line(line) for line in (*owner, *told, _names(news.incident)) if line]


def _opening(news: News, words: Catalogue) -> list[str]:
    incident = news.incident
    return [
        *([words.say("oncall-hits", impact=incident.impact)] if incident.impact else []),
        words.say("oncall-since", at=clock_text(incident.opened_at)),
        *(
            [words.say("oncall-was-quiet", age=span(incident.opened_at, news.at, words))]
            if news.change == "late"
            else []
        ),
        *_doing(news, words),
        *_evidence(news.finding, words),
    ]


def _doing(news: News, words: Catalogue) -> list[str]:
    """What is proposed or was done; while nothing is, what the finding asks for."""
    incident = news.incident
    if incident.is_drill:
        would = [words.say("oncall-would", what=line) for line in incident.dry_run[:_STEPS_MAX]]
        return [words.say("oncall-drill"), *(would or [words.say("oncall-would-nothing")])]
    told = [_command(command, words) for command in news.commands]
    if told:
        return told
    finding = news.finding
    advice = finding.advice if finding is not None else ""
    if not advice and words.knows(f"action-{incident.action}"):
        advice = words.say(f"action-{incident.action}")
    return [words.say("oncall-do", what=advice)] if advice else []


def _command(command: Command, words: Catalogue) -> str:
    sentence = command.recommendation.sentence.rstrip(".")
    key = f"oncall-command-{command.state}"
    if not words.knows(key):
        key = "oncall-command-other"
    who = command.approved_by or "trimtab"
    return words.say(key, name=command.name, what=sentence, who=who, state=command.state.value)


def _evidence(finding: Finding | None, words: Catalogue) -> list[str]:
    if finding is None:
        return []
    seen = [
        words.say("oncall-seen", source=one.source, text=one_line(one.text)[:200])
        for one in finding.evidence[:_EVIDENCE_MAX]
    ]
    against = [words.say("oncall-against", text=one_line(one.text)[:200]) for one in finding.against[:1]]
    return [*seen, *against]


def _update(news: News, words: Catalogue) -> list[str]:
    incident = news.incident
    changed = words.say(f"oncall-change-{news.change}") if words.knows(f"oncall-change-{news.change}") else ""
    return [
        changed,
        *([words.say("oncall-hits", impact=incident.impact)] if incident.impact else []),
        words.say("oncall-since", at=clock_text(incident.opened_at)),
        *_doing(news, words),
    ]


def _acknowledged(news: News, words: Catalogue) -> list[str]:
    return [words.say("oncall-acknowledged", who=news.who, at=clock_text(news.at))]


def _closing(news: News, words: Catalogue) -> list[str]:
    incident = news.incident
    acted = list(incident.acted)
    if incident.acknowledged_by and incident.acknowledged_at is not None:
        said = words.say("oncall-acknowledged", who=incident.acknowledged_by, at=clock_text(incident.acknowledged_at))
        acted.insert(0, said)
    return [
        words.say("oncall-lasted", span=span(incident.opened_at, news.at, words), at=clock_text(incident.opened_at)),
        *(
            [words.say("oncall-cost", hours=f"{incident.gpu_hours_lost:.1f}")]
            if incident.gpu_hours_lost >= _HOURS_MIN
            else []
        ),
        *([words.say("oncall-ended", why=incident.close_reason)] if incident.close_reason else []),
        *(acted or [words.say("oncall-nobody-acted")]),
        *([words.say("oncall-drill")] if incident.is_drill else []),
    ]


def _prefix(news: News, words: Catalogue, audience: Audience) -> str:
    """What kind of news it is; nothing where it opens, but for an owner."""
    incident = news.incident
    if news.verb is Verb.RESOLVE:
        return words.say("oncall-prefix-over", span=span(incident.opened_at, news.at, words)) + " "
    if news.verb is Verb.ACKNOWLEDGE:
        return words.say("oncall-prefix-acknowledged", who=news.who) + " "
    if news.verb is Verb.UPDATE and words.knows(f"oncall-prefix-{news.change}"):
        return words.say(f"oncall-prefix-{news.change}") + " "
    if audience is Audience.OWNER:
        return words.say("oncall-prefix-owner") + " "
    return ""


def summary_sentence(members: Sequence[Incident], words: Catalogue) -> str:
    """One sentence for incidents that were too many to be told one by one."""
    named = ", ".join(dict.fromkeys(one.subject.text for one in members[:_NAMES_MAX]))
    return words.say("oncall-summary", count=len(members), named=named)


def span(since: datetime, until: datetime, words: Catalogue) -> str:
    """How long, in words of the language."""
    seconds = max((until - since).total_seconds(), 0.0)
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return words.say(f"oncall-span-{unit}", count=round(seconds / size))
    return words.say("oncall-span-s", count=round(seconds))


def clock_text(moment: datetime) -> str:
    """`2026-11-30 14:31 UTC`: a mail may be read days later."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _names(incident: Incident) -> str:
    finding = f"F{incident.finding}" if incident.finding is not None else ""
    return " · ".join(part for part in (incident.name, finding, incident.cluster) if part)


def _link(news: News, frame: Frame) -> str:
    if not frame.page_url:
        return ""
    proposed = [command.id for command in news.commands if command.is_live]
    if proposed and news.verb is not Verb.RESOLVE:
        return f"{frame.page_url}/r/{proposed[0]}"
    finding = news.incident.finding
    return f"{frame.page_url}/f/{finding}" if finding is not None else f"{frame.page_url}/incidents"


def _facts(incident: Incident) -> dict[str, str]:
    facts = {
        "incident": incident.name,
        "action": incident.action.value,
        "impact": incident.impact,
        "opened_at": iso(incident.opened_at),
    }
    if incident.finding is not None:
        facts["finding"] = f"F{incident.finding}"
    return facts
