"""The stand-in's validating webhook on loopback, and the configuration by which a real API server asks it."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.cluster.client import ApiError, Client, Json, wait_for
from tests.cluster.volcano.api import JOB, POD_GROUP, QUEUE, Api, Kind, Object
from tests.cluster.volcano.webhook import HOOKS, objection

CONFIGURATION = "volcano-admission-stand-in"


class WebhookServer:
    """Answers AdmissionReviews; `stop` takes the configuration away first, so that nothing is refused without it."""

    def __init__(self, client: Client, api: Api, *, certificates: Path) -> None:
        self._client = client
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = api
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="volcano webhook", daemon=True)
        self._thread.start()
        client.ensure(
            "validatingwebhookconfigurations", _configuration(self._server.server_port, certificates / "ca.crt")
        )

    def stop(self) -> None:
        self._client.delete("validatingwebhookconfigurations", CONFIGURATION)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def wait_until_asked(client: Client) -> None:
    """Until the API server asks the webhooks: a job that needs more pods than it has is refused by them."""
    body: Json = {"apiVersion": JOB.version, "kind": "Job", "metadata": {"name": "probe"}}
    task = {"name": "worker", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
    body["spec"] = {"minAvailable": 9, "queue": "default", "schedulerName": "volcano", "tasks": [task]}

    def is_refused() -> bool:
        try:
            client.request("POST", JOB.path("default"), body, dryRun="All")
        except ApiError as error:
            return "denied the request" in error.message
        return False

    wait_for(is_refused, "Volcano's webhooks are asked")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    api: Api

    def answer(self, kind: Kind, request: Json) -> Json:
        text = objection(kind, request["object"], request.get("oldObject"), self._queue_state)
        answer: Json = {"uid": request["uid"], "allowed": text is None}
        if text is not None:
            answer["status"] = {"code": 400, "message": text}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}

    def _queue_state(self, name: str) -> str:
        answer = self.api.call("GET", QUEUE.path("", name))
        return str((answer.body.get("status") or {}).get("state", "")) if answer.is_ok else ""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = JOB if self.path.partition("?")[0] == f"/{JOB.plural}" else POD_GROUP
        answer = json.dumps(self.server.answer(kind, body["request"])).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def _configuration(port: int, ca_file: Path) -> Object:
    bundle = base64.b64encode(ca_file.read_bytes()).decode()
    webhooks = [_webhook(kind, f"https://127.0.0.1:{port}/{kind.plural}", bundle) for kind in (JOB, POD_GROUP)]
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": CONFIGURATION}, "webhooks": webhooks}


def _webhook(kind: Kind, url: str, bundle: str) -> Object:
    group, _, version = kind.version.partition("/")
    operations = ["CREATE", "UPDATE"] if kind is JOB else ["CREATE"]
    rule = {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": [kind.plural]}
    return {
        "name": HOOKS[kind],
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
    }
