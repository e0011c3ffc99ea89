"""The objects behind the fake API server: immutable states, versions, owners of fields, budgets kept up to date."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.fakes import kube_patch as patches
from tests.fakes.kube_paths import KINDS, Address, Served, address_of, address_of_object
from tests.fakes.kube_rules import budget_status

from trimtab.clock import Clock

Json = dict[str, Any]
Key = tuple[str, str, str]
"""(`plural.group`, namespace, name)."""
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """One change, as watches tell it."""

    version: int
    key: Key
    old: Json | None
    new: Json | None


@dataclass(frozen=True, slots=True)
class State:
    """Everything that can be put back. Objects in it are never edited in place, so it costs two copies of maps."""

    objects: dict[Key, Json]
    owners: dict[Key, dict[patches.Path, str]]
    version: int
    serial: int
    log: tuple[Event, ...]
    compacted: int


class KubeStore:
    """What the server keeps. Each change makes a new state, so that keeping one costs nothing."""

    def __init__(self, *, clock: Clock | None = None, kinds: Mapping[str, Served] | None = None) -> None:
        self.clock = clock
        self.kinds = dict(KINDS if kinds is None else kinds)
        self.keeps_log = True
        """False: watches see nothing, and long explorations stay cheap."""
        self._state = State({}, {}, 1, 0, (), 0)
        self._texts: dict[tuple[int, int], tuple[Json, str]] = {}

    def see(self, path: str) -> Json | None:
        """An object as it is, or None; not logged."""
        address = address_of(path)
        found = self._state.objects.get(address.key) if address else None
        return patches.copied(found) if found is not None else None

    def all(self, kind: str) -> list[Json]:
        """All objects of `plural.group`, by key."""
        return [patches.copied(one) for key, one in sorted(self._state.objects.items()) if key[0] == kind]

    def compact(self) -> None:
        """Watches from any older resourceVersion get 410 from now on."""
        state = self._state
        self._state = State(state.objects, state.owners, state.version, state.serial, (), state.version)

    def snapshot(self) -> State:
        """To be put back by `restore`; calls and faults are not in it."""
        return self._state

    def restore(self, state: State) -> None:
        self._state = state

    def state_key(self, normal: Callable[[Key, Json], Any] = lambda _, one: one) -> str:
        """The same text for the same objects, whatever their resourceVersions, managers and times of writing.

        `normal` may simplify an object further (a pod's generated name); None leaves it out.
        """
        parts = []
        for key, one in sorted(self._state.objects.items()):
            cached = self._texts.get((id(one), id(normal)))
            if cached is None or cached[0] is not one:
                seen = normal(key, plain(one))
                cached = (one, "" if seen is None else json.dumps([key, seen], sort_keys=True))
                self._texts[id(one), id(normal)] = cached
            parts.append(cached[1])
        return "\n".join(parts)

    # --- objects

    def _store(self, address: Address, old: Json | None, new: Json, manager: str) -> Json:
        state, meta = self._state, dict(new["metadata"])
        version, serial = state.version + 1, state.serial + 1
        had = old["metadata"] if old is not None else {}
        meta.setdefault("uid", had.get("uid") or f"00000000-0000-4000-8000-{serial:012d}")
        meta.setdefault("creationTimestamp", had.get("creationTimestamp") or self._now_text())
        if address.namespace:
            meta["namespace"] = address.namespace
        meta["resourceVersion"] = str(version)
        changed_spec = old is None or old.get("spec") != new.get("spec")
        meta["generation"] = had.get("generation", 0) + (1 if changed_spec else 0)
        owners = dict(state.owners.get(address.key, {}))
        written, gone = patches.changed_paths(plain(old or {}), plain(new))
        for path in gone:
            owners.pop(path, None)
        owners.update(dict.fromkeys(written, manager))
        meta["managedFields"] = patches.managed_fields(owners, address.api_version, self._now_text())
        stored = {**new, "metadata": meta}
        self._commit(address, old, stored, owners)
        return self._state.objects[address.key]

    def _drop(self, address: Address, old: Json) -> None:
        self._commit(address, old, None, {})

    def _commit(
        self,
        address: Address,
        old: Json | None,
        new: Json | None,
        owners: dict[patches.Path, str],
    ) -> None:
        state, key = self._state, address.key
        objects, all_owners = dict(state.objects), dict(state.owners)
        if new is None:
            objects.pop(key, None)
            all_owners.pop(key, None)
        else:
            objects[key], all_owners[key] = new, owners
        version, serial = state.version + 1, state.serial + 1
        log = (*state.log, Event(version, key, old, new)) if self.keeps_log else ()
        self._state = State(objects, all_owners, version, serial, log, state.compacted)
        if key[0] in ("pods", "poddisruptionbudgets.policy"):
            self._settle_budgets()

    def _settle_budgets(self) -> None:
        pods = [one for key, one in self._state.objects.items() if key[0] == "pods"]
        for key, one in list(self._state.objects.items()):
            if key[0] == "poddisruptionbudgets.policy":
                status = budget_status(one, pods, self._scale_of, self._now())
                if status != one.get("status"):
                    self._store(address_of_object(one, self.kinds), one, {**one, "status": status}, "disruption")

    def _scale_of(self, pod: Json) -> int | None:
        owner = next(one for one in pod["metadata"]["ownerReferences"] if one.get("controller"))
        for one in self._state.objects.values():
            if one["metadata"].get("uid") == owner["uid"]:
                spec = one.get("spec") or {}
                return spec.get("replicas", spec.get("parallelism"))
        return None

    def _now(self) -> datetime:
        return self.clock.now() if self.clock is not None else START

    def _now_text(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


def plain(one: Json) -> Json:
    meta = {
        key: value
        for key, value in (one.get("metadata") or {}).items()
        if key not in ("resourceVersion", "managedFields", "generation", "creationTimestamp")
    }
    return {**one, "metadata": meta}
