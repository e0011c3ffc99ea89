"""The Job controller: turns what happens to vcjobs, pods, PodGroups and Commands into requests, and works them off."""

from __future__ import annotations

from dataclasses import dataclass

from tests.cluster.volcano.api import COMMAND, JOB, POD, POD_GROUP, Change, Object, Refused
from tests.cluster.volcano.objects import annotation, controller_of, key_of, phase_of, uid_of, version_of
from tests.cluster.volcano.policies import SYNC, Decision, Request, decide, reaction
from tests.cluster.volcano.store import CONFLICT, Mirror, OnChange, Store
from tests.cluster.volcano.vcjobs import GROUP, JobHands, is_out_of_sync

from trimtab.clock import Clock

Key = tuple[str, str]
RETRIES_MAX = 15
FIRST_RETRY_SECONDS = 0.005
"""Volcano's own: with its doubling, 15 retries take 164 seconds."""


@dataclass
class _Delayed:
    due_seconds: float
    request: Request
    decision: Decision
    pod_event: str


class JobController:
    """One step works off everything that was told so far; what it writes is told back in the next."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        api = store.api
        self._jobs = Mirror(api.follow(JOB.collection))
        self._pods = Mirror(api.follow(POD.collection))
        self._groups = Mirror(api.follow(POD_GROUP.collection))
        self._commands = Mirror(api.follow(COMMAND.collection))
        self._hands = JobHands(store, pods=self._pods, groups=self._groups)
        self._cache: dict[Key, Object] = {}
        self._queue: list[Request] = []
        self._is_synced = False
        self._delayed: dict[tuple[Key, str], _Delayed] = {}
        self._failures: dict[Request, int] = {}
        self._retries: list[tuple[float, Request]] = []

    def step(self) -> bool:
        """True when there was anything to do."""
        told = self._told()
        for mirror, change, on_change in told:
            mirror.apply(change, on_change)
            if self._is_synced:
                self._work_off()
        self._is_synced = True  # a process that starts knows everything before it does anything
        self._fire_delayed()
        self._take_up_retries()
        return self._work_off() or bool(told)

    def _told(self) -> list[tuple[Mirror, Change, OnChange]]:
        sources: list[tuple[Mirror, OnChange]] = [
            (self._jobs, self._on_job),
            (self._pods, self._on_pod),
            (self._groups, self._on_group),
            (self._commands, self._on_command),
        ]
        told = [(mirror, change, on_change) for mirror, on_change in sources for change in mirror.changes()]
        return sorted(told, key=lambda one: version_of(one[1].object)) if self._is_synced else told

    def _work_off(self) -> bool:
        queue, self._queue = self._queue, []
        for request in queue:
            self._handle(request)
        return bool(queue)

    def close(self) -> None:
        for mirror in (self._jobs, self._pods, self._groups, self._commands):
            mirror.close()

    def due_seconds(self) -> float | None:
        """When the next delayed action or retry is due, on the clock's monotonic seconds."""
        dues = [one.due_seconds for one in self._delayed.values()] + [due for due, _ in self._retries]
        return min(dues, default=None)

    # --- what happened

    def _on_job(self, type_: str, before: Object | None, job: Object) -> None:
        key = key_of(job)
        if type_ == "DELETED":
            self._cache.pop(key, None)
            return
        known = self._cache.get(key)
        if known is None or uid_of(known) != uid_of(job) or version_of(known) <= version_of(job):
            self._cache[key] = job
        if before is None or before["spec"] != job["spec"] or _phase(before) != _phase(job):
            self._add(Request(namespace=key[0], job=key[1], event="OutOfSync"))

    def _on_pod(self, type_: str, before: Object | None, pod: Object) -> None:
        owner = controller_of(pod)
        job, task = annotation(pod, "volcano.sh/job-name"), annotation(pod, "volcano.sh/task-spec")
        if owner is None or owner["apiVersion"] != JOB.version or not job or not task:
            return
        event, exit_code = self._event_of(type_, before, pod)
        self._add(
            Request(
                namespace=pod["metadata"]["namespace"],
                job=job,
                event="OutOfSync" if is_out_of_sync(pod) else event,
                job_uid=owner["uid"],
                task=task,
                pod=pod["metadata"]["name"],
                exit_code=exit_code,
                version=int(annotation(pod, "volcano.sh/job-version", "0")),
            )
        )

    def _event_of(self, type_: str, before: Object | None, pod: Object) -> tuple[str, int]:
        if type_ == "DELETED":
            return ("PodEvicted" if before is not None else "OutOfSync"), 0
        if type_ == "ADDED":
            return "PodPending", 0
        was, phase = phase_of(before) if before else "", phase_of(pod)
        if phase == was:
            return "OutOfSync", 0
        if phase == "Failed":
            return "PodFailed", _exit_code(pod)
        if phase == "Succeeded":
            return ("TaskCompleted" if self._is_task_complete(pod) else "OutOfSync"), 0
        return ("Running" if phase == "Running" else "PodPending"), 0

    def _is_task_complete(self, pod: Object) -> bool:
        job = self._cache.get((pod["metadata"]["namespace"], annotation(pod, "volcano.sh/job-name")))
        name = annotation(pod, "volcano.sh/task-spec")
        tasks = [task for task in job["spec"]["tasks"] if task["name"] == name] if job else []
        if job is None or not tasks:
            return False
        ended = [
            one
            for one in self._pods_of(job)
            if annotation(one, "volcano.sh/task-spec") == name and phase_of(one) == "Succeeded"
        ]
        return 0 < int(tasks[0]["replicas"]) <= len(ended)

    def _on_group(self, type_: str, before: Object | None, group: Object) -> None:
        if type_ != "MODIFIED" or before is None or phase_of(before) == phase_of(group):
            return
        owner = controller_of(group)
        job = owner["name"] if owner and owner["kind"] == "Job" else group["metadata"]["name"]
        # no version goes with it, so after a job's first restart the event is taken for an old one: as in 1.15.1
        event = "Unknown" if phase_of(group) == "Unknown" else ""
        self._add(Request(namespace=group["metadata"]["namespace"], job=job, event=event))

    def _on_command(self, type_: str, before: Object | None, command: Object) -> None:
        target = command.get("target") or {}
        if type_ == "DELETED" or target.get("kind") != "Job" or target.get("apiVersion") != JOB.version:
            return
        namespace, name = key_of(command)
        if before is not None or not self._store.delete(COMMAND, namespace, name):
            return
        job = self._cache.get((namespace, target["name"]))
        if job is not None:
            cleaned = "and clean it up to make sure executed not more than once."
            text = f"Start to execute command {command['action']}, {cleaned}"
            self._store.record(JOB, job, reason="CommandIssued", message=text)
        self._add(Request(namespace=namespace, job=target["name"], event="CommandIssued", action=command["action"]))

    def _add(self, request: Request) -> None:
        if request not in self._queue:
            self._queue.append(request)

    # --- what is done about it

    def _handle(self, request: Request) -> None:
        key = (request.namespace, request.job)
        job = self._cache.get(key)
        self._forget_delayed(key, request)
        if job is None:
            return
        decision = decide(job, request)
        if decision.delay_seconds:
            self._delay(key, job, request, decision)
            return
        if decision.action != SYNC:
            text = f"Start to execute action {decision.action} "
            self._store.record(JOB, job, reason="ExecuteAction", message=text)
            self._delayed = {one: late for one, late in self._delayed.items() if one[0] != key}
        self._execute(key, job, request, decision.action)

    def _execute(self, key: Key, job: Object, request: Request, action: str) -> None:
        how = reaction(_phase(job), action)
        try:
            if how.how == "sync":
                job = self._hands.initiate(job)
                self._cache[key] = job
                self._hands.ensure_group(job)
                self._cache[key] = self._hands.sync(job, self._pods_of(job))
            else:
                target = self._target(job, request, action) if how.how == "target" else None
                self._cache[key] = self._hands.kill(job, self._pods_of(job), how, target=target)
        except Refused as refusal:
            if refusal.code == CONFLICT:
                self._refresh(key)
            if "PodGroup" in refusal.answer.message:
                text = f"Failed to create PodGroup, err: {refusal.answer.message}"
                self._store.record(JOB, job, reason="PodGroupError", message=text, is_warning=True)
            self._fail(key, request)
        else:
            self._failures.pop(request, None)

    def _fail(self, key: Key, request: Request) -> None:
        """Tries again later and later; after the last time the job is terminated."""
        count = self._failures.get(request, 0)
        if count < RETRIES_MAX:
            self._failures[request] = count + 1
            self._retries.append((self._clock.monotonic_seconds() + FIRST_RETRY_SECONDS * 2**count, request))
            return
        self._failures.pop(request, None)
        job = self._cache.get(key)
        if job is not None:
            self._store.record(
                JOB, job, reason="ExecuteAction", message="Job failed on action SyncJob for retry limit reached"
            )
            self._execute(key, job, request, "TerminateJob")

    def _take_up_retries(self) -> None:
        now = self._clock.monotonic_seconds()
        due = [request for at, request in self._retries if at <= now]
        self._retries = [(at, request) for at, request in self._retries if at > now]
        for request in due:
            self._add(request)

    def _refresh(self, key: Key) -> None:
        fresh = self._store.get(JOB, *key)
        if fresh is not None:
            self._cache[key] = fresh

    def _pods_of(self, job: Object) -> list[Object]:
        uid = uid_of(job)
        return [
            pod
            for pod in self._pods.objects.values()
            if (owner := controller_of(pod)) is not None and owner["uid"] == uid and annotation(pod, GROUP)
        ]

    def _target(self, job: Object, request: Request, action: str) -> list[Object]:
        pods = [pod for pod in self._pods_of(job) if annotation(pod, "volcano.sh/task-spec") == request.task]
        return pods if action == "RestartTask" else [pod for pod in pods if pod["metadata"]["name"] == request.pod]

    # --- what waits for a policy's timeout

    def _delay(self, key: Key, job: Object, request: Request, decision: Decision) -> None:
        text = f"Execute action {decision.action} after {decision.delay_seconds:g}s"
        self._store.record(JOB, job, reason="ExecuteAction", message=text)
        due = self._clock.monotonic_seconds() + decision.delay_seconds
        self._delayed.setdefault((key, request.pod), _Delayed(due, request, Decision(decision.action), request.event))

    def _forget_delayed(self, key: Key, request: Request) -> None:
        """A pod that runs again takes back what its end had started."""
        late = self._delayed.get((key, request.pod))
        if late is not None and request.event == "Running" and late.pod_event in ("PodFailed", "PodEvicted"):
            del self._delayed[key, request.pod]

    def _fire_delayed(self) -> None:
        """A delayed restart marks the pods; its own status is lost to the sync that this starts, so it is no retry."""
        now = self._clock.monotonic_seconds()
        for one, late in list(self._delayed.items()):
            job = self._cache.get(one[0])
            if late.due_seconds > now:
                continue
            del self._delayed[one]
            if job is None:
                continue
            if late.decision.action == "RestartJob":
                self._hands.mark_all(self._pods_of(job))
                status = job.get("status") or {}
                self._cache[one[0]] = {**job, "status": {**status, "version": int(status.get("version", 0)) + 1}}
                self._add(Request(namespace=one[0][0], job=one[0][1], event="OutOfSync"))
            else:
                self._execute(one[0], job, late.request, late.decision.action)


def _phase(job: Object) -> str:
    return str((job.get("status") or {}).get("state", {}).get("phase", ""))


def _exit_code(pod: Object) -> int:
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        terminated = (status.get("state") or {}).get("terminated") or {}
        return int(terminated.get("exitCode", 0))
    return 0
