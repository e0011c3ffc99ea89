"""Who may write: one Kubernetes Lease, renewed from a beat of its own, and a fence that no write passes without it.

Whoever holds the Lease trusts it for `lease_seconds` from the moment *before* its last renewal was sent; whoever wants
it waits as long from the moment *after* it saw the last renewal, by its own monotonic clock. So two daemons never both
think that they hold it, whatever their wall clocks say, however long one of them was frozen. A write is begun only
where the lease outlasts the longest request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from trimtab.clock import Clock
from trimtab.errors import SchedulerConflict, SchedulerError, SchedulerGone, SchedulerUnavailable, SettingsError
from trimtab.model.command import AuditLine
from trimtab.schedulers.kubernetes import Api, Body, PatchKind, Resource
from trimtab.settings import KubernetesSettings

log = structlog.get_logger()

LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The Lease as the server has it. What of it moves when it is renewed is `beat`."""

    holder: str
    seconds: float
    epoch: int
    beat: tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """Our hold: until when it is trusted, and from when it may be used (monotonic seconds)."""

    epoch: int
    until: float
    free_from: float


class Lease:
    """The Lease as one daemon sees it. `tick` from one thread; `why_not` and `epoch` from any."""

    def __init__(
        self,
        api: Api,
        settings: KubernetesSettings,
        *,
        identity: str,
        clock: Clock,
        is_elected: Callable[[], bool] | None = None,
    ) -> None:
        """`identity` is new with each start. `is_elected`: another election decides; its winner takes over at once."""
        _check(settings)
        self.identity = identity
        self._api = api
        self._settings = settings
        self._clock = clock
        self._is_elected = is_elected
        self._path = LEASES.path(settings.namespace, settings.lease_name)
        self._term: _Term | None = None
        self._holder = ""
        self._seen: tuple[tuple[str, str, int], float] | None = None

    @property
    def epoch(self) -> int | None:
        """Number of the present hold, larger with each change of hands; None while it is not ours."""
        term = self._term
        return term.epoch if term is not None else None

    @property
    def is_elsewhere(self) -> bool:
        """Whether another daemon was last seen to hold it."""
        return self._term is None and self._holder not in ("", self.identity)

    @property
    def request_seconds(self) -> float:
        """How long one request may take."""
        return self._settings.request_timeout_seconds

    def why_not(self) -> str | None:
        """Why nothing may be written at this moment, as the end of a sentence; None = it may."""
        term, now = self._term, self._clock.monotonic_seconds()
        if term is None:
            return f"the lease is held by {self._holder}" if self._holder else "the lease is not held by this daemon"
        if now < term.free_from:
            return f"the lease of the daemon before this one runs for another {term.free_from - now:.1f} s"
        left, needed = term.until - now, self._settings.request_timeout_seconds
        if left <= needed:
            return f"the lease is ours for another {max(left, 0.0):.1f} s and a request may take {needed:g} s"
        return None

    def tick(self) -> str:
        """Renew, or try to acquire; a sentence about what came of it. Raises nothing that the API may answer."""
        was = self._term
        if self._is_elected is not None and not self._is_elected():
            self._term = None
            return self._changed(was, "another daemon is the active one")
        try:
            said = self._try()
        except SchedulerConflict:
            self._term = None  # somebody wrote it between our read and our write: no longer trust it
            said = "somebody else wrote the lease at this moment"
        except SchedulerError as error:
            said = f"the lease cannot be reached: {error}"  # what we hold is trusted until it runs out
        return self._changed(was, said)

    def release(self) -> str:
        """Give it up at a clean end, so that the next daemon need not wait. Everything that writes has ended before."""
        term, self._term = self._term, None
        if term is None:
            return "the lease was not ours"
        try:
            found = self._api.get(self._path)
            if _record(found).holder != self.identity:
                return "the lease is somebody else's already"
            self._put(found, holder="", epoch=_record(found).epoch)
        except SchedulerError as error:
            return f"the lease could not be given up and runs out by itself: {error}"
        return "the lease is given up"

    def noting(self, audit: Callable[[AuditLine], None]) -> Callable[[AuditLine], None]:
        """The audit with the epoch in each line, so that what two daemons wrote can be told apart."""

        def note(line: AuditLine) -> None:
            epoch = self.epoch
            audit(line if epoch is None else replace(line, why=f"{line.why} (epoch {epoch})".strip()))

        return note

    # --- one try

    def _try(self) -> str:
        asked_at = self._clock.monotonic_seconds()
        try:
            found = self._api.get(self._path)
        except SchedulerGone:
            return self._create()
        record, seen_at = _record(found), self._clock.monotonic_seconds()
        self._holder = record.holder
        if self._seen is None or self._seen[0] != record.beat:
            self._seen = (record.beat, seen_at)
        if record.holder == self.identity:
            return self._renew(found, record)
        self._term = None
        runs_out_at = self._seen[1] + record.seconds
        if not record.holder:
            return self._take(found, record, free_from=asked_at)
        if seen_at > runs_out_at:
            return self._take(found, record, free_from=asked_at)
        if self._is_elected is not None:
            return self._take(found, record, free_from=runs_out_at)
        return f"the lease is held by {record.holder}"

    def _create(self) -> str:
        """Nobody knows who held it before it was deleted, so one full term passes before anything is written."""
        self._term = None
        asked_at = self._clock.monotonic_seconds()
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._settings.lease_name, "namespace": self._settings.namespace},
            "spec": self._spec(self.identity, epoch=1),
        }
        self._api.post(LEASES.path(self._settings.namespace), body, {"fieldManager": self._settings.prefix})
        self._hold(1, asked_at, free_from=self._clock.monotonic_seconds() + self._settings.lease_seconds)
        return "the lease is made"

    def _renew(self, found: Mapping[str, Any], record: _Record) -> str:
        asked_at = self._clock.monotonic_seconds()
        self._put(found, holder=self.identity, epoch=record.epoch)
        term = self._term
        # Held by our name and not in our memory: taken over by a try whose answer was lost. Its wait is not known.
        free_from = term.free_from if term is not None else asked_at + self._settings.lease_seconds
        self._hold(record.epoch, asked_at, free_from=free_from)
        return "the lease is ours"

    def _take(self, found: Mapping[str, Any], record: _Record, *, free_from: float) -> str:
        asked_at = self._clock.monotonic_seconds()
        epoch = record.epoch + 1
        self._put(found, holder=self.identity, epoch=epoch)
        self._hold(epoch, asked_at, free_from=free_from)
        return f"the lease is taken over from {record.holder or 'nobody'}"

    def _put(self, found: Mapping[str, Any], *, holder: str, epoch: int) -> None:
        """Replace exactly what was read: the server refuses where somebody wrote it since."""
        metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
        body = {**found, "metadata": metadata, "spec": self._spec(holder, epoch=epoch, before=found.get("spec") or {})}
        self._api.put(self._path, body, {"fieldManager": self._settings.prefix})

    def _spec(self, holder: str, *, epoch: int, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
        now = _micro_time(self._clock.now())
        old = dict(before or {})
        acquired = old.get("acquireTime") if old.get("holderIdentity") == holder else None
        return {
            **old,
            "holderIdentity": holder,
            "leaseDurationSeconds": self._settings.lease_seconds,
            "acquireTime": acquired or now,
            "renewTime": now,
            "leaseTransitions": epoch,
        }

    def _hold(self, epoch: int, asked_at: float, *, free_from: float) -> None:
        self._holder = self.identity
        self._term = _Term(epoch=epoch, until=asked_at + self._settings.lease_seconds, free_from=free_from)

    def _changed(self, was: _Term | None, said: str) -> str:
        """A line in the log when the lease comes or goes, and none while nothing changes."""
        term = self._term
        if (was is None) is not (term is None):
            log.info("lease changed hands", said=said, identity=self.identity, epoch=term.epoch if term else None)
        return said


class FencedApi:
    """An `Api` that sends no write unless the lease allows it at that very moment; reads pass."""

    def __init__(self, api: Api, lease: Lease) -> None:
        """Reviews of tokens and access are POSTs that read: they belong on the inner Api."""
        self._api = api
        self._lease = lease
        # The server gives up on the write when we do: one that hangs there must not be done after our lease has ended.
        self._limit = {"timeout": f"{max(round(lease.request_seconds), 1)}s"}

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """One object, or any other JSON document."""
        return self._api.get(path, params)

    def raw(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body as it came."""
        return self._api.raw(path, params)

    def watch(self, path: str, params: Mapping[str, str], *, quiet_seconds_max: float) -> Iterator[bytes]:
        """One line per watch event."""
        return self._api.watch(path, params, quiet_seconds_max=quiet_seconds_max)

    def post(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Create, with the lease."""
        self._allow("POST", path)
        return self._api.post(path, body, {**(params or {}), **self._limit})

    def put(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Replace, with the lease."""
        self._allow("PUT", path)
        return self._api.put(path, body, {**(params or {}), **self._limit})

    def patch(self, path: str, body: Body, kind: PatchKind, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Change, with the lease."""
        self._allow("PATCH", path)
        return self._api.patch(path, body, kind, {**(params or {}), **self._limit})

    def delete(
        self, path: str, body: Mapping[str, Any] | None = None, params: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Delete, with the lease."""
        self._allow("DELETE", path)
        return self._api.delete(path, body, {**(params or {}), **self._limit})

    def _allow(self, verb: str, path: str) -> None:
        reason = self._lease.why_not()
        if reason is not None:
            raise SchedulerUnavailable(f"not sent ({verb} {path}): {reason}")


def _check(settings: KubernetesSettings) -> None:
    needed = settings.request_timeout_seconds + settings.lease_retry_seconds
    if settings.lease_seconds <= needed:
        raise SettingsError(
            f"kubernetes.lease_seconds is {settings.lease_seconds} and must be more than request_timeout_seconds plus "
            f"lease_retry_seconds ({needed:g}), or nothing could ever be written. Raise it, or lower those."
        )


def _record(found: Mapping[str, Any]) -> _Record:
    """What a Lease object says; one that lacks its duration is trusted as long as ours would be."""
    spec = found.get("spec") or {}
    holder, epoch = str(spec.get("holderIdentity") or ""), int(spec.get("leaseTransitions") or 0)
    return _Record(
        holder=holder,
        seconds=float(spec.get("leaseDurationSeconds") or 15),
        epoch=epoch,
        beat=(holder, str(spec.get("renewTime") or ""), epoch),
    )


def _micro_time(moment: datetime) -> str:
    """A moment as Kubernetes' MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
