"""A stand-in for Grafana's HTTP API: checks each request against fixtures/grafana/api.yaml, keeps what it is told."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import yaml

API = yaml.safe_load((Path(__file__).parent.parent / "fixtures" / "grafana" / "api.yaml").read_text())
TOKEN = "glsa_" + "x" * 32
Answer = tuple[int, Any]


@dataclass
class Grafana:
    """What it holds, and every request that came."""

    url: str = ""
    folders: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    dashboards: dict[str, dict[str, Any]] = field(default_factory=dict)
    """uid -> the answer of GET, with its versions beside it."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    is_down: bool = False

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [one for one in self.asked if one[0] != "GET"]

    def edit(self, uid: str, **changes: Any) -> None:
        """As a person does in the browser."""
        held = self.dashboards[uid]
        held["dashboard"] = {**held["dashboard"], **changes}
        held["versions"].insert(0, {"message": "", "createdBy": "anna"})

    def answer(self, method: str, path: str, body: Any, token: str | None) -> Answer:
        self.asked.append((method, path))
        if self.is_down:
            return 502, {"message": "bad gateway"}
        if token != f"Bearer {TOKEN}":
            return 401, {"message": "Unauthorized"}
        found = _operation(method, path)
        if found is None:
            self.wrong.append(f"{method} {path} is not in the API")
            return 404, {"message": "no such route"}
        template, names = found
        self._check(template, method, body)
        act = getattr(
            self, f"_{method.lower()}_{re.sub('[^a-z]+', '_', re.sub('{uid}', 'one', template[5:])).strip('_')}"
        )
        result: Answer = act(body, **names)
        return result

    def _check(self, template: str, method: str, body: Any) -> None:
        wanted = API["paths"][template][method.lower()].get("requestBody")
        if wanted is None:
            return
        name = wanted["$ref"].rpartition("/")[2]
        validator = jsonschema_rs.validator_for(API["components"]["schemas"][name])
        self.wrong += [f"{method} {template}: {error.message[:200]}" for error in validator.iter_errors(body)]

    # --- one method a route

    def _get_frontend_settings(self, _: Any) -> Answer:
        return 200, {"buildInfo": {"version": "13.2.3", "commit": "abc"}}

    def _post_folders(self, body: Any) -> Answer:
        self.folders[body["uid"]] = body
        return 200, body

    def _get_folders_one(self, _: Any, uid: str) -> Answer:
        return _or_404(self.folders, uid)

    def _delete_folders_one(self, _: Any, uid: str) -> Answer:
        del self.folders[uid]
        return 200, {}

    def _post_datasources(self, body: Any) -> Answer:
        if any(one["name"] == body["name"] for one in self.sources.values()):
            return 409, {"message": "data source with the same name already exists"}
        self.sources[body["uid"]] = body
        return 200, {"datasource": _told(body), "id": 1, "message": "Datasource added"}

    def _get_datasources_uid_one(self, _: Any, uid: str) -> Answer:
        return (200, _told(self.sources[uid])) if uid in self.sources else (404, {"message": "Data source not found"})

    def _put_datasources_uid_one(self, body: Any, uid: str) -> Answer:
        self.sources[uid] = body
        return 200, {"datasource": _told(body)}

    def _delete_datasources_uid_one(self, _: Any, uid: str) -> Answer:
        del self.sources[uid]
        return 200, {"message": "Data source deleted"}

    def _post_dashboards_db(self, body: Any) -> Answer:
        uid = body["dashboard"]["uid"]
        versions = self.dashboards.get(uid, {}).get("versions", [])
        kept = {**body["dashboard"], "id": 7, "version": len(versions) + 1}
        meta = {"folderUid": body["folderUid"], "provisioned": False}
        self.dashboards[uid] = {
            "dashboard": kept, "meta": meta, "versions": [{"message": body["message"], "createdBy": "sa"}, *versions],
        }  # fmt: skip
        return 200, {"uid": uid, "status": "success", "version": kept["version"]}

    def _get_dashboards_uid_one(self, _: Any, uid: str) -> Answer:
        if uid not in self.dashboards:
            return 404, {"message": "Dashboard not found"}
        return 200, {key: self.dashboards[uid][key] for key in ("dashboard", "meta")}

    def _delete_dashboards_uid_one(self, _: Any, uid: str) -> Answer:
        del self.dashboards[uid]
        return 200, {"message": "Dashboard deleted"}

    def _get_dashboards_uid_one_versions(self, _: Any, uid: str) -> Answer:
        return 200, {"versions": self.dashboards[uid]["versions"]}

    def _get_search(self, _: Any) -> Answer:
        return 200, [{"uid": uid, "type": "dash-db"} for uid in self.dashboards]


def _told(source: Mapping[str, Any]) -> dict[str, Any]:
    """A data source as Grafana tells it: never with its secrets, but with what it adds."""
    plain = {key: value for key, value in source.items() if key != "secureJsonData"}
    secret = dict.fromkeys(source.get("secureJsonData", {}), True)
    return {**plain, "id": 1, "orgId": 1, "version": 1, "readOnly": False, "secureJsonFields": secret}


def _or_404(held: Mapping[str, Any], uid: str) -> Answer:
    return (200, held[uid]) if uid in held else (404, {"message": "not found"})


def _operation(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    exact_first = sorted(API["paths"], key=lambda template: template.count("{"))
    for template in exact_first:
        found = re.fullmatch(template.replace("{uid}", "(?P<uid>[^/]+)"), path)
        if found and method.lower() in API["paths"][template]:
            return template, found.groupdict()
    return None


@contextmanager
def a_grafana() -> Iterator[Grafana]:
    """One that listens."""
    grafana = Grafana()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            is_json = "json" in self.headers.get("Content-Type", "")
            body = json.loads(raw) if raw and is_json else None
            token = self.headers.get("Authorization")
            status, value = grafana.answer(self.command, urlsplit(self.path).path, body, token)
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the base class's names

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    grafana.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield grafana
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
