"""On a pair the Kubernetes Lease is the elected daemon's alone: the one that stands by does not even ask for it."""

from __future__ import annotations

from pathlib import Path

from tests.system.processes import free_port

from trimtab.clock import SystemClock
from trimtab.link import Link, link_of
from trimtab.settings import DaemonSettings, KubernetesSettings

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: me, user: {{token: abc}}}}]
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
"""


def a_link(home: Path, *, is_elected: bool) -> Link:
    path = home / "kubeconfig"
    path.write_text(KUBECONFIG.format(port=free_port()))
    return link_of(
        DaemonSettings(kubernetes=KubernetesSettings(kubeconfig=str(path), request_timeout_seconds=1.0)),
        clock=SystemClock(),
        audit=lambda _line: None,
        devices=dict,
        reserves=lambda _mark: (),
        is_elected=lambda: is_elected,
    )


def test_only_the_elected_daemon_asks_for_the_lease(tmp_path: Path) -> None:
    for is_elected, said in ((False, "another daemon is the active one"), (True, "the lease cannot be reached")):
        link = a_link(tmp_path, is_elected=is_elected)
        try:
            assert link.lease is not None
            assert said in link.lease.tick()
            assert link.lease.why_not() is not None
        finally:
            link.stop(is_writing=False)
