"""Credentials from a kubeconfig's plugin: run when they are needed, once for all threads that wait for them."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Generator
from typing import Any

import httpx2 as httpx
from lightkube.config.models import UserExec

from trimtab.errors import SchedulerUnavailable

GROUP = "client.authentication.k8s.io"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
SECONDS_MAX = 60.0
"""A plugin that waits for a person at a browser does so in vain here."""


class PluginAuth(httpx.Auth):
    """A bearer token from `user.exec`; asked for again when the server no longer accepts it."""

    def __init__(self, plugin: UserExec, source: str) -> None:
        """`source` names the kubeconfig."""
        self._plugin = plugin
        self._named = f"the credential plugin `{plugin.command}` of {source}"
        self._bearer = ""
        self._lock = threading.Lock()

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send with the token at hand; after a 401, or without one, with a new one."""
        used = self._bearer
        if used:
            request.headers["Authorization"] = used
            response = yield request
            if response.status_code != 401:
                return
        with self._lock:
            if self._bearer == used:  # else somebody else has just got a new one
                self._bearer = f"Bearer {self._token()}"
        request.headers["Authorization"] = self._bearer
        yield request

    def _token(self) -> str:
        document = self._ask()
        try:
            status: dict[str, Any] = json.loads(document)["status"]
        except (ValueError, KeyError, TypeError) as error:
            raise SchedulerUnavailable(f"{self._named} gave no ExecCredential with a status") from error
        token = status.get("token")
        if not isinstance(token, str) or not token:
            given = "a client certificate" if "clientCertificateData" in status else "no token"
            raise SchedulerUnavailable(f"{self._named} gave {given}; only tokens are taken from plugins")
        return token

    def _ask(self) -> bytes:
        told = {"kind": "ExecCredential", "apiVersion": self._plugin.apiVersion, "spec": {"interactive": False}}
        environment = {
            **os.environ,
            **{one.name: one.value for one in self._plugin.env or []},
            "KUBERNETES_EXEC_INFO": json.dumps(told),
        }
        command = [self._plugin.command, *(self._plugin.args or [])]
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS_MAX,
                check=False,
            )
        except FileNotFoundError as error:
            hint = f"; {self._plugin.installHint.strip()}" if self._plugin.installHint else ""
            raise SchedulerUnavailable(f"{self._named} is not installed here{hint}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SchedulerUnavailable(f"{self._named} could not be run: {error}") from error
        if done.returncode != 0:
            said = " ".join(done.stderr.decode(errors="replace").split())[-300:]
            raise SchedulerUnavailable(f"{self._named} ended with {done.returncode}: {said}")
        return done.stdout
