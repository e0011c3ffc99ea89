"""What an account asked of the API server from a moment on, out of the server's own audit log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.cluster.plane import Plane

WRITES = ("create", "update", "patch", "delete", "deletecollection")
ASKING = {"selfsubjectaccessreviews.authorization.k8s.io", "tokenreviews.authentication.k8s.io"}
"""Created, and nothing comes of it but an answer."""
OWN = {
    ("create", "leases.coordination.k8s.io"),
    ("update", "leases.coordination.k8s.io"),
    ("create", "events.events.k8s.io"),
    ("patch", "events.events.k8s.io"),
    *(("create", one) for one in ASKING),
}
"""What the reader may write, and the actor too."""
ACTING = {
    ("patch", "nodes"),
    ("create", "pods/eviction"),
    ("patch", "pods"),
    ("patch", "pods/status"),
    ("patch", "jobs.batch"),
    ("patch", "jobs.batch/status"),
    ("patch", "jobsets.jobset.x-k8s.io"),
    ("patch", "workloads.kueue.x-k8s.io"),
    ("patch", "workloads.kueue.x-k8s.io/status"),
    ("patch", "clusterqueues.kueue.x-k8s.io"),
    ("patch", "localqueues.kueue.x-k8s.io"),
    ("patch", "admissionchecks.kueue.x-k8s.io/status"),
    ("patch", "jobs.batch.volcano.sh"),
    ("create", "commands.bus.volcano.sh"),
    ("delete", "commands.bus.volcano.sh"),
}
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request and its answer."""

    at: datetime
    verb: str
    what: str
    """`pods/eviction`, `jobs.batch`."""
    where: str
    code: int
    body: Any
    """The object or patch that was sent; None of what was only read."""
    token: str
    """Id of the token that it came with."""

    @property
    def is_write(self) -> bool:
        """Whether it changes something, were it only tried."""
        return self.verb in WRITES and self.what not in ASKING

    @property
    def is_act(self) -> bool:
        """Whether it changes something that is not the daemon's own (its Lease, its Events)."""
        return self.is_write and (self.verb, self.what) not in OWN

    @property
    def is_lease_kept(self) -> bool:
        """Whether it took a Lease or renewed it, and the server let it."""
        is_renewal = self.verb in ("create", "update") and self.code in (200, 201)
        return is_renewal and bool((self.body or {}).get("spec", {}).get("holderIdentity"))

    def __str__(self) -> str:
        return (
            f"{self.at:%H:%M:%S.%f} {self.verb} {self.what} {self.where} -> {self.code} {json.dumps(self.body)[:300]}"
        )


class Audit:
    """All that an account asks from now on."""

    def __init__(self, plane: Plane, account: str = "trimtab-actor", namespace: str = "trimtab") -> None:
        self._plane, self._user = plane, f"system:serviceaccount:{namespace}:{account}"
        self.since = datetime.now(UTC)

    def asked(self) -> list[Asked]:
        """In the order in which the server received it."""
        found = []
        for path in self._plane.folder.glob("audit*.log"):
            with path.open(encoding="utf-8") as lines:
                found += [one for line in lines if self._user in line and (one := self._read(line)) is not None]
        return sorted(found, key=lambda one: one.at)

    def writes(self) -> list[Asked]:
        """What was to change something."""
        return [one for one in self.asked() if one.is_write]

    def _read(self, line: str) -> Asked | None:
        try:
            event = json.loads(line)
        except ValueError:
            return None  # half a line: it is being written, or its server was killed
        at = datetime.fromisoformat(event["requestReceivedTimestamp"])
        if at < self.since or event["user"]["username"] != self._user or "objectRef" not in event:
            return None
        thing = event["objectRef"]
        what = thing["resource"] + (f".{thing['apiGroup']}" if thing.get("apiGroup") else "")
        return Asked(
            at=at,
            verb=event["verb"],
            what=what + (f"/{thing['subresource']}" if thing.get("subresource") else ""),
            where=f"{thing.get('namespace', '')}/{thing.get('name', '')}",
            code=event.get("responseStatus", {}).get("code", 0),
            body=event.get("requestObject"),
            token=next(iter(event["user"].get("extra", {}).get(_CREDENTIAL, ())), ""),
        )


def assert_allowed(writes: Sequence[Asked], *, may_act: bool = True) -> None:
    """Every write is of a kind that the account is there for, and none was refused for want of a right."""
    expected = OWN | (ACTING if may_act else set())
    strange = [str(one) for one in writes if (one.verb, one.what) not in expected]
    assert not strange, "writes of a kind that nobody expects:\n" + "\n".join(strange)
    denied = [str(one) for one in writes if one.code in (401, 403, 422)]  # a policy's no is a 422
    assert not denied, "writes that were refused:\n" + "\n".join(denied)
    foreign = [str(one) for one in writes if one.what.startswith("leases") and one.where not in _OWN_LEASE]
    assert not foreign, "Leases of others:\n" + "\n".join(foreign)


_OWN_LEASE = ("trimtab/trimtab", "trimtab/")


def kinds(writes: Sequence[Asked]) -> dict[str, int]:
    """`patch nodes` -> how often, for a line of output."""
    found: dict[str, int] = {}
    for one in writes:
        found[f"{one.verb} {one.what}"] = found.get(f"{one.verb} {one.what}", 0) + 1
    return dict(sorted(found.items()))
