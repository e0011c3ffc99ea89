"""Two daemons on one PostgreSQL: how this one is called, and how long a silence counts as death."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from trimtab.settings.shape import Positive, Section

BEATS_PER_TRUST = 2.0
"""One check that is late must not stop what is under way."""


class PairSettings(Section, frozen=True, kw_only=True):
    """An active daemon and one that stands by, on one PostgreSQL database."""

    daemons: Annotated[int, Meta(ge=1, le=2)] = 1
    """Daemons that you run for this cluster: with 2 a missing standby is an alert. Two need PostgreSQL."""
    name: str = ""
    """How this daemon is called on the page, in the audit and by the other; empty = the host's name."""
    check_seconds: Positive = 0.5
    """The active one says that it lives, and the other looks, this often: a killed daemon is noticed in one look."""
    trust_seconds: Positive = 3.0
    """Without the database's word for so long the active one begins nothing; whoever takes over waits as long."""
    silent_seconds: Positive = 8.0
    """An active daemon that has said nothing for so long is put out: frozen, or its network is cut."""


def pair_trouble(pair: PairSettings, *, store_url: str) -> str | None:
    """Why these two settings do not go together, as a sentence with the fix; None where they do."""
    if pair.daemons > 1 and not store_url.startswith("postgresql"):
        return (
            f"pair.daemons = {pair.daemons}, and store.url is SQLite, which one daemon alone can use. Set store.url to "
            "postgresql://… (trimtab db move copies what is there), or pair.daemons = 1."
        )
    if pair.trust_seconds < BEATS_PER_TRUST * pair.check_seconds:
        return (
            f"pair.trust_seconds = {pair.trust_seconds:g} is less than two checks ({pair.check_seconds:g} s each), so "
            "that one late check would stop all moves. Raise it, or lower pair.check_seconds."
        )
    if pair.silent_seconds < pair.trust_seconds + BEATS_PER_TRUST * pair.check_seconds:
        return (
            f"pair.silent_seconds = {pair.silent_seconds:g} must be at least pair.trust_seconds plus two checks "
            f"({pair.trust_seconds + BEATS_PER_TRUST * pair.check_seconds:g}): the other daemon would take over while "
            "this one still acts. Raise it."
        )
    return None
