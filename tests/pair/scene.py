"""Two daemons that act, a cluster that breaks, agents that know both, and the proof at the end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.pair.checker import check
from tests.pair.fleet import Hall
from tests.pair.ground import PairDaemon, TcpPostgres, a_pair, active_and_standby, near
from tests.system.processes import eventually

from trimtab.store.scratch import stored_reports

ACTING = """
[detect]
interval_seconds = 0.3
silent_after_seconds = 300.0
[plan]
interval_seconds = 0.3
cordoned_ratio_max = 1.0
cordoned_ratio_max_per_pool = 1.0
cordoned_ratio_max_per_rack = 1.0
cordons_per_hour_max = 10000
[issue]
mode = "act"
breaker_cordons = 10000
[metrics]
allow_from = ["10.213.0.0/16"]
[simulated]
url = "{url}"
"""


class Scene:
    """Two daemons, a cluster that breaks, and agents that know both."""

    def __init__(
        self,
        home: Path,
        server: TcpPostgres,
        stack: ExitStack,
        *,
        nodes: int,
        has_networks: bool,
        interval_seconds: float = 1.0,
    ) -> None:
        self.hall = Hall(home, nodes=nodes, names=("anna", "berta"), interval_seconds=interval_seconds)
        stack.callback(self.hall.close)
        more = {
            name: ACTING.format(url=self.hall.control_url(name, near(number) if has_networks else "127.0.0.1"))
            for number, name in enumerate(("anna", "berta"), start=1)
        }
        self.pair = stack.enter_context(a_pair(home, server, more=more, has_networks=has_networks))
        self.home = home
        self.url = server.at("127.0.0.1", self.pair[0].database_url)
        self.hall.start([one.ingest_url for one in self.pair], home / "node-tokens.toml")

    def up(self) -> tuple[PairDaemon, PairDaemon]:
        self.pair[0].start()
        eventually(self.pair[0].is_active, seconds=60.0, said=self.pair[0].tail)
        self.pair[1].start()
        return active_and_standby(self.pair)

    def cordoned(self, node: str) -> bool:
        return self.hall.cluster.nodes[node].is_cordoned

    def wait_for_cordon(self, node: str) -> None:
        eventually(lambda: self.cordoned(node), seconds=60.0, said=self.said)

    def said(self) -> str:
        return "\n\n".join(f"{one.name}:\n{one.tail()}" for one in self.pair)

    def prove(self) -> None:
        """No two actors, nothing twice, and nothing lost that was acknowledged."""
        self.hall.hush()
        eventually(lambda: self.hall.waiting == 0, seconds=60.0, said=self.said)
        proof = check(self.url, self.pair, self.hall.written)
        assert proof.troubles == (), self.said()
        assert proof.submitted >= 1
        lost = self.hall.books.lost(stored_reports(self.url, state_directory=self.home))
        assert self.hall.books.total > 0
        assert lost == []
        for one in self.pair:
            assert "Traceback" not in one.text(), one.text()
