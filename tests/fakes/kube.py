"""An API server in memory: the `Api` that adapters write through, without threads, sockets or a clock of its own.

It takes the four kinds of patch, dry runs, preconditions, evictions under budgets and watches as a real one does, and
it fails on demand, before a write or after it (a lost reply). Nothing in it plays a controller: tests do, by `edit`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.fakes import kube_patch as patches
from tests.fakes.kube_paths import Address, Served, address_of, address_of_object, discovery, group_version
from tests.fakes.kube_rules import Denied, budget_to_use, budgets_of, check_pod_change, is_selected
from tests.fakes.kube_store import Key, KubeStore, plain

from trimtab.clock import Clock
from trimtab.schedulers.kubernetes import Body, PatchKind, failure

Json = dict[str, Any]
Answer = TypeVar("Answer")
BUILT_IN = ("", "batch", "apps", "policy", "coordination.k8s.io", "events.k8s.io", "resource.k8s.io")
"""Groups whose lists leave out kind and apiVersion of their items."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `is_dry` changed nothing."""

    verb: str
    path: str
    body: Any = None
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_write(self) -> bool:
        return self.verb not in ("GET", "WATCH")

    @property
    def is_dry(self) -> bool:
        in_body = self.verb == "DELETE" and "All" in (self.body or {}).get("dryRun", ())
        return self.params.get("dryRun") == "All" or in_body

    @property
    def text(self) -> str:
        return f"{self.verb} {self.path}"


@dataclass(slots=True)
class Fault:
    """Fails `times` calls whose text contains `at`; `is_after`: the write was done, its answer was lost."""

    error: Exception
    at: str = ""
    is_after: bool = False
    hits_dry: bool = False
    hits_reads: bool = False
    times: int = 1

    def hits(self, call: Call, *, is_after: bool) -> bool:
        if not self.times or is_after is not self.is_after or self.at not in call.text:
            return False
        return (call.is_write or self.hits_reads) and (not call.is_dry or self.hits_dry)


class FakeKube(KubeStore):
    """The API. `calls` are all requests, `writes` the texts of those that could change something."""

    def __init__(self, *, clock: Clock | None = None, kinds: Mapping[str, Served] | None = None) -> None:
        super().__init__(clock=clock, kinds=kinds)
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.at_point: Callable[[str], None] = lambda _: None
        """Called with `before PATCH /api/…` and `after PATCH /api/…` of every write that is not dry; may raise."""
        self.refuses: Callable[[Call], tuple[int, str] | None] = lambda _: None
        """What a webhook, a policy or missing rights answer: code and message."""
        self.may: Callable[[Json], bool] = lambda _: True
        """Answer of SelfSubjectAccessReview for its resourceAttributes."""
        self._lock = threading.RLock()

    # --- Api

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Json:
        return self._ask(Call("GET", path, None, params or {}), lambda: self._read(path, params or {}))

    def raw(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        return json.dumps(self.get(path, params)).encode()

    def watch(self, path: str, params: Mapping[str, str], *, quiet_seconds_max: float) -> Iterator[bytes]:
        """All events so far, a bookmark, and the end: a server ends every watch some time."""
        call = Call("WATCH", path, None, dict(params))
        return iter(self._ask(call, lambda: self._events(self._address(path), params)))

    def close(self) -> None:
        """Nothing to let go."""

    def post(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Json:
        return self._ask(Call("POST", path, body, params or {}), lambda: self._post(path, dict(body), params or {}))

    def put(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Json:
        def put() -> Json:
            address, old = self._existing(path)
            return self._replace(address, old, patches.copied(dict(body)), _manager(params))

        return self._ask(Call("PUT", path, body, params or {}), put)

    def patch(self, path: str, body: Body, kind: PatchKind, params: Mapping[str, str] | None = None) -> Json:
        return self._ask(Call("PATCH", path, body, params or {}), lambda: self._patch(path, body, kind, params or {}))

    def delete(self, path: str, body: Mapping[str, Any] | None = None, params: Mapping[str, str] | None = None) -> Json:
        return self._ask(Call("DELETE", path, body, params or {}), lambda: self._delete(path, dict(body or {})))

    # --- what a test does and sees

    @property
    def writes(self) -> list[str]:
        return [call.text for call in self.calls if call.is_write and not call.is_dry]

    def fail(self, error: Exception, at: str = "", **more: Any) -> None:
        """The next call whose text contains `at` fails; `is_after=True` = only its answer is lost."""
        self.faults.append(Fault(error, at, **more))

    def add(self, body: Mapping[str, Any], *, by: str = "somebody") -> Json:
        """Put an object as it is, status too; kind and apiVersion say where."""
        with self._lock:
            address = address_of_object(dict(body), self.kinds)
            old = self._state.objects.get(address.key)
            return dict(self._store(address, old, patches.copied(dict(body)), by))

    def edit(self, path: str, change: Mapping[str, Any], *, by: str = "controller") -> Json:
        """Merge into an object, status too, as a controller would; neither logged as a call nor failing."""
        with self._lock:
            address, old = self._existing(path)
            return dict(self._store(address, old, patches.merged(old, change), by))

    def remove(self, path: str) -> None:
        """An object is gone at once."""
        with self._lock:
            address, old = self._existing(path)
            self._drop(address, old)

    def finish_pod(self, namespace: str, name: str) -> None:
        """A terminating pod's kubelet is done: the pod is gone."""
        self.remove(f"/api/v1/namespaces/{namespace}/pods/{name}")

    # --- requests

    def _ask(self, call: Call, do: Callable[[], Answer]) -> Answer:
        with self._lock:
            self.calls.append(call)
            self._fail(call, is_after=False)
            is_real = call.is_write and not call.is_dry
            if is_real:
                self.at_point(f"before {call.text}")
            before = self._state
            try:
                self._deny(call)
                result = do()
            except Denied as error:
                raise failure(call.text, error.code, error.status) from None
            finally:
                if call.is_dry:
                    self._state = before
            if is_real:
                self.at_point(f"after {call.text}")
            self._fail(call, is_after=True)
            return result if call.verb == "WATCH" else patches.copied(result)

    def _deny(self, call: Call) -> None:
        denied = self.refuses(call)
        if denied is not None:
            raise Denied(*denied)

    def _fail(self, call: Call, *, is_after: bool) -> None:
        for fault in self.faults:
            if fault.hits(call, is_after=is_after):
                fault.times -= 1
                raise fault.error

    def _address(self, path: str) -> Address:
        address = address_of(path)
        served = self.kinds.get(address.kind_key) if address else None
        if address is None or served is None or address.version not in served.versions:
            raise Denied(404, "the server could not find the requested resource")
        return address

    def _existing(self, path: str) -> tuple[Address, Json]:
        address = self._address(path)
        found = self._state.objects.get(address.key)
        if found is None:
            of = f".{address.group}" if address.group else ""
            raise Denied(404, f'{address.plural}{of} "{address.name}" not found')
        return address, found

    def _read(self, path: str, params: Mapping[str, str]) -> Json:
        if path in ("/apis", "/api"):
            return discovery(self.kinds, of_core=path == "/api")
        if path == "/version":
            return {"major": "1", "minor": "35", "gitVersion": "v1.35.4"}
        parts = path.strip("/").split("/")
        if (len(parts) == 3 and parts[0] == "apis") or path == "/api/v1":
            known = group_version(self.kinds, parts[1] if len(parts) == 3 else "", parts[-1])
            if known is None:
                raise Denied(404, "the server could not find the requested resource")
            return known
        address = self._address(path)
        if not address.name:
            return self._list(address, params)
        return _as_asked(self._existing(path)[1], address)

    def _list(self, address: Address, params: Mapping[str, str]) -> Json:
        found = [
            _as_asked(one, address, is_bare=address.group in BUILT_IN)
            for key, one in sorted(self._state.objects.items())
            if _is_in(address, key) and is_selected(one, params)
        ]
        start, limit = int(params.get("continue") or 0), int(params.get("limit") or 0)
        meta: Json = {"resourceVersion": str(self._state.version)}
        if limit and start + limit < len(found):
            meta.update({"continue": str(start + limit), "remainingItemCount": len(found) - start - limit})
        page = found[start : start + limit] if limit else found
        kind = f"{self.kinds[address.kind_key].kind}List"
        return {"kind": kind, "apiVersion": address.api_version, "metadata": meta, "items": page}

    def _events(self, address: Address, params: Mapping[str, str]) -> list[bytes]:
        since = int(params.get("resourceVersion") or 0)
        if since and since < self._state.compacted:
            text = f"too old resource version: {since} ({self._state.compacted})"
            gone = {"kind": "Status", "status": "Failure", "message": text, "reason": "Expired", "code": 410}
            return [_line("ERROR", gone)]
        lines = []
        for event in self._state.log:
            if event.version > since and _is_in(address, event.key):
                was = event.old is not None and is_selected(event.old, params)
                if event.new is not None and is_selected(event.new, params):
                    lines.append(_line("MODIFIED" if was else "ADDED", _as_asked(event.new, address)))
                elif was and event.old is not None:
                    last = _as_asked(event.new or event.old, address)
                    last["metadata"] = {**last["metadata"], "resourceVersion": str(event.version)}
                    lines.append(_line("DELETED", last))
        if params.get("allowWatchBookmarks") == "true":
            meta = {"metadata": {"resourceVersion": str(self._state.version)}}
            lines.append(_line("BOOKMARK", {"kind": self.kinds[address.kind_key].kind, **meta}))
        return lines

    def _post(self, path: str, body: Json, params: Mapping[str, str]) -> Json:
        address = self._address(path)
        if address.subresource == "eviction":
            return self._evict(path, body)
        if address.plural == "selfsubjectaccessreviews":
            return {**body, "status": {"allowed": self.may(body["spec"].get("resourceAttributes") or {})}}
        meta = dict(body.get("metadata") or {})
        name = meta.get("name") or (
            meta["generateName"] + _suffix(self._state.serial) if "generateName" in meta else ""
        )
        if not name:
            raise Denied(422, f'{body.get("kind")} "" is invalid: metadata.name: Required value: name is required')
        address = Address(address.group, address.version, address.plural, address.namespace, name)
        if address.key in self._state.objects:
            of = f".{address.group}" if address.group else ""
            raise Denied(409, f'{address.plural}{of} "{name}" already exists')
        new = {"apiVersion": address.api_version, "kind": self.kinds[address.kind_key].kind, **patches.copied(body)}
        new["metadata"] = {**new.get("metadata", {}), "name": name}
        new.pop("status", None)
        if address.plural == "pods":
            new["status"] = {"phase": "Pending"}
        return self._store(address, None, new, _manager(params))

    def _patch(self, path: str, body: Body, kind: PatchKind, params: Mapping[str, str]) -> Json:
        if kind is PatchKind.APPLY and self._state.objects.get(self._address(path).key) is None:
            collection = path.rsplit("/", 1)[0]
            return self._post(collection, dict(body), params)  # type: ignore[arg-type]  # apply bodies are maps
        address, old = self._existing(path)
        try:
            if isinstance(body, Sequence):
                new = patches.json_patched(old, [dict(one) for one in body])
            elif kind is PatchKind.MERGE:
                new = patches.merged(old, body)
            else:
                new = patches.strategic(old, body)
        except patches.Unfit:
            raise Denied(422, "the server rejected our request due to an error in our request") from None
        if kind is PatchKind.APPLY and params.get("force") != "true":
            self._check_apply(address, old, new, _manager(params))
        return self._replace(address, old, new, _manager(params))

    def _check_apply(self, address: Address, old: Json, new: Json, manager: str) -> None:
        owners = self._state.owners.get(address.key, {})
        for path in sorted(patches.changed_paths(plain(old), plain(new))[0]):
            if owners.get(path, manager) != manager:
                where = "".join(f".{part}" for part in path)
                raise Denied(409, f'Apply failed with 1 conflict: conflict with "{owners[path]}": {where}')

    def _replace(self, address: Address, old: Json, new: Json, manager: str) -> Json:
        meta, had = new.get("metadata") or {}, old["metadata"]
        name = f'{address.plural}{"." if address.group else ""}{address.group} "{address.name}"'
        if meta.get("uid", had["uid"]) != had["uid"]:
            raise Denied(422, f'{name} is invalid: metadata.uid: Invalid value: "{meta["uid"]}": field is immutable')
        if meta.get("resourceVersion", had["resourceVersion"]) != had["resourceVersion"]:
            stale = "the object has been modified; please apply your changes to the latest version and try again"
            raise Denied(409, f"Operation cannot be fulfilled on {name}: {stale}")
        if address.subresource == "status":
            new = {**old, "status": new.get("status", {})}
        else:
            new = {**new, **({"status": old["status"]} if "status" in old else {})}
            if "status" not in old:
                new.pop("status", None)
            if address.plural == "pods" and not address.group:
                check_pod_change(old, new)
        stored = self._store(address, old, new, manager)
        if (
            "deletionTimestamp" in stored["metadata"]
            and had.get("finalizers")
            and not stored["metadata"].get("finalizers")
        ):
            self._drop(address, stored)
        return stored

    def _delete(self, path: str, body: Json) -> Json:
        address, old = self._existing(path)
        _check_preconditions(address, old, body.get("preconditions") or {})
        return self._end(address, old, body.get("gracePeriodSeconds"))

    def _end(self, address: Address, old: Json, grace: int | None) -> Json:
        is_pod = address.plural == "pods" and not address.group
        waits = is_pod and grace != 0 and bool((old.get("spec") or {}).get("nodeName"))
        waits = waits and (old.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        if not waits and not old["metadata"].get("finalizers"):
            self._drop(address, old)
            return {"kind": "Status", "status": "Success"}
        if "deletionTimestamp" in old["metadata"]:
            return old
        mark = {"deletionTimestamp": self._now_text()}
        return self._store(address, old, patches.merged(old, {"metadata": mark}), "apiserver")

    def _evict(self, path: str, body: Json) -> Json:
        address, pod = self._existing(path.removesuffix("/eviction"))
        budgets = budgets_of(pod, [one for key, one in self._state.objects.items() if key[0].startswith("poddis")])
        used = budget_to_use(pod, budgets)
        if used is not None:  # before the uid is compared: a wrong one uses the budget up, too
            gone = {**(used["status"].get("disruptedPods") or {}), address.name: self._now_text()}
            status = {"disruptedPods": gone}
            self._store(
                address_of_object(used, self.kinds), used, patches.merged(used, {"status": status}), "apiserver"
            )
        options = body.get("deleteOptions") or {}
        _check_preconditions(
            address,
            pod,
            options.get("preconditions") or {},
        )
        because = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        marked = patches.strategic(pod, {"status": {"conditions": [because]}})
        self._end(address, self._store(address, pod, marked, "apiserver"), options.get("gracePeriodSeconds"))
        return {"kind": "Status", "status": "Success", "code": 201}


def _manager(params: Mapping[str, str] | None) -> str:
    return (params or {}).get("fieldManager") or "unknown"


def _as_asked(one: Json, address: Address, *, is_bare: bool = False) -> Json:
    if is_bare:
        return {key: value for key, value in one.items() if key not in ("kind", "apiVersion")}
    return {**one, "apiVersion": address.api_version}


def _is_in(address: Address, key: Key) -> bool:
    return key[0] == address.kind_key and (not address.namespace or key[1] == address.namespace)


def _check_preconditions(address: Address, old: Json, wanted: Json) -> None:
    has = old["metadata"]
    for one, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(one, has[one]) != has[one]:
            raise Denied(
                409,
                f'Operation cannot be fulfilled on {address.plural} "{address.name}": the {word} in the precondition '
                f"({wanted[one]}) does not match the {word} in record ({has[one]}). "
                "The object might have been deleted and then recreated",
            )


def _suffix(serial: int) -> str:
    letters = "bcdfghjklmnpqrstvwxz2456789"
    return "".join(letters[serial // 27**i % 27] for i in range(5))


def _line(kind: str, one: Json) -> bytes:
    return json.dumps({"type": kind, "object": one}).encode()
