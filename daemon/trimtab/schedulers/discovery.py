"""Which kinds a cluster serves, and in which version: by its own discovery, never assumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trimtab.errors import SchedulerGone
from trimtab.schedulers.kubernetes import Api
from trimtab.schedulers.resources import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What discovery found of the kinds asked for; a kind in none of these is not installed."""

    versions: Mapping[str, str] = field(default_factory=dict)
    """Kind -> the version to read."""
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind -> its versions, where we know none of them."""
    unclear: frozenset[str] = frozenset()
    """Groups whose own server does not answer discovery now: nothing is known of their kinds."""


def discover(api: Api, kinds: Iterable[Kind]) -> Served:
    """Ask the server. Kinds of the core are served by every server and are not asked for."""
    known, unclear = offered(api)
    versions: dict[str, str] = {}
    unknown: dict[str, tuple[str, ...]] = {}
    for kind in kinds:
        if not kind.group:
            versions[kind.name] = kind.versions[0]
            continue
        there = known.get(kind.name, ())
        chosen = next((version for version in kind.versions if version in there), None)
        if chosen is not None:
            versions[kind.name] = chosen
        elif there:
            unknown[kind.name] = tuple(there)
    return Served(versions=versions, unknown=unknown, unclear=frozenset(unclear))


def offered(api: Api) -> tuple[dict[str, list[str]], set[str]]:
    """Kind -> the versions it is served in, preferred first; and groups of which nothing is known now."""
    document = api.get("/apis")
    if document.get("kind") == "APIGroupDiscoveryList":
        entries = list(_aggregated(document))
        unclear = {
            item["metadata"]["name"]
            for item in document["items"]
            for version in item["versions"]
            if version.get("freshness") == "Stale"
        }
    else:  # a server before 1.27, or a proxy that drops the Accept header
        entries, unclear = list(_one_by_one(api, document)), set()
    found: dict[str, list[str]] = {}
    for name, version in entries:
        found.setdefault(name, []).append(version)
    return found, unclear


def _aggregated(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for item in document["items"]:
        for version in item["versions"]:
            for resource in version.get("resources") or []:
                yield f"{resource['resource']}.{item['metadata']['name']}", version["version"]


def _one_by_one(api: Api, document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for group in document.get("groups") or []:
        for version in group["versions"]:
            try:
                listed = api.get(f"/apis/{version['groupVersion']}")
            except SchedulerGone:
                continue
            for resource in listed.get("resources") or []:
                if "/" not in resource["name"]:
                    yield f"{resource['name']}.{group['name']}", version["version"]
