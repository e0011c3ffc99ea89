"""What of a running agent a reload of its settings changes, and how; all else waits for a restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from trimtab import logs
from trimtab.clock import Clock
from trimtab.loop import Beat
from trimtab.reloading import Part, Reloader, Take
from trimtab.settings import AgentSettings
from trimtab.ship.sender import Sender, sender_of
from trimtab.ship.spool import Spool

SENDER_KEYS = (
    "daemon_urls",
    "token_file",
    "ca_file",
    "client_certificate_file",
    "client_key_file",
    "allow_plaintext",
    "replay_reports_per_second",
)


class Host(Protocol):
    """The running agent, as far as a reload reaches into it."""

    def use_settings(self, settings: AgentSettings) -> None:
        """Reports are made by these from now on."""
        ...

    def use_sender(self, sender: Sender) -> None:
        """Who ships from the next turn on."""
        ...


def reload_of(
    host: Host,
    settings: AgentSettings,
    *,
    read: Callable[[], AgentSettings] | None,
    spool: Spool,
    beats: Sequence[Beat],
    clock: Clock,
    is_enrolled: bool,
) -> Reloader[AgentSettings]:
    """The agent's reload. One that enrolled has its addresses and keys from there: those wait for a restart."""

    def paced(new: AgentSettings) -> Take:
        def take() -> None:
            for beat in beats:
                if beat.name == "read":
                    beat.pace(new.interval_seconds)

        return take

    def shipped(new: AgentSettings) -> Take:
        sender = sender_of(new, spool=spool, clock=clock)
        return lambda: host.use_sender(sender)

    def log(new: AgentSettings) -> Take:
        return lambda: logs.setup(level=new.log.level, form=new.log.form, identifier="trimtab-agent")

    parts: list[Part[AgentSettings]] = [
        Part(keys=("log",), prepare=log),
        Part(keys=("interval_seconds",), prepare=paced),
        Part(keys=("spool_bytes_max",), prepare=lambda new: lambda: spool.allow(new.spool_bytes_max)),
        Part(keys=("gpus_expected",), prepare=lambda _new: lambda: None),  # asked at each report
    ]
    if not is_enrolled:
        parts.append(Part(keys=SENDER_KEYS, prepare=shipped))
    return Reloader(settings, read=read or (lambda: settings), parts=parts, clock=clock, use=host.use_settings)
