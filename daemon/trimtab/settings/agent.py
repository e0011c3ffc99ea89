"""What `trimtab agent` reads."""

from __future__ import annotations

from trimtab.settings.exposition import AgentMetricsSettings
from trimtab.settings.log import LogSettings
from trimtab.settings.shape import Count, Positive, Section


class AgentSettings(Section, frozen=True, kw_only=True):
    """What `trimtab agent` reads."""

    cluster: str = "default"
    """Name of the cluster; every key and label carries it."""
    node: str = ""
    """Node name; empty = $TRIMTAB_NODE (in a pod, by the downward API), else the host's name."""
    daemon_urls: tuple[str, ...] = ()
    """Where reports go, first that answers. Empty = keep them in the spool and serve /metrics only."""
    token_file: str = ""
    """File with this node's bearer token, where an operator made it (`trimtab token node`); else join_token_file."""
    join_token_file: str = ""
    """File with a join token (`trimtab enroll NODE`), also $CREDENTIALS_DIRECTORY/join-token or $TRIMTAB_JOIN_TOKEN. It
    is used once for a credential of this node's own, which the agent renews by itself; afterwards the file may go."""
    credential_directory: str = "/var/lib/trimtab-agent/credential"
    """Where the agent keeps that credential, readable by itself alone."""
    ca_file: str = ""
    """CA certificate of the daemon's TLS, read again when it changes; empty = the system's."""
    client_certificate_file: str = ""
    """PEM file with this node's client certificate, where the site's own CA gives one; an enrolled node has its own."""
    client_key_file: str = ""
    """PEM file of its key; empty = in client_certificate_file too."""
    allow_plaintext: bool = False
    """Send over http:// to a host that is not loopback. Tokens and names are then readable on the wire."""
    interval_seconds: Positive = 10.0
    """One report per interval; 10 s keeps 100,000 GPUs within one daemon."""
    expensive_interval_seconds: Positive = 60.0
    """Process lists and other calls that stall a driver are read this seldom."""
    spool_directory: str = "/var/lib/trimtab-agent/spool"
    """Reports wait here until the daemon has acknowledged them."""
    spool_bytes_max: Count = 256 * 1024 * 1024
    """Oldest reports go first, counted, once the spool is larger: about a day of an 8-GPU node."""
    replay_reports_per_second: Positive = 20.0
    """Backlog after an outage is sent at this rate, behind live reports."""
    kernel_log: str = "auto"
    """auto, kmsg, none, or the path of a file to follow."""
    metrics_listen: str = "127.0.0.1:9742"
    """Where /metrics is served; empty = nowhere."""
    metrics: AgentMetricsSettings = AgentMetricsSettings()
    """Who may read /metrics, and under which names."""
    log: LogSettings = LogSettings()
    """What is logged, and in which form."""
    nvml_library: str = ""
    """Path of libnvidia-ml.so.1; empty = as the loader finds it."""
    gpus_expected: int | None = None
    """GPUs that this node should have; None = the most seen since boot."""
