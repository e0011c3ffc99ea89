"""The error tree. A library's exception is translated at its one door and chained."""

from __future__ import annotations


class TrimtabError(Exception):
    """Something that trimtab names and survives; its text is a sentence for a person."""


class SettingsError(TrimtabError):
    """A setting is missing, unknown or out of range; the text names file, key and fix."""


class NoData(TrimtabError):
    """There is nothing to read here; an ordinary outcome, not a fault."""


class CollectError(TrimtabError):
    """A source exists but could not be read."""


class UnreadableInput(CollectError):
    """A file given to inspect is not of a kind that trimtab reads."""


class ShipError(TrimtabError):
    """A report could not be carried to the daemon."""


class StoreError(TrimtabError):
    """The database refused or is out of reach."""


class DatabaseAway(StoreError):
    """The database cannot be reached now; the same words may find it in a moment."""


class DatabaseNewer(StoreError):
    """A newer trimtab wrote the database; nothing was changed."""


class LedgerConflict(StoreError):
    """The command was changed by someone else since it was read; nothing was written."""


class Superseded(StoreError):
    """Another daemon is the active one now; nothing was written, and this one writes nothing more."""


class DecisionRefused(TrimtabError):
    """A person's decision cannot be taken as it stands; the text says why and what to do."""


class UnknownCommand(DecisionRefused):
    """There is no command of this id."""


class SchedulerError(TrimtabError):
    """The scheduler did not do what was asked."""

    code: int | None = None
    """HTTP status of the answer, where there was one."""


class SchedulerUnavailable(SchedulerError):
    """The scheduler cannot be reached; nothing is known about what it did."""


class SchedulerSilent(SchedulerUnavailable):
    """A watch on which nothing came for as long as it may be quiet."""


class SchedulerRefused(SchedulerError):
    """The scheduler answered no."""


class SchedulerVetoed(SchedulerRefused):
    """A person has undone what the command did (opened its node, started its job again): that is a no.

    `node`: the one that was opened; empty where it was no node.
    """

    def __init__(self, said: str, *, node: str = "") -> None:
        """The sentence for people, and the node that it is about."""
        super().__init__(said)
        self.node = node


class SchedulerConflict(SchedulerError):
    """The object is not what it was when it was read; nothing was written. Read again."""


class SchedulerGone(SchedulerError):
    """There is no such object (any more)."""


class SchedulerBusy(SchedulerError):
    """Not now: a disruption budget is used up, or the server is overloaded. Wait; never force."""

    retry_after_seconds: float | None = None


class ClientError(TrimtabError):
    """The daemon's API could not be reached or answered no; the text says what to do."""


class EnrolmentRefused(TrimtabError):
    """A node does not come in, or an operator's wish about one cannot be met; the text says why and what to do."""

    def __init__(self, sentence: str, *, status: int, reason: str = "") -> None:
        """The sentence, the HTTP status that goes with it, and the reason as programs read it."""
        super().__init__(sentence)
        self.status = status
        self.reason = reason
