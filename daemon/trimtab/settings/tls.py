"""The daemon's own small CA, and the server certificates that it makes by it."""

from __future__ import annotations

from trimtab.settings.shape import Positive, Section


class TlsSettings(Section, frozen=True, kw_only=True):
    """The daemon's own CA. It is made at the first start that needs it, or by `trimtab ca create`."""

    ca_directory: str = "ca"
    """Where ca.pem and ca.key are, under state_directory. A second daemon needs a copy of both before it starts."""
    names: tuple[str, ...] = ()
    """Names and addresses by which agents and people reach this daemon, as its certificate holds them; a name that
    several daemons share belongs here. Empty = this host's names and addresses; localhost is always among them."""
    server_days: Positive = 90.0
    """How long the daemon's own certificate is good. It is made anew when a third of that is left."""
