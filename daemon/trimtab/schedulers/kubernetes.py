"""The one door to the cluster's API: addresses, reads, writes, watch streams; errors are translated here, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from trimtab.errors import (
    SchedulerBusy,
    SchedulerConflict,
    SchedulerError,
    SchedulerGone,
    SchedulerRefused,
    SchedulerUnavailable,
)


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
        """One line per watch event until the server ends it; SchedulerSilent when nothing came for so long.

        The watch is open when this returns; an iterator that has `close` is to be closed.
        """
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

    def delete(
        self, path: str, body: Mapping[str, Any] | None = None, params: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Delete; `body` carries preconditions."""
        ...


MESSAGE_HEAD_CHARACTERS = 600
"""A webhook quotes whole pod templates; what decides stands at the head."""


def failure(asked: str, code: int, status: Mapping[str, Any], retry_after: str | None = None) -> SchedulerError:
    """The server's answer of 400 and above as our error, in its own words.

    `asked` is `PATCH /api/v1/nodes/gpu-07`, `status` the `v1 Status` that came. 403 has three meanings (rights, a
    webhook's no, a wrong state) and 422 four, so the message's head is kept.
    """
    message = str(status.get("message") or "").strip() or "no message"
    if len(message) > MESSAGE_HEAD_CHARACTERS:
        message = f"{message[:MESSAGE_HEAD_CHARACTERS]} …"
    details = status.get("details") or {}
    causes = [str(cause.get("message") or "") for cause in details.get("causes") or []]
    error = _meaning(code, message)(f"{asked}: {code} {_in_words(code, message, [one for one in causes if one])}")
    error.code = code
    if isinstance(error, SchedulerBusy):
        error.retry_after_seconds = _seconds(retry_after) or details.get("retryAfterSeconds")
    return error


def _meaning(code: int, message: str) -> type[SchedulerError]:
    if code == 409 or (code == 422 and _is_stale(message)):
        return SchedulerConflict
    if code in (404, 410):
        return SchedulerGone
    if code == 429:
        return SchedulerBusy
    return SchedulerUnavailable if code >= 500 else SchedulerRefused


def _is_stale(message: str) -> bool:
    # A JSON patch that does not fit (its test failed, or what it changes is gone) has this one general sentence; a
    # merge patch for an object that was made anew under the same name says that its uid cannot change.
    return message.startswith("the server rejected our request due to an error in our request") or (
        "metadata.uid: Invalid value" in message and "field is immutable" in message
    )


def _in_words(code: int, message: str, causes: Sequence[str]) -> str:
    if code == 401:
        return f"{message}: the token or certificate is not (or no longer) accepted; renew the kubeconfig's credentials"
    if code == 429 and "disruption budget" in message:
        return " ".join((message, *(cause for cause in causes if cause not in message)))
    if code >= 500 and "failed calling webhook" in message:
        return f"an admission webhook cannot be called, so such writes are refused until it is back: {message}"
    return message


def _seconds(retry_after: str | None) -> float | None:
    try:
        return float(retry_after) if retry_after else None
    except ValueError:
        return None  # a date: not sent by API servers
