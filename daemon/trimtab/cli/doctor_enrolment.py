"""What `trimtab doctor` says of a node's enrolment: what its agent has, and why it is not let in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from trimtab.clock import Clock, SystemClock, iso
from trimtab.errors import SettingsError
from trimtab.settings import AgentSettings
from trimtab.show.api_types import Check


def enrolment_checks(settings: AgentSettings, *, is_note: bool, clock: Clock | None = None) -> Iterator[Check]:
    """Nothing where the node is not to be enrolled. `is_note`: what is wrong keeps no agent from being started."""
    from trimtab.joining import enrolment_of  # noqa: PLC0415 - the agent's half, for this check alone

    try:
        found = enrolment_of(settings)
    except SettingsError as error:
        yield Check(name="enrolment", is_ok=is_note, sentence=str(error), fix="Look as root, or as the agent's user.")
        return
    if found is None:
        return
    kept, trouble = found
    now = (clock or SystemClock()).now()
    if kept is None:
        sentence = f"This node is not enrolled: {trouble or 'its agent has not joined yet'}."
        yield Check(name="enrolment", is_ok=is_note, sentence=_one_stop(sentence), fix=_fix(settings))
    elif now >= kept.expires_at:
        sentence = f"The credential of {kept.node} ran out at {iso(kept.expires_at)}. {trouble}".strip()
        yield Check(name="enrolment", is_ok=is_note, sentence=sentence, fix=_fix(settings))
    elif trouble:
        yield Check(name="enrolment", is_ok=is_note, sentence=_one_stop(f"{trouble}."), fix=_fix(settings))
    else:
        late = kept.received_at + timedelta(seconds=kept.lasts_seconds * 0.9)
        sentence = f"{kept.node} is enrolled in {kept.cluster} until {iso(kept.expires_at)}."
        if now >= late:
            sentence += " It should have been renewed by now."
        fix = "See the agent's log: journalctl -u trimtab-agent." if now >= late else ""
        yield Check(name="enrolment", is_ok=is_note or now < late, sentence=sentence, fix=fix)


def _one_stop(sentence: str) -> str:
    return sentence.replace("..", ".")


def _fix(settings: AgentSettings) -> str:
    where = settings.join_token_file or "the agent's join_token_file"
    return f"Beside the daemon: `trimtab enroll NODE` (--again where it is enrolled), and the token into {where}."
