"""What a daemon that was elected brings with it: the election, its database, its ports, its word with systemd."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from trimtab.clock import Clock
from trimtab.listener import Listener
from trimtab.service import Service
from trimtab.show.auth import Door
from trimtab.show.metrics_facts import PairFacts
from trimtab.store.database import Database
from trimtab.store.election import Election, Phase
from trimtab.store.ring import Ring

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class Hatch:
    """An ASGI application behind which another is put while the port stays open."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401 - an ASGI application is any callable
        """Begin with this one."""
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's own shapes
        """Whoever is behind it now."""
        await self.app(scope, receive, send)


@dataclass(slots=True, kw_only=True)
class Seat:
    """The office of the active daemon, as it is handed over by `pair.py`."""

    election: Election
    database: Database
    ring: Ring
    """Holds the last minutes already."""
    lock: int
    """Of the state directory."""
    service: Service
    listeners: dict[str, tuple[Hatch, Listener]]
    clock: Clock
    daemons_expected: int
    keep_door: Callable[[Door], None]
    admitted: Callable[[], None]
    """Told once agents and people come in: the take-over is over."""
    _apps: dict[str, Any] = field(default_factory=dict)

    def listener(self, app: Any, name: str, door: Door) -> Listener:  # noqa: ANN401 - ASGI
        """The port that is open already; the application is behind it from `admit` on."""
        self.keep_door(door)
        self._apps[name] = app
        return self.listeners[name][1]

    def admit(self) -> None:
        """Agents and people come in from now on."""
        for name, app in self._apps.items():
            self.listeners[name][0].app = app
        self.admitted()

    def why_not_act(self) -> str | None:
        """Why nothing that leaves the database may begin at this moment; None = it may."""
        return self.election.why_not_act()

    def check(self) -> None:
        """Raises SteppedDown once another daemon is the active one."""
        if self.election.phase is Phase.LOST:
            raise SteppedDown(self.election.why_lost)

    def gated(self, tick: Callable[[], str]) -> Callable[[], str]:
        """A beat that tells people or machines outside: not while another daemon may still do the same."""

        def run() -> str:
            why_not = self.why_not_act()
            return f"waits: {why_not}" if why_not is not None else tick()

        return run

    def facts(self) -> PairFacts:
        """For /metrics and doctor."""
        return pair_facts(self.election, clock=self.clock, daemons_expected=self.daemons_expected)


class MayWrite(Protocol):
    """The Kubernetes Lease, as far as it is asked."""

    def why_not(self) -> str | None:
        """Why nothing may be written at this moment; None = it may."""
        ...


def why_not_write(seat: Seat | None, lease: MayWrite | None) -> Callable[[], str | None]:
    """What the issuer asks before each beat: whether another daemon may be the one that acts, by either election."""

    def why_not() -> str | None:
        said = seat.why_not_act() if seat is not None else None
        return said if said is not None or lease is None else lease.why_not()

    return why_not


class SteppedDown(Exception):
    """Another daemon is the active one: nothing more may be done with what this process has in memory."""


def pair_facts(election: Election, *, clock: Clock, daemons_expected: int) -> PairFacts:
    """The election in numbers and names."""
    sight, holder = election.sight, election.sight.holder
    is_active = election.phase is Phase.ACTIVE
    looked_at = sight.looked_at_seconds
    return PairFacts(
        cluster=election.me.cluster,
        name=election.me.name,
        is_active=is_active,
        term=holder.term if holder is not None else None,
        takeovers_total=holder.takeovers if holder is not None else None,
        since=holder.since if holder is not None else None,
        active_name=holder.name if holder is not None else "",
        active_url=holder.url if holder is not None else "",
        standbys=sight.standbys,
        daemons_expected=daemons_expected,
        look_age_seconds=None if looked_at is None else clock.monotonic_seconds() - looked_at,
        why_not_act=election.why_not_act() if is_active else None,
    )
