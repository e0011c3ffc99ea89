"""A small client of the Kubernetes API for tests: plain dicts in and out, and one `wait_for` with a deadline."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import requests
from requests.adapters import HTTPAdapter

Json = dict[str, Any]
Found = TypeVar("Found")

CONTENT_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_GROUPS = {
    "v1": "pods nodes namespaces events services secrets serviceaccounts configmaps resourcequotas",
    "batch/v1": "jobs",
    "apps/v1": "deployments replicasets statefulsets daemonsets",
    "policy/v1": "poddisruptionbudgets",
    "coordination.k8s.io/v1": "leases",
    "scheduling.k8s.io/v1": "priorityclasses",
    "rbac.authorization.k8s.io/v1": "roles rolebindings clusterroles clusterrolebindings",
    "apiextensions.k8s.io/v1": "customresourcedefinitions",
    "apiregistration.k8s.io/v1": "apiservices",
    "admissionregistration.k8s.io/v1": "mutatingwebhookconfigurations validatingwebhookconfigurations "
    "validatingadmissionpolicies validatingadmissionpolicybindings",
    "authentication.k8s.io/v1": "tokenreviews",
    "authorization.k8s.io/v1": "subjectaccessreviews selfsubjectaccessreviews",
    "kueue.x-k8s.io/v1beta2": "workloads clusterqueues localqueues cohorts resourceflavors topologies admissionchecks "
    "workloadpriorityclasses",
    "resource.k8s.io/v1": "resourceclaims resourceclaimtemplates deviceclasses resourceslices",
    "resource.k8s.io/v1alpha3": "devicetaintrules",
    "jobset.x-k8s.io/v1alpha2": "jobsets",
}
GROUP_OF = {resource: group for group, resources in _GROUPS.items() for resource in resources.split()}
"""Group and version by resource; write "batch.volcano.sh/v1alpha1/jobs" for what is not here or stands twice."""

DEADLINE_SECONDS = 60.0
POLL_SECONDS = 0.1


class ApiError(Exception):
    """The API server said no; `status`, `reason`, `message` and `body` hold how."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        try:
            self.body: Json = json.loads(text)
        except ValueError:
            self.body = {"message": text}
        self.reason: str | None = self.body.get("reason")
        self.message: str = self.body.get("message") or text
        super().__init__(f"{status} {self.reason}: {self.message}")


class Watch:
    """An open watch: iterate over its events; `close` from any thread ends the iteration."""

    def __init__(self, response: requests.Response, session: requests.Session) -> None:
        self._response, self._session = response, session
        self._is_closed = threading.Event()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Json]:
        try:
            for line in self._response.iter_lines(chunk_size=None):
                if self._is_closed.is_set():
                    return
                if line:
                    yield json.loads(line)
        except (requests.RequestException, OSError, ValueError, AttributeError):
            # What a read raises when `close` shuts its socket depends on where in TLS it was.
            if not self._is_closed.is_set():
                raise

    def close(self) -> None:
        """End it; safe to repeat."""
        self._is_closed.set()
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._response.raw.shutdown()
        self._response.close()
        self._session.close()


class Client:
    """One account at one API server. Safe to use from several threads."""

    def __init__(self, url: str, token: str, ca_file: Path | str, *, timeout_seconds: float = 30.0) -> None:
        self.url, self.token, self.ca_file, self.timeout_seconds = url, token, str(ca_file), timeout_seconds
        self._session = self._new_session()

    def close(self) -> None:
        """Close its connections."""
        self._session.close()

    def get(self, resource: str, name: str, namespace: str | None = None, *, subresource: str | None = None) -> Json:
        """One object."""
        return self.request("GET", path_of(resource, namespace, name, subresource))

    def find(self, resource: str, name: str, namespace: str | None = None) -> Json | None:
        """One object, or None when there is none of that name."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, resource: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> list[Json]:
        """All objects, in one namespace or everywhere, by label and field selector."""
        return self.list_whole(resource, namespace, labels=labels, fields=fields)["items"]

    def list_whole(self, resource: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Json:
        """The list itself, with the resourceVersion that a watch goes on from."""
        return self.request("GET", path_of(resource, namespace), **_selectors(labels, fields))

    def create(
        self,
        resource: str,
        body: Json,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
        **query: str,
    ) -> Json:
        """POST; the namespace is the body's own unless another is given. `name` goes with `subresource`."""
        namespace = namespace or body.get("metadata", {}).get("namespace")
        return self.request("POST", path_of(resource, namespace, name, subresource), body, **query)

    def ensure(self, resource: str, body: Json, namespace: str | None = None) -> Json:
        """Create, or replace what is there."""
        namespace = namespace or body["metadata"].get("namespace")
        present = self.find(resource, body["metadata"]["name"], namespace)
        if present is None:
            return self.create(resource, body, namespace)
        version = present["metadata"]["resourceVersion"]
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return self.request("PUT", path_of(resource, namespace, body["metadata"]["name"]), body)

    def patch(
        self,
        resource: str,
        name: str,
        body: Json | list[Json],
        namespace: str | None = None,
        *,
        kind: str = "merge",
        subresource: str | None = None,
        **query: str,
    ) -> Json:
        """PATCH; `kind` is merge, json, strategic or apply; `query` may hold fieldManager, dryRun, force."""
        path = path_of(resource, namespace, name, subresource)
        return self.request("PATCH", path, body, content_type=CONTENT_TYPES[kind], **query)

    def delete(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
        propagation: str | None = None,
    ) -> Json:
        """DELETE, with a grace period, a uid precondition and a propagation policy where given."""
        options = _delete_options(grace_seconds, uid) | ({"propagationPolicy": propagation} if propagation else {})
        return self.request("DELETE", path_of(resource, namespace, name), options)

    def evict(
        self, pod: str, namespace: str, *, uid: str | None = None, grace_seconds: int | None = None, **query: str
    ):
        """Evict a pod, as a drain does; PDBs are asked."""
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        if options := _delete_options(grace_seconds, uid):
            body["deleteOptions"] = options
        return self.create("pods", body, namespace, name=pod, subresource="eviction", **query)

    def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        labels: str = "",
        fields: str = "",
        silence_seconds: float = 3600.0,
    ) -> Watch:
        """Open a watch on a connection of its own."""
        query = {"watch": "1", "allowWatchBookmarks": "true", **_selectors(labels, fields)}
        if resource_version is not None:
            query["resourceVersion"] = resource_version
        session = self._new_session()
        url, timeout = self.url + path_of(resource, namespace), (10.0, silence_seconds)
        try:
            response = session.get(url, params=query, stream=True, timeout=timeout)
            _raise_refusal(response)
        except BaseException:
            session.close()
            raise
        return Watch(response, session)

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json", **query: str
    ) -> Any:
        """Any request: the decoded answer, or its text when it is not JSON; ApiError from 400 up."""
        answer = self._session.request(
            method,
            self.url + path,
            params=query,
            data=None if body is None else json.dumps(body),
            headers={} if body is None else {"Content-Type": content_type},
            timeout=self.timeout_seconds,
        )
        _raise_refusal(answer)
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.json() if is_json and answer.text else answer.text

    def resources(self, group_version: str) -> set[str]:
        """Names of what a served group and version holds; empty when it is not served."""
        try:
            return {found["name"] for found in self.request("GET", f"/apis/{group_version}")["resources"]}
        except ApiError as error:
            if error.status == 404:
                return set()
            raise

    def is_discovered(self, group: str, version: str, *, at_least: int = 1) -> bool:
        """Whether aggregated discovery lists so many kinds of a version as current: clients start from it."""
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        answer = self._session.get(self.url + "/apis", headers={"Accept": accept}, timeout=self.timeout_seconds)
        kinds = {
            found["resource"]
            for item in answer.json().get("items", [])
            if item["metadata"]["name"] == group
            for served in item["versions"]
            if served["version"] == version and served.get("freshness") == "Current"
            for found in served["resources"]
        }
        return len(kinds) >= at_least

    def _new_session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False  # a proxy of the environment has no business between loopback and loopback
        session.verify = self.ca_file
        session.headers["Authorization"] = f"Bearer {self.token}"
        session.mount("https://", HTTPAdapter(pool_connections=4, pool_maxsize=32))
        return session


def wait_for(predicate: Callable[[], Found], what: str, *, deadline_seconds: float = DEADLINE_SECONDS) -> Found:
    """Ask until the answer is true and return it; AssertionError with `what` and the last answer at the deadline.

    An API server that is away or refuses counts as "not yet": tests kill it on purpose.
    """
    until = time.monotonic() + deadline_seconds
    while True:
        last: object
        try:
            answer = predicate()
            if answer:
                return answer
            last = answer
        except (ApiError, requests.RequestException) as error:
            last = error
        if time.monotonic() > until:
            raise AssertionError(f"not within {deadline_seconds:.0f} s: {what}; last: {last!r}")
        time.sleep(POLL_SECONDS)


def path_of(
    resource: str, namespace: str | None = None, name: str | None = None, subresource: str | None = None
) -> str:
    """URL path of a resource given as `pods` or as `group/version/plural`."""
    group, _, plural = resource.rpartition("/")
    group = group or GROUP_OF[plural]
    parts = ["/api" if group == "v1" else "/apis", group]
    if namespace:
        parts += ["namespaces", namespace]
    parts += [part for part in (plural, name, subresource) if part]
    return "/".join(parts)


def _raise_refusal(answer: requests.Response) -> None:
    if answer.status_code >= 400:
        raise ApiError(answer.status_code, answer.text)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}


def _delete_options(grace_seconds: int | None, uid: str | None) -> Json:
    options: Json = {}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if uid is not None:
        options["preconditions"] = {"uid": uid}
    return options
