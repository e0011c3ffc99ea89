"""Alertmanager both ways: what we push to it, what it is asked, and how its webhook's alerts are read."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from trimtab.settings.shape import Count, Positive, Section

LabelName = Annotated[str, Meta(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")]
"""What every Alertmanager takes: before 0.27 a label's name is ASCII."""


class OthersSettings(Section, frozen=True, kw_only=True):
    """How other people's alerts are placed: label names, the first that an alert has counts."""

    node_labels: tuple[LabelName, ...] = ("node", "Hostname", "hostname", "kubernetes_node", "nodename", "instance")
    """A port at the end (`gpu-07:9400`) is left off."""
    gpu_labels: tuple[LabelName, ...] = ("gpu_uuid", "UUID", "uuid", "gpu", "GPU_I_ID")
    """A UUID, or the GPU's index on its node."""
    namespace_labels: tuple[LabelName, ...] = ("exported_namespace", "namespace")
    """Namespace of the pod that an alert is about."""
    pod_labels: tuple[LabelName, ...] = ("exported_pod", "pod", "pod_name")
    """dcgm-exporter's own pod is in `pod` where Prometheus renamed the job's to `exported_pod`: hence the order."""
    workload_labels: tuple[LabelName, ...] = ("workload", "job_name", "exported_job")
    """The workload by name, where no pod is said."""
    cluster_label: LabelName = "cluster"
    """Tells alerts of several clusters in one Alertmanager apart."""
    clusters: tuple[str, ...] = ()
    """What this cluster is called there; empty = alerts of every name are about this cluster."""
    age_seconds: Positive = 6 * 3600.0
    """Firing and not heard of again for so long = over. Alertmanager repeats every 4 h by default."""
    alerts_max: Count = 5000
    """More that fire at once are counted, not kept."""
    keep_days: Positive = 30.0
    """Alerts that are over are kept this long."""


class AlertmanagerSettings(Section, frozen=True, kw_only=True):
    """Where Alertmanager is. Whether it pages is `oncall.pager`'s to say."""

    urls: tuple[str, ...] = ()
    """Every peer of an HA pair, never a load balancer before them: they tell each other nothing of alerts."""
    token_file: str = ""
    """Bearer token; or `user` and `password_file` for basic auth."""
    user: str = ""
    """For basic auth."""
    password_file: str = ""
    """File with the password of `user`."""
    ca_file: str = ""
    """CA of its certificate; empty = the system's."""
    proxy: str = ""
    """http://HOST:PORT by which it is reached; the environment's proxies are not used."""
    allow_plaintext: bool = False
    """Send a token or password over http:// to another host."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=10)] = 5.0
    """For a whole request and its answer. Peers that are out of reach are asked one after the other."""
    """For each request; one that hangs holds up nobody but this beat."""
    push: bool = False
    """Push incidents where `oncall.pager` says that Alertmanager pages and nobody runs our rules. Off: our Prometheus
    rules fire on them; both at once would be two pages."""
    interval_seconds: Positive = 5.0
    """How soon a new incident is pushed."""
    renew_seconds: Positive = 60.0
    """An open alert is posted again this often ..."""
    hold_seconds: Positive = 300.0
    """... and ends by itself this long after we fell silent. At least three renewals must fit in."""
    resolved_seconds: Positive = 900.0
    """A resolved alert is repeated for so long, as Prometheus does it: an Alertmanager that restarts hears of it."""
    labels: dict[LabelName, str] = field(default_factory=dict)
    """Added to every alert, for your routes: `{ team = "gpu" }`."""
    severity_label: LabelName | None = None
    """Label with the worst severity so far, for routes by severity. A worse one ends the alert and begins another,
    which pages again. None: severity is an annotation only, and one incident is one page."""
    alerts_max: Count = 2000
    """More open incidents than this are counted, not pushed."""
    silences: bool = True
    """Read its silences: what they match is not paged by our own outbox either."""
    silences_interval_seconds: Positive = 15.0
    """How often they are read: a silence holds from then on."""
    silences_stale_seconds: Positive = 300.0
    """Silences read longer ago than this no longer keep anybody asleep."""
    others: OthersSettings = OthersSettings()
