"""The arbiter: who pages for what is new. What is open stays with whoever opened it, until it is closed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from trimtab.model.oncall import Incident, Pager


class Switch(Protocol):
    """The stored switch; the history satisfies it."""

    def pager_switch(self) -> Pager | None:
        """As last switched while running; None = never."""
        ...

    def switch_pager(self, pager: Pager, *, who: str, why: str, at: datetime) -> None:
        """Let somebody else page from now on."""
        ...


class Arbiter:
    """Decides once an incident, at its opening; each row carries the answer, so that no flip can split one."""

    def __init__(self, *, setting: Pager, switch: Switch) -> None:
        """`setting` counts until the switch has been used."""
        self.setting = setting
        self._switch = switch

    def for_new(self) -> Pager:
        """Who pages for what opens now."""
        return self._switch.pager_switch() or self.setting

    def flip(self, pager: Pager, *, who: str, why: str, at: datetime) -> Pager:
        """Let somebody else page for what opens from now on; who it was before."""
        before = self.for_new()
        self._switch.switch_pager(pager, who=who, why=why, at=at)
        return before


def of_alertmanager(incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """The open incidents that stand with Alertmanager: what is pushed, and nothing else."""
    return tuple(one for one in incidents if one.is_open and one.pager is Pager.ALERTMANAGER)
