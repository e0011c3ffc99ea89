"""Settings of agent and daemon: one TOML file each, read strictly; an unknown key is an error."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from trimtab.errors import SettingsError
from trimtab.model.command import Mode

Positive = Annotated[float, Meta(gt=0)]
Natural = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Ratio = Annotated[float, Meta(ge=0, le=1)]


class _Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a settings file."""


class AgentSettings(_Section, frozen=True, kw_only=True):
    """What `trimtab agent` reads."""

    cluster: str = "default"
    """Name of the cluster; every key and label carries it."""
    node: str = ""
    """Node name; empty = $TRIMTAB_NODE (in a pod, by the downward API), else the host's name."""
    daemon_urls: tuple[str, ...] = ()
    """Where reports go, first that answers. Empty = keep them in the spool and serve /metrics only."""
    token_file: str = ""
    """File with this node's bearer token."""
    ca_file: str = ""
    """CA certificate of the daemon's TLS; empty = the system's."""
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
    nvml_library: str = ""
    """Path of libnvidia-ml.so.1; empty = as the loader finds it."""
    gpus_expected: int | None = None
    """GPUs that this node should have; None = the most seen since boot."""


class ScrapeTarget(_Section, frozen=True, kw_only=True):
    """One dcgm-exporter to read in place of an agent."""

    url: str
    """Its /metrics page."""
    node: str
    """Node that it speaks for; an exporter's own hostname label is often its pod's."""


class IngestSettings(_Section, frozen=True, kw_only=True):
    """The listener for agents."""

    listen: str = "127.0.0.1:9741"
    """Address and port. Off loopback it needs TLS or allow_plaintext."""
    certificate_file: str = ""
    key_file: str = ""
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


class PeopleSettings(_Section, frozen=True, kw_only=True):
    """The listener for people and their tools: API, page, /metrics."""

    listen: str = "127.0.0.1:9740"
    certificate_file: str = ""
    key_file: str = ""
    allow_plaintext: bool = False
    public_url: str = ""
    """How people reach the page, for links; empty = from `listen`."""
    session_seconds: Positive = 12 * 3600.0
    """How long the page's cookie lasts: a shift."""
    metrics_token_file: str = ""
    """Bearer token for /metrics; empty = open on loopback only."""


class StoreSettings(_Section, frozen=True, kw_only=True):
    """Where history is kept."""

    url: str = "sqlite:///trimtab.db"
    """SQLAlchemy URL: sqlite (relative to state_directory) or postgresql://user@host/name."""
    commit_interval_seconds: Positive = 1.0
    """Reports are committed and acknowledged this often."""
    journal_days: Positive = 2.0
    """Raw reports are kept this long."""


class ScrapeSettings(_Section, frozen=True, kw_only=True):
    """Exporters read by the daemon itself."""

    targets: tuple[ScrapeTarget, ...] = ()
    interval_seconds: Positive = 15.0
    timeout_seconds: Positive = 10.0


class DetectSettings(_Section, frozen=True, kw_only=True):
    """Thresholds of the detectors; each default has its source in docs."""

    interval_seconds: Positive = 5.0
    span_seconds: Positive = 900.0
    """How much history one judgement sees."""
    silent_after_seconds: Positive = 60.0
    """node_silent: six missed reports at 10 s."""
    idle_after_seconds: Positive = 1800.0
    """idle_gpu: allocated and no GPU evidence of work for this long."""
    thermal_after_seconds: Positive = 300.0
    """hotspot: hardware thermal slowdown active this long."""
    power_brake_after_seconds: Positive = 300.0
    straggler_after_seconds: Positive = 120.0
    """straggler: a rank slow against its gang for this long."""
    straggler_ratio: Ratio = 0.9
    """A rank counts as slow under this share of its gang's median clock or activity."""
    fragmentation_after_seconds: Positive = 120.0
    """fragmentation: a waiting job that placement alone keeps waiting for this long."""
    hung_after_seconds: Positive = 300.0
    """hung_job: every rank busy by utilisation and at rest by power and memory this long; a slow step is shorter."""
    clock_skew_seconds_max: Positive = 300.0
    """clock_skew: from here windows use our receipt time."""


class PlanSettings(_Section, frozen=True, kw_only=True):
    """What the planner may propose and how much at once."""

    interval_seconds: Positive = 5.0
    expiry_seconds: Positive = 900.0
    """A recommendation not approved by then lapses (and is made anew if it still holds)."""
    moves_max: Natural = 4
    """Workloads under way at once."""
    cordoned_ratio_max: Ratio = 0.1
    """Share of nodes that may stand cordoned by us."""
    cordoned_max: Natural | None = None
    """Most nodes that may stand cordoned by us, whatever the share allows; unset = the share alone."""
    cordoned_ratio_max_per_pool: Ratio = 0.2
    """The same share within one pool (one node at least): a rule gone wrong must not take all of one GPU model."""
    cordoned_max_per_pool: Natural | None = None
    cordoned_ratio_max_per_rack: Ratio = 0.5
    """The same share within one rack (one node at least): what hits a whole rack is for a person to look at."""
    cordoned_max_per_rack: Natural | None = None
    cordons_per_hour_max: Natural | None = 10
    """Nodes cordoned within one hour; more is an incident that no rule should answer alone."""
    moved_gpus_ratio_max: Ratio | None = None
    """Share of the GPUs in use whose work may be stopped at once; unset = `moves_max` alone."""
    moves_per_hour_max: Natural | None = 30
    """Workloads stopped within one hour."""
    moves_max_per_queue: Natural | None = None
    """Workloads of one queue under way at once; unset = no limit of its own."""
    moves_ratio_max_per_queue: Ratio | None = None
    """Share of one queue's running workloads under way at once (one at least); unset = no limit of its own."""
    moves_per_workload_per_day: Natural = 3
    node_attempts_per_day: Natural = 3
    spares_kept: Natural = 1
    """Whole free nodes left alone by consolidation and relocation, for faults."""
    checkpoint_wait_seconds_max: Positive = 1800.0
    """How long a move may wait for a checkpoint."""
    restart_seconds_default: Positive = 300.0
    """Restart of a job where nothing is known: scheduling, image, NCCL start, checkpoint read."""
    is_finding_needed_to_make_room: bool = True
    """Jobs are moved to make room only for one that a fragmentation finding speaks for: it has waited long enough."""
    horizon_hours: Positive = 24.0
    """Gain of ending a loss is counted over this time at most."""


class IssueSettings(_Section, frozen=True, kw_only=True):
    """What may be carried out."""

    mode: Mode = Mode.RECOMMEND
    """observe, recommend, approve or act; per rule below."""
    rules: dict[str, Mode] = {}
    """Rule -> mode, capped by `mode`."""
    is_dry_run: bool = False
    """What begins goes through all steps and writes nothing. What had begun before is finished or undone for real."""
    settle_seconds_max: Positive = 900.0
    """A submitted command that has not settled by then is abandoned and released."""
    hold_seconds_max: Positive = 1800.0
    """Room held longer than this without a move is given back."""
    quiet_seconds_after_no: Positive = 3600.0
    """What a person rejected or undid is not proposed again for this long."""
    retry_seconds: Positive = 300.0
    """What failed or was refused by the scheduler is not tried again sooner."""
    missed_quiet_seconds: Positive = 30.0
    """After somebody else took a seat, the rule proposes no move for so long; twice as long after each next miss."""
    missed_quiet_seconds_max: Positive = 1800.0
    """Longest such pause: by then the stream that takes the seats has changed, or a person has looked."""
    veto_seconds: Positive = 7 * 86400.0
    """A node that a person opened after we had cordoned it is not cordoned again for the same cause: a week, so that
    whoever was on call need not say it twice."""
    notice_seconds: Annotated[float, Meta(ge=0)] = 0.0
    """How long before a move its owner is told, at least; 0 = told, then moved."""
    breaker_cordons: Count = 5
    """A detector's rule that made so many cordons, and most of them, within the window stops until a person looks."""
    breaker_ratio: Ratio = 0.5
    """Share of all cordons within the window that is more than one rule may make."""
    breaker_window_seconds: Annotated[float, Meta(gt=0, le=86400)] = 3600.0


class SimulatedSettings(_Section, frozen=True, kw_only=True):
    """A simulated cluster to read and write instead of a real one."""

    url: str
    speed: Positive = 1.0
    anchor: str = ""
    """ISO moment from which simulated time runs `speed` times as fast; empty = the machine's clock."""


class KubernetesSettings(_Section, frozen=True, kw_only=True):
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
    kueue_recovery_seconds: Annotated[float, Meta(ge=0)] = 0.0
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


class DaemonSettings(_Section, frozen=True, kw_only=True):
    """What `trimtab daemon` reads."""

    cluster: str = "default"
    state_directory: str = "/var/lib/trimtab"
    """Database (if SQLite), tokens, the operator's token."""
    ingest: IngestSettings = IngestSettings()
    people: PeopleSettings = PeopleSettings()
    store: StoreSettings = StoreSettings()
    scrape: ScrapeSettings = ScrapeSettings()
    detect: DetectSettings = DetectSettings()
    plan: PlanSettings = PlanSettings()
    issue: IssueSettings = IssueSettings()
    simulated: SimulatedSettings | None = None
    kubernetes: KubernetesSettings | None = None


S = TypeVar("S", AgentSettings, DaemonSettings)


def load(path: Path, kind: type[S]) -> S:
    """Read a settings file. Raises SettingsError that names file, key and fix."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}. Give --settings FILE, or create it.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error
    return from_table(table, kind, where=str(path))


def from_table(table: dict[str, object], kind: type[S], *, where: str) -> S:
    """Settings from a parsed table. Raises SettingsError with the key's path."""
    try:
        return msgspec.convert(table, kind, strict=True)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}: {error}") from error


def read_token(path: str, *, environment_name: str) -> str | None:
    """A token from the environment or a file; None when neither is set. Raises SettingsError when unreadable."""
    if environment_name in os.environ:
        return os.environ[environment_name].strip()
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot read the token: {error}") from error
