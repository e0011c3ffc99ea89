"""The one door to the cluster's API: addresses, reads, writes, watch streams; errors are translated here, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind by its address in the API. `group` is empty for the core."""

    group: str
    version: str
    plural: str
    is_namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """`/apis/batch/v1/namespaces/team-a/jobs/train/status`; without a namespace, of all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.is_namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


class PatchKind(StrEnum):
    """Content types of a PATCH. Merge for maps, JSON patch for lists (`spec.taints`), apply for what has owners."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


Body = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A JSON patch is a list of operations, any other body is a map."""


class Api(Protocol):
    """The cluster's API. Paths are absolute (`Resource.path`), bodies and answers are plain JSON values.

    Every method raises SchedulerUnavailable (unreachable, timed out, 5xx, a webhook that cannot be called),
    SchedulerConflict (409, a failed JSON-patch test), SchedulerGone (404, 410), SchedulerBusy (429) or
    SchedulerRefused (400, 401, 403, 405, 422) with the server's own words.
    """

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """One object, or any other JSON document."""
        ...

    def raw(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body as it came, for typed decoding of long lists."""
        ...

    def watch(self, path: str, params: Mapping[str, str], *, quiet_seconds_max: float) -> Iterator[bytes]:
        """One line per watch event until the server ends it; raises when nothing came for so long."""
        ...

    def post(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Create."""
        ...

    def put(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Replace."""
        ...

    def patch(self, path: str, body: Body, kind: PatchKind, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Change."""
        ...

    def delete(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Delete; `body` carries preconditions."""
        ...
