"""A cluster watched without any agent: exporters are scraped, idle GPUs and a silent node found and closed."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.system.processes import Daemon, eventually, free_port

from trimtab.show.api_types import Doctor

# Simulated time runs 30 times as fast; the scheduler at that address is not there, as in a cluster without one.
SETTINGS = """
[scrape]
interval_seconds = 15.0
targets = [{{ url = "http://127.0.0.1:{port}/metrics", node = "gpu-07" }}]
[detect]
idle_after_seconds = 300.0
[simulated]
url = "http://127.0.0.1:{nobody}"
speed = 30.0
anchor = "{anchor}"
"""


class Exporter:
    """Serves what `text` holds, on a port that it keeps."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.port = free_port()
        self.start()

    def start(self) -> None:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exporter.text.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def page_of(*, activity: float, watts: float) -> str:
    labels = 'gpu="{0}",UUID="GPU-{0}",modelName="NVIDIA H100 80GB HBM3",namespace="orchard",pod="sft-plum-{0}"'
    return "".join(
        f"{name}{{{labels.format(gpu)}}} {value}\n"
        for gpu in range(2)
        for name, value in (
            ("DCGM_FI_DEV_GPU_UTIL", activity * 100),
            ("DCGM_FI_PROF_SM_ACTIVE", activity),
            ("DCGM_FI_PROF_DRAM_ACTIVE", activity),
            ("DCGM_FI_DEV_POWER_USAGE", watts),
            ("DCGM_FI_DEV_GPU_TEMP", 35),
        )
    )


def test_an_exporter_at_a_wrong_address_is_named_everywhere_and_no_link_is_logged(tmp_path: Path) -> None:
    target = f'{{ url = "http://127.0.0.1:{free_port()}/metrics", node = "gpu-07" }}'
    settings = f"[scrape]\ninterval_seconds = 1.0\ntargets = [{target}]\n"
    daemon = Daemon(tmp_path, settings=settings)

    def unseen() -> list[str]:
        return [
            said for said in daemon.board().blind if said.startswith("gpu-07 is not seen: its exporter is not read.")
        ]

    try:
        daemon.up()
        eventually(unseen, said=daemon.tail)
        blind = daemon.board().blind
        assert len([said for said in blind if "cheduler" in said]) == 1, blind
        checks = daemon.get("/api/v1/doctor", Doctor).checks
        ill = [check for check in checks if "gpu-07 is not seen" in check.sentence]
        assert [(check.is_ok, "[scrape] targets" in check.fix) for check in ill] == [(False, True)]
        assert daemon.text().count("an exporter is not read") == 1
        assert "/open/" not in daemon.text()
    finally:
        daemon.close()


def test_idle_gpus_and_a_silent_node_are_found_and_closed_without_any_agent(tmp_path: Path) -> None:
    exporter = Exporter(page_of(activity=0.0, watts=70.0))
    anchor = datetime.now(UTC).isoformat()
    daemon = Daemon(tmp_path, settings=SETTINGS.format(port=exporter.port, nobody=free_port(), anchor=anchor))
    try:
        daemon.up()
        eventually(lambda: daemon.board().strip.gpus_reporting == 2, said=daemon.tail)
        assert {cell.workload for cell in daemon.board().nodes[0].cells} == {"orchard/sft-plum-0", "orchard/sft-plum-1"}
        assert any("scheduler" in said.lower() for said in daemon.board().blind)
        assert daemon.finding("idle_gpu").finding.subject.node == "gpu-07"
        exporter.text = page_of(activity=0.9, watts=600.0)
        assert daemon.finding("idle_gpu", state="closed").close_reason

        exporter.stop()
        silent = daemon.finding("node_silent")
        assert "gpu-07" in silent.finding.sentence
        assert daemon.board().strip.gpus_unknown == 2
        exporter.start()
        assert daemon.finding("node_silent", state="closed").id == silent.id
        assert daemon.board().strip.gpus_working == 2
        assert daemon.board().commands == ()
        daemon.assert_had_no_trouble()
    finally:
        exporter.stop()
        daemon.close()
