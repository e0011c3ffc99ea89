"""Letters about one incident for all who are told of it: the same news in each reader's language. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

from trimtab.model.advice import Severity
from trimtab.model.oncall import Audience, Message, Target, Verb
from trimtab.model.outbox import Letter
from trimtab.show.oncall.wording import Frame, News, compose

Told = Mapping[str, tuple[Audience, str]]
"""Target -> whom it speaks to there, and in which language."""


LOUD_ONLY = frozenset({"feishu", "dingtalk", "wecom", "teams", "apprise"})
"""Kinds that can neither edit nor thread: each message is seen anew, so small news is left to the ending."""


class Letters:
    """Writes news to targets."""

    def __init__(
        self, frame: Callable[[], Frame], targets: Mapping[str, Target], *, quiet_update_seconds: float
    ) -> None:
        """`frame` is asked each time; updates that wake nobody wait `quiet_update_seconds`, and become one."""
        self._frame = frame
        self._targets = targets
        self._wait = timedelta(seconds=quiet_update_seconds)

    def to(self, told: Told, news: News, *, skipping: Collection[str] = ()) -> tuple[Letter, ...]:
        """One letter for each target that takes such news."""
        return tuple(
            self._letter(name, news, audience, locale)
            for name, (audience, locale) in told.items()
            if name not in skipping and self._takes(name, news)
        )

    def for_others(self, news: News) -> Message:
        """The same for targets that were told by way of another: on-call's news, in English."""
        return compose(news, self._frame(), audience=Audience.ONCALL, locale="en")

    def known(self, told: Told, handed_on: Iterable[str]) -> dict[str, tuple[Audience, str]]:
        """Everybody who was told, those included to whom another target's letters were handed on."""
        others = {name: (Audience.ONCALL, self._targets[name].locale) for name in handed_on if name in self._targets}
        return {**others, **told}

    def _takes(self, name: str, news: News) -> bool:
        target = self._targets.get(name)
        if target is None:
            # One that is no longer in the settings still gets its ending: it dies there, where people see it.
            return news.verb is Verb.RESOLVE
        is_small = news.verb is Verb.UPDATE and not news.is_loud
        return news.verb in target.verbs and not (is_small and target.kind in LOUD_ONLY)

    def _letter(self, name: str, news: News, audience: Audience, locale: str) -> Letter:
        target = self._targets.get(name)
        is_pager = target is not None and target.is_pager
        is_patient = news.verb is Verb.UPDATE and not news.is_loud
        return Letter(
            target=name,
            message=compose(news, self._frame(), audience=audience, locale=locale),
            not_before=_later(news.at, self._wait) if is_patient else None,
            # A pager need not ring for what is over; where people read later, what was critical is told all the same.
            may_drop=is_pager or news.incident.worst is not Severity.CRITICAL,
        )


def _later(at: datetime, wait: timedelta) -> datetime:
    return at + wait
