"""Exporters of many versions read by a real daemon, no agent anywhere: each page's GPUs are on the board."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.system.processes import Daemon, eventually, free_port

PAGES = Path(__file__).parent.parent / "fixtures" / "field-cases" / "a-dcgm"
BROKEN = "gpu-broken"


class _Exporter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES / self.path.split("/")[1]
        body = page.read_bytes() if page.is_file() else b"no such exporter"
        self.send_response(200 if page.is_file() else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def exporters() -> Iterator[str]:
    """Every page of the field cases under its own name; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Exporter)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_every_page_of_the_field_is_on_the_board_and_a_dead_exporter_costs_only_itself(tmp_path: Path) -> None:
    pages = {page.name: json.loads(page.with_name(f"{page.name}.expected.json").read_text())["gpus"]
             for page in sorted(PAGES.glob("*.prom"))}  # fmt: skip
    assert len(pages) >= 15
    with exporters() as url:
        targets = {name: f"{url}/{name}/metrics" for name in pages}
        targets |= {BROKEN: f"{url}/nothing/metrics", "gpu-gone": f"http://127.0.0.1:{free_port()}/metrics"}
        listed = ", ".join(f'{{ node = "{node}", url = "{target}" }}' for node, target in targets.items())
        daemon = Daemon(tmp_path, settings=f"[scrape]\ninterval_seconds = 0.5\ntargets = [{listed}]\n")
        try:
            daemon.up()

            def shown() -> dict[str, int]:
                return {row.name: len(row.cells) for row in daemon.board().nodes if row.name in pages}

            eventually(lambda: shown() == pages, said=lambda: f"{shown()} {daemon.tail()}")
            assert daemon.board().strip.gpus_reporting == sum(pages.values())
            checks = daemon.ask("GET", "/api/v1/doctor").json()["checks"]
            said = " ".join(check["sentence"] for check in checks if check["name"] in ("beat scrape", "sight"))
            assert f"{len(pages)} of {len(targets)} exporters read" in said
            for node in (BROKEN, "gpu-gone"):
                assert node in " ".join(check["sentence"] for check in checks if not check["is_ok"])
            assert daemon.stop() == 0
            daemon.assert_had_no_trouble()
        finally:
            daemon.close()
