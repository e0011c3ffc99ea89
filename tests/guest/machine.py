"""A guest as an operator has it after the how-to: both packages, the stand-in driver, an agent that reports here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.guest.guest import DIE_WITH_US, Guest
from tests.guest.root import Root
from tests.standin.driver import SONAME, Driver

AGENT, DAEMON = "trimtab-agent.service", "trimtab-daemon.service"
SOCKET = "trimtab-daemon.socket"
NODE = "guest"
PAGE = "http://127.0.0.1:9740"
FLEET = "/var/lib/standin"
DATABASE = "/var/lib/trimtab/trimtab.db"
INSTALL_SECONDS_MAX = 600.0
DRIVER_SAYS = f"""\
[Service]
Environment=NVML_STANDIN_STATE={FLEET}/fleet.txt
"""
AGENT_SETTINGS = """\
cluster = "hall-a"
daemon_urls = ["http://127.0.0.1:9741"]
interval_seconds = 1
replay_reports_per_second = 500
"""
DAEMON_SETTINGS = """\
cluster = "hall-a"

[store]
commit_interval_seconds = 0.1

[detect]
interval_seconds = 0.5
"""
ASK = """\
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]})
try:
    with urllib.request.urlopen(request, timeout=float(sys.argv[3])) as answer:
        sys.stdout.write(answer.read().decode())
except urllib.error.HTTPError as error:
    sys.exit(f"{error.code}: {error.read().decode()}")
"""
STORED = """\
import json, sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, timeout=30)
query = "SELECT spool_id, sequence FROM journal WHERE node = ? ORDER BY id"
print(json.dumps(database.execute(query, (sys.argv[2],)).fetchall()))
"""


class Machine:
    """One guest, its packages and what an operator does with them."""

    def __init__(self, root: Root) -> None:
        """Powered on, with a driver for 8 GPUs and nothing of ours yet."""
        self.said_at_install = ""
        self.before: dict[str, str] = {}
        self.guest = Guest(root, binds={"/dev/kmsg": "/dev/kmsg"})
        self.guest.boot()
        fleet = self.guest.path(FLEET)
        fleet.mkdir()
        fleet.chmod(0o755)
        self.driver = Driver(fleet)
        self.guest.put(self.driver.library, f"/usr/lib/x86_64-linux-gnu/{SONAME}")
        self.guest.write(f"/etc/systemd/system/{AGENT}.d/10-standin.conf", DRIVER_SAYS)

    def close(self) -> None:
        """Gone."""
        self.guest.close()

    # --- what an operator does

    def install(self, packages: Sequence[Path]) -> str:
        """`dpkg -i` of all at once; there is no network. What it said."""
        files = [self.guest.put(one, f"/root/{one.name}") for one in packages]
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        done = self.guest.run("dpkg", "-i", *files, environment=quiet, seconds=INSTALL_SECONDS_MAX)
        return done.stdout + done.stderr

    def set_up(self) -> None:
        """Settings; the node is enrolled, its join token handed over by systemd as a credential; both started anew."""
        self.guest.write("/etc/trimtab/daemon.toml", DAEMON_SETTINGS)
        self.guest.write("/etc/trimtab/agent.toml", AGENT_SETTINGS)
        self.guest.run("systemctl", "restart", DAEMON)
        self.guest.eventually(lambda: self.ask("/api/v1/board"))
        given = self.trimtab("enroll", NODE)
        self.guest.write("/etc/trimtab/credentials.d/join-token", given["tokens"][0]["token"], mode=0o600)
        self.guest.run("systemctl", "restart", AGENT)

    def trimtab(self, *line: str) -> Any:
        """A verb with --json, as root on the machine."""
        return json.loads(self.guest.out("trimtab", *line, "--json"))

    # --- asking

    @property
    def token(self) -> str:
        """The operator's token."""
        return self.guest.path("/var/lib/trimtab/operator.token").read_text().strip()

    def begin(self, path: str, *, seconds: float = 60.0) -> subprocess.Popen[str]:
        """A request of the API from within the guest's network, which goes on beside the test."""
        line = [*DIE_WITH_US, "nsenter", f"--target={self.guest.leader}", "--net", "--", sys.executable, "-S", "-c"]
        line += [ASK, PAGE + path, self.token, str(seconds)]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ask(self, path: str) -> Any:
        """The answer of the API, or None while it gives none."""
        request = self.begin(path)
        answer, _ = request.communicate(timeout=90)
        return json.loads(answer) if request.returncode == 0 else None

    def node(self) -> dict[str, Any] | None:
        """The node's row of the board."""
        board = self.ask("/api/v1/board") or {"nodes": []}
        return next((row for row in board["nodes"] if row["name"] == NODE), None)

    def has_gpus(self, count: int) -> bool:
        """Whether the board shows so many GPUs at work."""
        row = self.node()
        return row is not None and [cell.get("activity_ratio") for cell in row["cells"]].count(0.825) == count

    def findings(self, rule: str = "", *, state: str = "open") -> list[dict[str, Any]]:
        """Findings, of one rule or all."""
        found = (self.ask(f"/api/v1/findings?state={state}") or {"findings": []})["findings"]
        return [one for one in found if rule in ("", one["finding"]["rule"])]

    def shows_data(self) -> None:
        """Wait until the board has all 8 GPUs."""
        self.guest.eventually(lambda: self.has_gpus(8))

    # --- nothing lost

    def stored(self) -> list[tuple[str, int]]:
        """Spool and sequence of each report in the daemon's database, in order of arrival."""
        found = json.loads(self.guest.out("python3", "-c", STORED, DATABASE, NODE))
        return [(str(spool), int(sequence)) for spool, sequence in found]

    def acknowledged(self) -> set[int]:
        """Sequences that the agent has written down as acknowledged."""
        position = self.guest.path("/var/lib/trimtab-agent/spool/position.json")
        kept = json.loads(position.read_text())
        inside = {number for first, last in kept["ranges"] for number in range(first, last + 1)}
        return set(range(1, kept["position"] + 1)) | inside

    def nothing_is_lost(self) -> None:
        """What the daemon has acknowledged is stored, once; nothing was dropped."""
        acknowledged = self.acknowledged()  # first: whatever is settled by now is stored by the next line
        rows = self.stored()
        assert len(rows) == len(set(rows)), "a report is stored twice"
        assert len({spool for spool, _ in rows}) == 1, "the spool began anew"
        missing = acknowledged - {sequence for _, sequence in rows}
        assert not missing, f"acknowledged and not stored: {sorted(missing)[:10]}"

    def has_caught_up(self) -> None:
        """Wait until no report waits but the newest, without a gap from the first on; nothing is lost."""
        spool = "trimtab_agent_spool_reports"
        self.guest.eventually(lambda: self.metric(spool) is not None and self.metric(spool) <= 1)
        sequences = sorted(sequence for _, sequence in self.stored())
        assert sequences == list(range(1, len(sequences) + 1)), "a report is missing"
        self.nothing_is_lost()

    def metric(self, name: str) -> float | None:
        """A value of the agent's /metrics; None while there is none."""
        line = ["nsenter", f"--target={self.guest.leader}", "--net", "--", sys.executable, "-S", "-c", ASK]
        page = subprocess.run(
            [*line, "http://127.0.0.1:9742/metrics", "none", "20"], capture_output=True, text=True, check=False
        ).stdout
        found = next((one for one in page.splitlines() if one.startswith((f"{name}{{", f"{name} "))), None)
        return float(found.rpartition(" ")[2]) if found is not None else None
