"""People and what they may do: roles, their tokens, their sessions at the page."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What somebody may do."""

    VIEWER = "viewer"
    """Reads everything, changes nothing."""
    OPERATOR = "operator"
    """Also decides: approves, rejects, snoozes, undoes, pauses, acknowledges, silences."""
    ADMIN = "admin"
    """Also gives and takes away tokens and sessions, and releases everything."""
    WEBHOOK = "webhook"
    """A program that delivers to the webhooks, and nothing else."""

    def covers(self, needed: Role) -> bool:
        """Whether who has this role may do what `needed` is asked for; a webhook's role is apart from people's."""
        if Role.WEBHOOK in (self, needed):
            return self is needed
        return _PEOPLE.index(self) >= _PEOPLE.index(needed)


_PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
