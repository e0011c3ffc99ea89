"""The test control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and Kueue on loopback."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import requests
import yaml
from tests.cluster import build, certificates, flags, kueue
from tests.cluster.client import ApiError, Client, Json
from tests.cluster.kubelet import Kubelet
from tests.cluster.processes import PortBlock, Program, Spawner

READY_SECONDS_MAX = 120.0
PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kueue-health",
    "kueue-metrics",
    "kueue-webhook",
    "kueue-visibility",
)
OWN_CRDS = Path(__file__).parent / "crds"
_PREFIX = "trimtab-plane-"


class PlaneError(Exception):
    """A program of the plane did not do what it was started for."""


class Plane:
    """A running control plane. `boot` makes one; `stop` ends its processes and removes its files."""

    def __init__(self, binaries: build.Binaries) -> None:
        _sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._owner = (self.folder / "owner.lock").open("w")
        fcntl.flock(self._owner, fcntl.LOCK_EX)  # whoever sweeps later sees by it that this plane is alive
        self.binaries = binaries
        self._block = PortBlock(build.cache() / "ports")
        self.ports = {name: self._block.next() for name in PORTS}
        self._spawner = Spawner()
        self.programs: dict[str, Program] = {}
        self.boot_seconds: dict[str, float] = {}
        self.url = f"https://127.0.0.1:{self.ports['kube-apiserver']}"
        self.certificates = certificates.machine_folder()
        self.ca_file = self.certificates / "ca.crt"
        self.token = secrets.token_hex(16)
        self.admin_kubeconfig = self.folder / "admin.kubeconfig"
        self.client = self.admin_client()
        self.kubelet = Kubelet(self.admin_client())

    @classmethod
    def boot(
        cls,
        binaries: build.Binaries | None = None,
        *,
        crds: Sequence[Path] = (),
        kueue_gates: dict[str, bool] | None = None,
        kueue_extra: Json | None = None,
        apiserver_flags: Sequence[str] = (),
        has_kueue: bool = True,
        has_kubelet: bool = True,
    ) -> Plane:
        """A plane that is ready: Kueue admits, the fake kubelet runs pods. Our JobSet CRD and `crds` are installed."""
        plane = cls(binaries or build.build())
        try:
            plane._boot(crds, kueue_gates or {}, kueue_extra or {}, apiserver_flags, has_kueue)
            if has_kubelet:
                plane.kubelet.start()
        except BaseException:
            plane.stop()
            raise
        return plane

    def stop(self) -> None:
        """End everything and remove the folder; TRIMTAB_CLUSTER_KEEP=1 in the environment keeps the logs."""
        self.kubelet.stop()
        for program in reversed(self.programs.values()):
            program.kill()  # throw-away data: nobody needs an orderly end
        self.client.close()
        self._spawner.close()
        self._block.close()
        if os.environ.get("TRIMTAB_CLUSTER_KEEP"):
            (self.folder / "owner.lock").unlink()  # no plane sweeps a folder that has none
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._owner.close()

    # One program at a time: "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kueue".

    def kill(self, name: str) -> None:
        """SIGKILL a program."""
        self.programs[name].kill()

    def halt(self, name: str) -> None:
        """SIGTERM a program and wait for its end."""
        self.programs[name].stop()

    def start(self, name: str, *, is_awaited: bool = True) -> None:
        """Start a program that was killed or halted, on its own ports and data; wait until it is ready."""
        self.programs[name].start()
        if is_awaited:
            self.wait_ready(name)

    def restart(self, name: str) -> None:
        """Halt, start, wait until it is ready."""
        self.halt(name)
        self.start(name)

    def pause(self, name: str) -> None:
        """Freeze a program (SIGSTOP): connections stay open and nothing answers."""
        self.programs[name].pause()

    def resume(self, name: str) -> None:
        """Let a frozen program go on."""
        self.programs[name].resume()

    def mend(self) -> None:
        """Thaw and start whatever a test that failed half-way left frozen or dead."""
        for name, program in self.programs.items():
            program.resume()
            if program.was_started and not program.is_running:
                self.start(name)

    def wait_ready(self, name: str) -> None:
        """Until the program says it is ready; PlaneError with the end of its log when it exits or takes too long."""
        self._wait(name, self._probes()[name])

    def rss_bytes(self) -> dict[str, int]:
        """Resident memory by program."""
        return {name: program.rss_bytes() for name, program in self.programs.items()}

    # Kueue

    def configure_kueue(self, *, gates: dict[str, bool] | None = None, extra: Json | None = None) -> None:
        """Restart Kueue with other gates and configuration; without arguments with the plane's own."""
        self._write_kueue_configuration(gates or {}, extra or {})
        self.restart("kueue")

    # Accounts and kinds

    def service_account_token(
        self, name: str, namespace: str, *, audiences: Sequence[str] = (), seconds: int = 3600, pod: Json | None = None
    ) -> str:
        """A token by TokenRequest; with `pod` it is bound to it, and carries the node that the pod is on."""
        spec: Json = {"expirationSeconds": seconds, "audiences": list(audiences)}
        if pod is not None:
            metadata = pod["metadata"]
            spec["boundObjectRef"] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "uid": metadata["uid"],
            }
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self.client.create("serviceaccounts", request, namespace, name=name, subresource="token")
        return answer["status"]["token"]

    def kubeconfig(self, name: str, namespace: str) -> Path:
        """Path of a kubeconfig for a service account, which must exist."""
        path = self.folder / f"{namespace}.{name}.kubeconfig"
        self._write_kubeconfig(path, self.service_account_token(name, namespace))
        return path

    def client_of(self, name: str, namespace: str) -> Client:
        """A client that is a service account; close it."""
        return Client(self.url, self.service_account_token(name, namespace), self.ca_file)

    def admin_client(self, *, timeout_seconds: float = 30.0) -> Client:
        """One more client of the administrator; close it."""
        return Client(self.url, self.token, self.ca_file, timeout_seconds=timeout_seconds)

    def audited(self, name: str, namespace: str) -> list[Json]:
        """All that a service account asked, as the API server's audit log has it; allowed writes with their bodies."""
        log = self.folder / "audit.log"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        user = f"system:serviceaccount:{namespace}:{name}"
        return [event for event in map(json.loads, lines) if event["user"]["username"] == user]

    def install_crds(self, path: Path) -> None:
        """Create the CRDs of a YAML file and wait until clients may use them."""
        documents = [found for found in yaml.safe_load_all(path.read_text(encoding="utf-8")) if found]
        for document in documents:
            self.client.ensure("customresourcedefinitions", document)
        for spec in (document["spec"] for document in documents):
            for version in (found["name"] for found in spec["versions"] if found["served"]):
                self._wait_served(spec["group"], version, spec["names"]["plural"])

    def _wait_served(self, group: str, version: str, plural: str) -> None:
        resource = f"{group}/{version}/{plural}"
        self._wait(f"{resource} served", lambda: self.client.list_whole(resource) is not None)
        self._wait(f"{resource} discovered", lambda: self.client.is_discovered(group, version))

    # Boot

    def _boot(
        self,
        crds: Sequence[Path],
        gates: dict[str, bool],
        extra: Json,
        apiserver_flags: Sequence[str],
        has_kueue: bool,
    ) -> None:
        started = time.monotonic()
        self._prepare()
        self._add_programs(apiserver_flags)
        self.start("etcd")
        self.start("kube-apiserver")
        if has_kueue:
            self._install_kueue()
        for path in (*sorted(OWN_CRDS.glob("*.yaml")), *crds):
            self.install_crds(path)
        names = ["kube-controller-manager", "kube-scheduler"]
        if has_kueue:
            # Kueue exits when it starts before discovery lists its kinds; the garbage collector looks every 30 s only.
            self._wait("kueue kinds", self._are_kueue_kinds_discovered)
            self._write_kueue_configuration(gates, extra)
            names.append("kueue")
        for name in names:
            self.programs[name].start()
        for name in names:
            self.wait_ready(name)
        self.boot_seconds["total"] = time.monotonic() - started

    def _prepare(self) -> None:
        certificates.front_proxy(self.folder)
        certificates.service_account_keys(self.folder)
        (self.folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n', encoding="ascii")
        self._write_kubeconfig(self.admin_kubeconfig, self.token)
        (self.folder / "audit-policy.json").write_text(json.dumps(flags.audit_policy()), encoding="utf-8")
        configuration = flags.scheduler_configuration(self.admin_kubeconfig)
        (self.folder / "scheduler.json").write_text(json.dumps(configuration), encoding="utf-8")

    def _add_programs(self, apiserver_flags: Sequence[str]) -> None:
        ports, folder, program = self.ports, self.folder, self.binaries.program
        self._add(
            "etcd",
            flags.etcd(program("etcd"), data=folder / "etcd", client_port=ports["etcd"], peer_port=ports["etcd-peer"]),
        )
        apiserver = flags.apiserver(
            program("kube-apiserver"),
            folder=folder,
            certificates=self.certificates,
            etcd_port=ports["etcd"],
            port=ports["kube-apiserver"],
        )
        self._add("kube-apiserver", [*apiserver, *apiserver_flags])
        name = "kube-controller-manager"
        self._add(
            name,
            flags.controller_manager(program(name), folder=folder, port=ports[name], certificates=self.certificates),
        )
        name = "kube-scheduler"
        self._add(
            name,
            flags.scheduler(
                program(name), configuration=folder / "scheduler.json", port=ports[name], certificates=self.certificates
            ),
        )
        configuration = folder / "kueue.json"
        self._add("kueue", flags.kueue(program("kueue"), configuration=configuration, kubeconfig=self.admin_kubeconfig))

    def _add(self, name: str, arguments: list[str]) -> None:
        self.programs[name] = Program(name, arguments, folder=self.folder, spawner=self._spawner)

    def _install_kueue(self) -> None:
        started = time.monotonic()
        kueue.install(
            self.client,
            crds=self.binaries.manifests("crds"),
            webhooks=self.binaries.manifests("webhooks"),
            ca=base64.b64encode(self.ca_file.read_bytes()).decode("ascii"),
            ports=self.ports,
        )
        self.boot_seconds["kueue manifests"] = time.monotonic() - started

    def _write_kueue_configuration(self, gates: dict[str, bool], extra: Json) -> None:
        configuration = kueue.configuration(
            webhook_certificates=str(self.certificates), ports=self.ports, gates=gates, extra=extra
        )
        (self.folder / "kueue.json").write_text(json.dumps(configuration), encoding="utf-8")

    def _write_kubeconfig(self, path: Path, token: str) -> None:
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "plane",
            "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "account"}}],
            "clusters": [
                {"name": "plane", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}
            ],
            "users": [{"name": "account", "user": {"token": token}}],
        }
        path.write_text(json.dumps(configuration), encoding="utf-8")  # JSON is YAML
        path.chmod(0o600)

    # Readiness

    def _probes(self) -> dict[str, Callable[[], bool]]:
        ports = self.ports
        return {
            "etcd": lambda: _fetch(f"http://127.0.0.1:{ports['etcd']}/health").json()["health"] == "true",
            "kube-apiserver": lambda: self.client.request("GET", "/readyz") == "ok",
            "kube-controller-manager": lambda: self._is_healthy("kube-controller-manager"),
            "kube-scheduler": lambda: self._is_healthy("kube-scheduler"),
            "kueue": self._is_kueue_ready,
        }

    def _are_kueue_kinds_discovered(self) -> bool:
        return self.client.is_discovered("kueue.x-k8s.io", "v1beta2", at_least=kueue.KINDS)

    def _is_kueue_ready(self) -> bool:
        ready = _fetch(f"http://127.0.0.1:{self.ports['kueue-health']}/readyz").status_code == 200
        return ready and bool(self.client.resources("visibility.kueue.x-k8s.io/v1beta2"))

    def _is_healthy(self, name: str) -> bool:
        return _fetch(f"https://127.0.0.1:{self.ports[name]}/healthz", ca_file=self.ca_file).status_code == 200

    def _wait(self, what: str, is_there: Callable[[], bool]) -> None:
        started = time.monotonic()
        while time.monotonic() - started < READY_SECONDS_MAX:
            last: object = False
            try:
                if is_there():
                    self.boot_seconds[what] = time.monotonic() - started
                    return
            except (requests.RequestException, ApiError, ValueError) as error:
                last = error
            self._look_for_the_dead(what)
            time.sleep(0.05)
        raise PlaneError(f"{what}: not after {READY_SECONDS_MAX:.0f} s; last: {last!r}\n{self._log_of(what)}")

    def _look_for_the_dead(self, awaited: str) -> None:
        program = self.programs.get(awaited)
        if program is not None and not program.is_running:
            raise PlaneError(f"{awaited} exited; the end of its log:\n{program.last_words()}")

    def _log_of(self, what: str) -> str:
        return self.programs[what].last_words() if what in self.programs else ""


def _fetch(url: str, *, ca_file: Path | None = None) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=2, verify=str(ca_file) if ca_file else True)


def _sweep() -> None:
    """Remove what planes left whose test run was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        lock = folder / "owner.lock"
        if not lock.exists():
            continue
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(folder, ignore_errors=True)
