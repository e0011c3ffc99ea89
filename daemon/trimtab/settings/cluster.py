"""The cluster that the daemon is tied to: a simulated one, or Kubernetes."""

from __future__ import annotations

from trimtab.settings.shape import Count, NotNegative, Positive, Section


class SimulatedSettings(Section, frozen=True, kw_only=True):
    """A simulated cluster to read and write instead of a real one."""

    url: str
    """Where it is served."""
    speed: Positive = 1.0
    """How many times as fast as the machine's clock its time runs."""
    anchor: str = ""
    """ISO moment from which simulated time runs `speed` times as fast; empty = the machine's clock."""

    @property
    def clock_speed(self) -> float | None:
        """How fast a clock of its own runs; None = the machine's."""
        return self.speed if self.anchor else None


class KubernetesSettings(Section, frozen=True, kw_only=True):
    """A Kubernetes cluster to read, and to write where the mode and the account's rights allow it."""

    kubeconfig: str = ""
    """Path of a kubeconfig; empty = the pod's own service account, else $KUBECONFIG, else ~/.kube/config."""
    context: str = ""
    """Context of the kubeconfig; empty = its current one."""
    prefix: str = "trimtab"
    """Prefix of our annotations, labels, taints and field manager. Change it where two daemons share a cluster."""
    namespace: str = "trimtab"
    """Where our Lease and the pause ConfigMap live."""
    gpu_resource: str = "nvidia.com/gpu"
    """The extended resource that counts whole GPUs; MIG resources are those of the same vendor's `mig-` names."""
    rack_labels: tuple[str, ...] = ()
    """Node labels that name the rack, first found; empty = from Kueue's Topology, HyperNodes or topograph's labels."""
    pool_label: str = ""
    """Node label that names the pool; empty = from Kueue's ResourceFlavors, else the GPU product label."""
    spare_label: str = "trimtab/spare"
    """Nodes with this label set to "true" are kept for faults."""
    request_timeout_seconds: Positive = 10.0
    """How long one request may take; a write is never begun with less of our lease left."""
    admission_check: str = ""
    """Name of our Kueue AdmissionCheck; empty = not used. With it seats are exact, and nothing new is admitted in its
    queues while no daemon runs."""
    agent_service_account: str = ""
    """`namespace/name` of the agents' service account: its tokens, bound to a node, sign a DaemonSet's agents in
    (checked by TokenReview). Empty = node tokens only."""
    token_audience: str = "trimtab"
    """Audience that those tokens must be made for, so that a token for the cluster's own API is never sent here."""
    kueue_recovery_seconds: NotNegative = 0.0
    """`waitForPodsReady.recoveryTimeout` of Kueue's configuration, which its API does not tell. Where waitForPodsReady
    is on and this is 0 (unknown), no single pod is replaced: a slow swap would cost the whole gang."""
    ask_url: str = ""
    """Webhook that is asked before a job with `trimtab/ask-first` is moved; empty = a person is."""
    ask_seconds_max: Positive = 300.0
    """An ask-first hook that has not answered by then has said no."""
    ask_token_file: str = ""
    """File with the bearer token that is sent to `ask_url`, so that the hook knows who asks."""
    ask_url_prefixes: tuple[str, ...] = ()
    """Where a job's own hook (`trimtab/ask-first: <url>`) may be: the same scheme, host and port, and a path below.
    Empty = jobs' own hooks are not called, `ask_url` is."""
    lease_name: str = "trimtab"
    """Our Lease in `namespace`: who holds it writes, nobody else does."""
    lease_seconds: Count = 15
    """How long the Lease is ours after a renewal; longer than `request_timeout_seconds`, or nothing is ever written."""
    lease_retry_seconds: Positive = 2.0
    """How often it is renewed, or tried for."""
