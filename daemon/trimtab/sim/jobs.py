"""Jobs of the simulated cluster: what they ask for, how far they are, and what was saved of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.model.cluster import Checkpoint, Placement, Workload, WorkloadState
from trimtab.model.command import Seat

CONTROLLER = "simulated"
STOP_SECONDS = 10.0
"""From the order to stop until the GPUs are free: signal, grace, clean-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a job asks for and how it loads a GPU at full pace; ratios are 0 to 1."""

    name: str
    queue: str
    pods: int
    gpus_per_pod: int
    owner: str
    priority: int = 0
    sm_active_ratio: float = 0.8
    tensor_active_ratio: float = 0.5
    dram_active_ratio: float = 0.5
    power_ratio: float = 0.85
    """Share of the span between idle and limit that full pace draws."""
    memory_ratio: float = 0.85
    nvlink_bytes_per_second: float = 60e9
    checkpoint_seconds: float | None = 600.0
    restart_seconds: float = 120.0
    duration_seconds: float | None = None
    """Work until it is finished; None = outlives the simulation."""
    is_preemptible: bool = True

    @property
    def id(self) -> str:
        """`queue/name`."""
        return f"{self.queue}/{self.name}"

    @property
    def gpus(self) -> int:
        """GPUs that it holds when it runs."""
        return self.pods * self.gpus_per_pod

    def pod(self, rank: int) -> str:
        """Name of one pod."""
        return f"{self.name}-{rank}"


@dataclass(slots=True, kw_only=True)
class Job:
    """A job and where it stands. `done_seconds` counts full-pace work, `saved_seconds` what a checkpoint holds."""

    spec: JobSpec
    state: WorkloadState
    submitted_at: datetime
    placements: tuple[Placement, ...] = ()
    waiting_since: datetime | None = None
    waiting_reason: str | None = None
    started_at: datetime | None = None
    ready_at: datetime | None = None
    """End of the start: image, process group, checkpoint read."""
    stopped_at: datetime | None = None
    """When a job that stops will have let go of its GPUs."""
    stalled_since: datetime | None = None
    suspended_by: str | None = None
    given_seats: tuple[Seat, ...] = ()
    """Where it was told to start again."""
    given_by: str | None = None
    """Who told it."""
    is_resume_wanted: bool = False
    saved_at: datetime | None = None
    done_seconds: float = 0.0
    saved_seconds: float = 0.0
    pace_ratio: float = 0.0
    """This step's progress as a share of full pace."""
    lost_gpu_seconds: float = 0.0
    """GPU-seconds of work that were thrown away since the simulation began."""
    restarts: int = 0
    finished_at: datetime | None = None
    columns: tuple[int, ...] = ()
    """Its GPUs' columns in the physics, in rank order."""

    @property
    def id(self) -> str:
        """`queue/name`."""
        return self.spec.id

    @property
    def holds_gpus(self) -> bool:
        """Whether it sits on its GPUs, working or not."""
        return self.state in (WorkloadState.STARTING, WorkloadState.RUNNING, WorkloadState.STOPPING)

    def wait(self, now: datetime) -> None:
        """Go to the end of the queue."""
        self.state = WorkloadState.WAITING
        self.waiting_since, self.waiting_reason = now, None
        self._let_go()

    def start(self, now: datetime, placements: tuple[Placement, ...], columns: tuple[int, ...]) -> None:
        """Take these GPUs and begin to load."""
        self.state = WorkloadState.STARTING
        self.placements, self.columns = placements, columns
        self.started_at, self.waiting_since, self.waiting_reason = now, None, None
        self.ready_at = now + timedelta(seconds=self.spec.restart_seconds)
        self.suspended_by, self.is_resume_wanted = None, False
        self.given_seats, self.given_by = (), None
        self.stalled_since = None

    def run(self, now: datetime) -> None:
        """Loaded: work begins, from what was saved."""
        self.state = WorkloadState.RUNNING
        self.saved_at = now  # what runs is what was saved: nothing is lost if it stops now

    def stop(self, now: datetime, *, by: str | None) -> None:
        """Begin to stop; what is not in a checkpoint is lost."""
        self.roll_back()
        self.suspended_by = by
        if self.state is WorkloadState.WAITING:
            self.state = WorkloadState.SUSPENDED
            self.waiting_since = self.waiting_reason = None
            return
        self.state = WorkloadState.STOPPING
        self.stopped_at = now + timedelta(seconds=STOP_SECONDS)

    def rest(self) -> None:
        """Stopped, GPUs free, not asking for room."""
        self.state = WorkloadState.SUSPENDED
        self._let_go()

    def finish(self, now: datetime) -> None:
        """All work done."""
        self.state, self.finished_at = WorkloadState.FINISHED, now
        self._let_go()

    def roll_back(self) -> None:
        """Fall back to the last checkpoint."""
        self.lost_gpu_seconds += (self.done_seconds - self.saved_seconds) * self.spec.gpus
        self.done_seconds = self.saved_seconds
        self.pace_ratio = 0.0

    def work(self, now: datetime, seconds: float) -> None:
        """Move on by `seconds` at this step's pace, and save when it is time."""
        self.done_seconds += seconds * self.pace_ratio
        interval = self.spec.checkpoint_seconds
        if interval is None or self.saved_at is None or self.pace_ratio == 0.0:
            return
        if (now - self.saved_at).total_seconds() >= interval:
            self.saved_at, self.saved_seconds = now, self.done_seconds

    def _let_go(self) -> None:
        self.placements, self.columns = (), ()
        self.ready_at = self.stopped_at = self.stalled_since = None
        self.pace_ratio = 0.0

    def as_workload(self) -> Workload:
        """The job as the scheduler shows it."""
        spec = self.spec
        interval = spec.checkpoint_seconds
        return Workload(
            id=self.id,
            name=spec.name,
            controller=CONTROLLER,
            pods=spec.pods,
            gpus_per_pod=spec.gpus_per_pod,
            state=self.state,
            is_gang=spec.pods > 1,
            queue=spec.queue,
            tenant=spec.queue,
            owner=spec.owner,
            priority=spec.priority,
            is_preemptible=spec.is_preemptible,
            placements=self.placements,
            checkpoint=Checkpoint(last_at=self.saved_at if interval else None, interval_seconds=interval),
            restart_seconds=spec.restart_seconds,
            started_at=self.started_at,
            waiting_since=self.waiting_since,
            waiting_reason=self.waiting_reason,
            suspended_by=self.suspended_by,
        )
