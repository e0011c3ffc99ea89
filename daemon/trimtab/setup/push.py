"""`python -m trimtab.setup.push`: a process of its own that speaks to Grafana's API by grafana-client.

Reads one order as JSON from its input, writes what it did as JSON. Imports nothing of trimtab and nothing but
grafana-client beside the standard library: it runs in an environment that has only that.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NO_CLIENT = 3
MESSAGE = "trimtab setup"
"""Versions that we saved bear it: a dashboard whose last version does not was edited by somebody."""
TAG = "trimtab"
MARK = "trimtabDigest"
"""Field of a data source's jsonData: what it was when we left it; another digest than of what is there = edited."""
_GRAFANAS_OWN = ("id", "orgId", "version", "readOnly", "typeLogoUrl", "typeName", "accessControl", "apiVersion",
                 "secureJsonData", "secureJsonFields", "jsonData")  # fmt: skip
"""Of a data source, what Grafana adds, and what no one is told: nothing that a person edits but secrets."""
_IGNORED = ("id", "version", "iteration")

Told = dict[str, str]


def main() -> int:
    """Do what the order says; exit code 3 where grafana-client is missing."""
    try:
        from grafana_client import GrafanaApi, TokenAuth  # noqa: PLC0415 - its absence has an exit code
        from grafana_client.client import GrafanaException  # noqa: PLC0415
    except ImportError as error:
        if error.name == "grafana_client":
            return NO_CLIENT
        print(f"grafana-client cannot be loaded: {error}", file=sys.stderr)  # noqa: T201 - the parent reads it
        return 1
    order = json.load(sys.stdin)
    token = Path(order["token_file"]).read_text(encoding="ascii").strip()
    api = GrafanaApi.from_url(order["url"], credential=TokenAuth(token), timeout=15)
    try:
        if order["is_removal"]:
            told = list(_Pusher(api, order, GrafanaException).remove())
        else:
            told = list(_Pusher(api, order, GrafanaException).push())
    except (GrafanaException, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201 - the parent reads it
        return 1
    print(json.dumps(told))  # noqa: T201
    return 0


class _Pusher:
    """One Grafana, and what it is to have."""

    def __init__(self, api: Any, order: dict[str, Any], error: type[Exception]) -> None:  # noqa: ANN401 - untyped here
        self._api, self._order, self._error = api, order, error
        self._is_dry: bool = order["is_dry"]

    def push(self) -> Iterator[Told]:
        self._api.version  # noqa: B018 - asks whether it is a Grafana and lets us in, before anything is changed
        yield self._folder()
        for source in self._order["sources"]:
            yield self._source(source)
        for dashboard in self._order["dashboards"]:
            yield self._dashboard(dashboard)

    def remove(self) -> Iterator[Told]:
        self._api.version  # noqa: B018
        for dashboard in self._order["dashboards"]:
            yield from self._remove_dashboard(dashboard)
        for source in self._order["sources"]:
            yield from self._remove_source(source)
        yield from self._remove_folder()

    # --- make and change

    def _folder(self) -> Told:
        folder = self._order["folder"]
        if self._get(lambda: self._api.folder.get_folder(folder["uid"])) is not None:
            return _told(f"folder {folder['title']}", "kept")
        self._do(lambda: self._api.folder.create_folder(folder["title"], uid=folder["uid"]))
        return _told(f"folder {folder['title']}", "made")

    def _source(self, source: dict[str, Any]) -> Told:
        name, wanted = f"data source {source['name']}", self._with_password(source)
        found = self._get(lambda: self._api.datasource.get_datasource_by_uid(source["uid"]))
        if found is None:
            self._do(lambda: self._api.datasource.create_datasource(wanted))
            return _told(name, "made")
        if found.get("readOnly"):
            return _told(name, "left", "comes from a file on Grafana's host")
        if all(found.get(key) == value for key, value in _marked(source).items()):
            return _told(name, "kept")
        is_same = all(found.get(key) == value for key, value in source.items())
        if not is_same and not _is_as_left(found):
            return _told(name, "left", "edited since; delete it to get ours")
        self._do(lambda: self._api.datasource.update_datasource_by_uid(source["uid"], wanted))
        return _told(name, "changed")

    def _with_password(self, source: dict[str, Any]) -> dict[str, Any]:
        path = Path(self._order["password_file"]) if self._order["password_file"] else None
        marked = _marked(source)
        if "user" not in source or path is None or self._is_dry:
            return marked
        return {**marked, "secureJsonData": {"password": path.read_text(encoding="utf-8").strip()}}

    def _dashboard(self, dashboard: dict[str, Any]) -> Told:
        name = f"dashboard {dashboard['title']}"
        found = self._found(dashboard)
        if found is not None and _same(found, dashboard):
            return _told(name, "kept")
        why_left = self._why_left(found, dashboard)
        if why_left:
            return _told(name, "left", why_left)
        self._do(
            lambda: self._api.dashboard.update_dashboard(
                {
                    "dashboard": dashboard,
                    "folderUid": self._order["folder"]["uid"],
                    "message": f"{MESSAGE} {_digest(dashboard)}",
                    "overwrite": True,
                }
            )
        )
        return _told(name, "made" if found is None else "changed")

    # --- remove

    def _remove_dashboard(self, dashboard: dict[str, Any]) -> Iterator[Told]:
        found = self._found(dashboard)
        if found is None:
            return
        name, why_left = f"dashboard {dashboard['title']}", self._why_left(found, dashboard)
        if why_left:
            yield _told(name, "left", why_left)
            return
        self._do(lambda: self._api.dashboard.delete_dashboard(dashboard["uid"]))
        yield _told(name, "removed")

    def _remove_source(self, source: dict[str, Any]) -> Iterator[Told]:
        name = f"data source {source['name']}"
        found = self._get(lambda: self._api.datasource.get_datasource_by_uid(source["uid"]))
        if found is None:
            return
        if found.get("readOnly"):
            yield _told(name, "left", "comes from a file on Grafana's host")
            return
        if not _is_as_left(found):
            yield _told(name, "left", "edited since; it is yours now")
            return
        self._do(lambda: self._api.datasource.delete_datasource_by_uid(source["uid"]))
        yield _told(name, "removed")

    def _remove_folder(self) -> Iterator[Told]:
        folder = self._order["folder"]
        if self._get(lambda: self._api.folder.get_folder(folder["uid"])) is None:
            return
        held = self._api.search.search_dashboards(folder_uids=folder["uid"])
        if held and not self._is_dry:
            yield _told(f"folder {folder['title']}", "left", f"{len(held)} dashboards are in it")
            return
        self._do(lambda: self._api.folder.delete_folder(folder["uid"]))
        yield _told(f"folder {folder['title']}", "removed")

    # --- what is there

    def _found(self, dashboard: dict[str, Any]) -> dict[str, Any] | None:
        answer = self._get(lambda: self._api.dashboard.get_dashboard(dashboard["uid"]))
        if answer is None:
            return None
        found: dict[str, Any] = {**answer["dashboard"], "provisioned": answer.get("meta", {}).get("provisioned", False)}
        return found

    def _why_left(self, found: dict[str, Any] | None, dashboard: dict[str, Any]) -> str:
        if found is None:
            return ""
        if found["provisioned"]:
            return "comes from a file on Grafana's host"
        versions = self._api.dashboard_versions.get_dashboard_versions_by_uid(dashboard["uid"], limit=1)
        listed = versions.get("versions", []) if isinstance(versions, dict) else versions
        is_ours = bool(listed) and str(listed[0].get("message", "")).startswith(MESSAGE)
        return "" if is_ours else "saved by somebody since; move or delete it to get ours"

    def _get(self, ask: Callable[[], Any]) -> Any:  # noqa: ANN401 - an answer of Grafana
        try:
            return ask()
        except self._error as error:
            if getattr(error, "status_code", None) == 404:
                return None
            raise

    def _do(self, act: Callable[[], object]) -> None:
        if not self._is_dry:
            act()


def _told(path: str, act: str, why: str = "") -> Told:
    return {"path": path, "act": act, "why": why}


def _same(found: dict[str, Any], dashboard: dict[str, Any]) -> bool:
    kept = {key: value for key, value in found.items() if key not in (*_IGNORED, "provisioned")}
    return _digest(kept) == _digest(dashboard)


def _marked(source: dict[str, Any]) -> dict[str, Any]:
    """With the digest of itself, by which a later run knows whether it is still as we left it."""
    return {**source, "jsonData": {**source.get("jsonData", {}), MARK: _digest(_of_source(source))}}


def _is_as_left(found: dict[str, Any]) -> bool:
    return bool((found.get("jsonData") or {}).get(MARK) == _digest(_of_source(found)))


def _of_source(source: dict[str, Any]) -> dict[str, Any]:
    """What of a data source a person can edit, without the defaults that Grafana fills in."""
    kept = {key: value for key, value in source.items() if key not in _GRAFANAS_OWN and value not in ("", False, None)}
    settings = {key: value for key, value in (source.get("jsonData") or {}).items() if key != MARK}
    return {**kept, "jsonData": settings}


def _digest(dashboard: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dashboard, sort_keys=True).encode()).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
