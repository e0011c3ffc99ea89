"""Where the daemon listens, keeps its history, and which exporters it reads."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from trimtab.settings.shape import Count, Positive, Section


class ScrapeTarget(Section, frozen=True, kw_only=True):
    """One dcgm-exporter to read in place of an agent."""

    url: str
    """Its /metrics page."""
    node: str
    """Node that it speaks for; an exporter's own hostname label is often its pod's."""


class IngestSettings(Section, frozen=True, kw_only=True):
    """The listener for agents."""

    listen: str = "127.0.0.1:9741"
    """Address and port. Off loopback it needs TLS or allow_plaintext."""
    certificate_file: str = ""
    """PEM file, read again when it changes; needed off loopback, or own_certificate."""
    key_file: str = ""
    """PEM file of the certificate's key."""
    own_certificate: bool = False
    """Serve by a certificate of the daemon's own CA ([tls]), which it makes and renews by itself."""
    client_certificates: Literal["off", "wanted", "required"] = "off"
    """Whether agents show a client certificate beside their token: `wanted` judges one that is shown, `required` takes
    no report without. Its node must be the report's."""
    client_ca_file: str = ""
    """PEM file of the CAs whose client certificates are taken; empty = the daemon's own CA."""
    allow_plaintext: bool = False
    """Listen without TLS off loopback; said at every start."""
    tokens_file: str = "node-tokens.toml"
    """Table `[nodes]`: node = SHA-256 (hex) of its token. Relative to state_directory. Re-read when it changes."""
    body_bytes_max: Count = 1024 * 1024
    """Largest compressed body; a node of 8 GPUs sends about 4 kB."""
    decoded_bytes_max: Count = 8 * 1024 * 1024
    """Largest body after decompression: a bomb ends here."""
    inbox_reports_max: Count = 20_000
    """Reports waiting for commit; past it agents are told 429 and keep theirs."""
    backlog_reports_max: Count = 4_000
    """Of these, reports that were kept during an outage: what is live always finds room. One commit's worth on a fast
    host; each of 8 GPUs takes about 50 kB of memory while it waits."""
    connections_max: Count = 20_000
    """Open connections of agents, at most 4 in 5 of the files that the process may open; past it the quietest goes."""


class PeopleSettings(Section, frozen=True, kw_only=True):
    """The listener for people and their tools: API, page, /metrics."""

    listen: str = "127.0.0.1:9740"
    """Address and port. Off loopback it needs TLS or allow_plaintext."""
    certificate_file: str = ""
    """PEM file, read again when it changes; needed off loopback, or own_certificate."""
    key_file: str = ""
    """PEM file of the certificate's key."""
    own_certificate: bool = False
    """Serve by a certificate of the daemon's own CA ([tls]), which it makes and renews by itself."""
    allow_plaintext: bool = False
    """Listen without TLS off loopback; said at every start."""
    connections_max: Count = 2_000
    """Open connections of people and their tools; past it the quietest one goes, so that somebody new gets in."""
    public_url: str = ""
    """How people reach the page, for links; empty = from `listen`."""
    session_seconds: Positive = 12 * 3600.0
    """How long the page's cookie lasts: a shift."""
    metrics_token_file: str = ""
    """Bearer token for /metrics; empty = open on loopback only."""
    sign_in_failures_per_peer_per_minute: Count = 10
    """Wrong tokens and dead links from one address (IPv6: one /64); past it 429 with Retry-After."""
    sign_in_failures_per_minute: Count = 300
    """The same from all addresses together."""
    proxy_peers: tuple[str, ...] = ()
    """Addresses or networks of proxies that sign people in; the headers below are believed from these alone."""
    proxy_user_header: str = "X-Forwarded-User"
    """Who it is; the proxy must replace what a client sends under this name."""
    proxy_groups_header: str = "X-Forwarded-Groups"
    """Their groups, with commas between them; the proxy must replace it too. Empty = it tells none."""
    proxy_roles: dict[str, Literal["viewer", "operator", "admin"]] = field(default_factory=dict)
    """Group = role, the highest counts; "*" is everybody whom a proxy signed in."""
    proxy_secret_file: str = ""
    """A secret that the proxy sends as X-Trimtab-Proxy-Secret: for proxies on hosts that others use too."""


class StoreSettings(Section, frozen=True, kw_only=True):
    """Where history is kept."""

    url: str = "sqlite:///trimtab.db"
    """SQLAlchemy URL: sqlite (relative to state_directory) or postgresql://user@host/name."""
    password_file: str = ""
    """File with PostgreSQL's password (`credential:NAME` for systemd's), so that it need not stand in `url`."""
    commit_interval_seconds: Positive = 1.0
    """Reports are committed and acknowledged this often."""
    journal_days: Positive = 2.0
    """Raw reports are kept this long."""


class ScrapeSettings(Section, frozen=True, kw_only=True):
    """Exporters read by the daemon itself."""

    targets: tuple[ScrapeTarget, ...] = ()
    interval_seconds: Positive = 15.0
    """dcgm-exporter reads the driver every 30 s by default: half of that misses nothing."""
    timeout_seconds: Positive = 10.0
    """A page of 8 GPUs comes in well under a second."""
