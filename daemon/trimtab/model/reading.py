"""What a node says: report, GPU readings and events. Decoded from the wire straight into these classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

SCHEMA_MAJOR = 1


class GpuState(StrEnum):
    """Whether a GPU could be read. Absent values say nothing about it; this does."""

    OK = "ok"
    LOST = "lost"
    """The driver says that it fell off the bus, or it was there and its handle is gone."""
    UNREADABLE = "unreadable"
    """The driver lists it and no base read succeeds, or its reader hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInfo:
    """What a GPU is. `pci` is canonical (`0000:3b:00.0`); everything but the UUID can be unknown."""

    uuid: str
    pci: str | None = None
    serial: str | None = None
    model: str | None = None
    index: int | None = None
    minor: int | None = None
    vbios: str | None = None
    driver: str | None = None
    is_mig: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process on a GPU; `memory_used_bytes` is absent where the driver hides it."""

    pid: int
    name: str | None = None
    memory_used_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigReading:
    """One MIG instance: `gi`/`ci` ids and values by sample key (`metric.sample_key`)."""

    gi: int
    ci: int | None = None
    profile: str | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    holder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at one moment. `values` maps sample keys (`name` or `name/label`) to base units; absent = unknown.

    `holder` is who holds it as the source says (`namespace/pod`, a Slurm job id); None = not said.
    `shared_by` lists holders where several share one device (time-slicing).
    """

    info: GpuInfo
    state: GpuState = GpuState.OK
    values: Mapping[str, float] = field(default_factory=dict)
    instances: tuple[MigReading, ...] = ()
    processes: tuple[Process, ...] | None = None
    holder: str | None = None
    shared_by: tuple[str, ...] = ()
    read_seconds: float | None = None

    @property
    def uuid(self) -> str:
        """The GPU's UUID."""
        return self.info.uuid


class EventKind(StrEnum):
    """What kind of thing happened on a node."""

    XID = "xid"
    SXID = "sxid"
    FALLEN_OFF = "fallen_off"
    RM_INIT = "rm_init"
    RESET_REQUIRED = "reset_required"
    GPU_LOST = "gpu_lost"
    GPU_RETURNED = "gpu_returned"
    UUID_CHANGED = "uuid_changed"
    DRIVER_CHANGED = "driver_changed"
    BOOT = "boot"


class EventSource(StrEnum):
    """Who said so. KERNEL and NVML of the same XID count as one source; USERSPACE never suffices to act."""

    KERNEL = "kernel"
    NVML = "nvml"
    EXPORTER = "exporter"
    USERSPACE = "userspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened, with the raw line it rests on.

    `gpu` is a UUID where known; `pci` canonical or None (redacted, impossible, node-level). `code` is the XID or
    SXid number. `details` keeps what else was printed: unit, link, registers, engine, recovery action …
    """

    kind: EventKind
    source: EventSource
    at: datetime
    code: int | None = None
    gpu: str | None = None
    pci: str | None = None
    boot_id: str | None = None
    cursor: str | None = None
    severity: str | None = None
    subcode: str | None = None
    link: int | None = None
    engine: str | None = None
    pid: int | None = None
    process_name: str | None = None
    gi: int | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one node sends at one tick. `sequence` grows by one per report over restarts of agent and node."""

    schema_major: int = SCHEMA_MAJOR
    cluster: str
    node: str
    boot_id: str
    spool_id: str = ""
    """Made once with the agent's spool: a new spool counts from 1 again and is no duplicate of the old one."""
    sequence: int
    sampled_at: datetime
    agent_version: str = ""
    source: str = "nvml"
    """nvml, dcgm-exporter or sim."""
    driver: str | None = None
    gpus: tuple[GpuReading, ...] = ()
    gpus_expected: int | None = None
    events: tuple[Event, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    """Section or field -> why it could not be read this time."""
    bad_samples: Mapping[str, int] = field(default_factory=dict)
    """Sample key -> values dropped as blank, NaN, infinite or out of range."""
    node_values: Mapping[str, float] = field(default_factory=dict)
    metrics_url: str = ""
    """Where others reach this node's /metrics; empty = nowhere, or an agent that does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A report as the daemon holds it: with its receipt time and whether its node's clock can be believed."""

    report: Report
    received_at: datetime
    sent_at: datetime | None = None
    """The sender's own clock when it sent; None where it did not say (a scrape needs none)."""
    body_bytes: int = 0
    is_replay: bool = False
    """Older than 10 minutes when received: history only, pages nobody."""
    is_clock_believed: bool = True

    @property
    def at(self) -> datetime:
        """The moment that windows use: the node's own where believed, else the receipt."""
        return self.report.sampled_at if self.is_clock_believed else self.received_at

    @property
    def clock_skew_seconds(self) -> float:
        """How far the node's clock is behind ours; without `sent_at` the report's age counts as well."""
        return (self.received_at - (self.sent_at or self.report.sampled_at)).total_seconds()
