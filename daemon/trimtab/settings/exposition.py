"""What agent and daemon show Prometheus, and to whom."""

from __future__ import annotations

from trimtab.settings.shape import Section


class AgentMetricsSettings(Section, frozen=True, kw_only=True):
    """`[metrics]` of an agent. Where it listens is `metrics_listen`."""

    dcgm_aliases: bool = False
    """Publish every GPU value under dcgm-exporter's name, unit and labels too, for dashboards made for it."""
    token_file: str = ""
    """File with the bearer token that a reader must send; empty = none is asked for."""
    allow_from: tuple[str, ...] = ()
    """Addresses or networks (`10.20.0.0/16`) that may read; empty = any where a token is set, else this host."""
    certificate_file: str = ""
    """PEM file of its certificate; with it the page is served by TLS."""
    key_file: str = ""
    """PEM file of the certificate's key."""
    allow_plaintext: bool = False
    """Listen without TLS off loopback: the page names jobs, and the token can be read on the wire."""
    advertise: str = ""
    """ADDRESS:PORT at which others reach the page, told to the daemon's /sd; empty = as `metrics_listen` says, with
    the node's name where that is every address."""


class MetricsSettings(Section, frozen=True, kw_only=True):
    """`[metrics]` of the daemon: /metrics and /sd on the people listener."""

    dcgm_aliases: bool = False
    """Publish every GPU value under dcgm-exporter's name, unit and labels too. Not where Prometheus scrapes the
    agents with it as well: the dashboards would then count each GPU twice."""
    allow_from: tuple[str, ...] = ()
    """Addresses or networks that may read /metrics and /sd without the metrics token: both name jobs and owners."""
    gpu_series: bool = True
    """Publish each GPU's values on the daemon's page. Set false where Prometheus scrapes the agents, which have them
    too: the page carries 200,000 at most, and names as dropped what is beyond."""
    is_loopback_listed: bool = False
    """List agents in /sd that serve on loopback only: right where Prometheus, agents and daemon share one host."""
