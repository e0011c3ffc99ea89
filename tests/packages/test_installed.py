"""The packages in a Debian without a network: installed, upgraded, refused, removed and purged by dpkg itself."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.packages.built import Debs, called
from tests.packages.chroot import Chroot
from tests.packages.conftest import Installed
from tests.schedulers.kueue_world import World

from trimtab.issue import decisions
from trimtab.store.database import open_database
from trimtab.store.history import History
from trimtab.store.tables import VERSION_TABLE

DPKGS_OWN = {"/var/log/alternatives.log", "/var/log/dpkg.log"}
OLDER = "0.0.9-1"


def a_database(folder: Path) -> Path:
    open_database("sqlite:///trimtab.db", state_directory=folder).close()
    return folder / "trimtab.db"


def put_database(chroot: Chroot, file: Path) -> None:
    """As the daemon leaves it: its own, whole, no log beside it."""
    with sqlite3.connect(file) as there:
        there.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    there.close()
    target = chroot.path("/var/lib/trimtab/trimtab.db")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(file.read_bytes())
    chroot.run("chown", "-R", "trimtab:trimtab", "/var/lib/trimtab")


def test_both_are_installed_and_purged_and_nothing_is_left(installed: Chroot, both_installed: Installed):
    said = both_installed.said
    assert not re.search(r"(?i)error|traceback|warning|cannot|no such", said), said
    assert installed.out("trimtab", "--version").startswith("trimtab, version ")
    for home in ("trimtab-agent", "trimtab-daemon"):
        assert "Usage: trimtab agent" in installed.out(f"/usr/lib/{home}/bin/trimtab", "agent", "--help")
    assert "Usage: trimtab daemon" in installed.out("trimtab", "daemon", "--help")
    enabled = installed.out("systemctl", "is-enabled", "trimtab-agent.service", "trimtab-daemon.socket")
    assert set(enabled.split()) == {"enabled"}
    assert oct(installed.path("/etc/trimtab/credentials.d").stat().st_mode & 0o777) == "0o700"

    installed.dpkg("--purge", "trimtab-agent", "trimtab-daemon")
    assert installed.files() - both_installed.before - DPKGS_OWN == set()
    assert both_installed.before - installed.files() == set()
    assert installed.out("getent", "passwd") == both_installed.people
    assert "trimtab" not in installed.out("getent", "group")


def test_the_agent_alone_needs_nothing_of_the_daemon_and_goes_without_a_trace(chroot: Chroot, debs: Debs):
    before = chroot.files()
    chroot.dpkg("--install", *chroot.put(called(debs.agent, OLDER)))
    compiled = "/usr/lib/trimtab-agent/lib/python*/site-packages/trimtab/__pycache__"
    assert chroot.out("sh", "-c", f"ls {compiled} | wc -l") > "1"
    assert chroot.run("trimtab", "agent", "--once", "--print", is_checked=False).returncode == 0
    done = chroot.run("trimtab", "db", "check", is_checked=False)
    assert (done.returncode, "Install trimtab-daemon" in done.stdout) == (2, True), done.stdout
    assert chroot.run("trimtab", "join", "--help").returncode == 0

    # What an operator decided outlives an upgrade.
    settings = chroot.path("/etc/trimtab/agent.toml")
    settings.write_text('node = "gpu-07"\n' + settings.read_text())
    chroot.write("/etc/trimtab/credentials.d/node", "a secret")
    chroot.write("/var/lib/trimtab-agent/spool/0001", "a report")
    chroot.run("systemctl", "disable", "trimtab-agent.service")
    said = chroot.dpkg("--install", *chroot.put(debs.agent))
    assert f"over ({OLDER})" in said
    assert settings.read_text().startswith('node = "gpu-07"\n')
    assert chroot.path("/etc/trimtab/credentials.d/node").read_text() == "a secret"
    assert chroot.path("/var/lib/trimtab-agent/spool/0001").read_text() == "a report"
    states = chroot.run("systemctl", "is-enabled", "trimtab-agent.service", is_checked=False)
    assert states.stdout.strip() == "disabled"

    # A removal keeps what is the operator's and leaves no byte code of any version; a purge leaves nothing.
    chroot.dpkg("--remove", "trimtab-agent")
    assert not chroot.path("/usr/lib/trimtab-agent").exists()
    assert settings.exists()
    assert chroot.path("/var/lib/trimtab-agent/spool/0001").exists()
    chroot.dpkg("--purge", "trimtab-agent")
    assert chroot.files() - before - DPKGS_OWN == set()


def test_an_older_package_is_refused_while_a_newer_database_is_there(installed: Chroot, debs: Debs, tmp_path: Path):
    database = a_database(tmp_path)
    with sqlite3.connect(database) as there:
        there.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    there.close()
    put_database(installed, database)
    [older] = installed.put(called(debs.daemon, OLDER))
    before = installed.out("dpkg-query", "--show", "trimtab-daemon")

    said = installed.dpkg("--install", older, is_checked=False)
    assert "is older than the database: that has schema 9999" in said
    assert "Nothing was changed. Install the version that wrote it or a later one" in said
    assert installed.out("dpkg-query", "--show", "trimtab-daemon") == before
    assert installed.out("dpkg-query", "--show", "--showformat=${db:Status-Status}", "trimtab-daemon") == "installed"
    assert installed.run("trimtab", "--version").returncode == 0

    # Also where nothing is installed that could be asked, and by the daemon itself at its start.
    installed.dpkg("--remove", "trimtab-daemon")
    assert "is older than the database" in installed.dpkg("--install", older, is_checked=False)
    installed.path("/var/lib/trimtab/trimtab.db").rename(installed.path("/root/newer.db"))
    installed.dpkg("--install", older)
    installed.path("/var/lib/trimtab/trimtab.db").write_bytes(installed.path("/root/newer.db").read_bytes())
    done = installed.run("trimtab", "daemon", is_checked=False)
    assert done.returncode == 2, done.stdout
    assert "written by a newer trimtab" in done.stdout

    # One of this or an older version stops no package, and looking at it as root leaves the daemon its files.
    (tmp_path / "ours").mkdir()
    put_database(installed, a_database(tmp_path / "ours"))
    assert f"over ({OLDER})" in installed.dpkg("--install", *installed.put(debs.daemon))
    assert set(installed.out("sh", "-c", "stat -c %U /var/lib/trimtab/*").split()) == {"trimtab"}


# --- leaving


def a_cluster_that_bears_our_marks(folder: Path) -> tuple[World, History, Callable[[], None]]:
    """A daemon's own ledger, with a node that it closed for a fault and keeps closed."""
    database = open_database("sqlite:///trimtab.db", state_directory=folder)
    world = World()
    history = History(database, cluster="hall-a")
    world.ledger = history  # type: ignore[assignment] - the real one in the fake's place
    world.start()
    world.bad("n9")
    world.beat_until(world.has_settled)
    assert world.left() == ["(n9: cordon)"]
    return world, history, database.close


def test_a_removal_before_a_release_says_so_and_one_after_it_is_silent(installed: Chroot, debs: Debs, tmp_path: Path):
    world, history, close = a_cluster_that_bears_our_marks(tmp_path)
    put_database(installed, _copy(tmp_path))
    said = installed.dpkg("--remove", "trimtab-daemon")
    assert "the cluster was not given back" in said
    assert f"trimtab:{history.ledger}:R1  settled" in said
    assert "apt-get install trimtab-daemon && trimtab release --all --wait" in said
    said = installed.dpkg("--purge", "trimtab-daemon")
    assert "purged without `trimtab release --all`; the cluster still bears what it did" in said
    assert f"trimtab:{history.ledger}:R1" in said
    assert not installed.path("/var/lib/trimtab").exists()

    decisions.release_all(history, who="ann", now=world.clock.now())
    for _ in range(8):
        world.beat()
    assert world.left() == []
    installed.dpkg("--install", *installed.put(debs.daemon))
    put_database(installed, _copy(tmp_path))
    close()
    assert "given back" not in installed.dpkg("--remove", "trimtab-daemon")
    assert "bears" not in installed.dpkg("--purge", "trimtab-daemon")


def _copy(folder: Path) -> Path:
    target = folder / "copy" / "trimtab.db"
    target.parent.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    source, copy = sqlite3.connect(folder / "trimtab.db"), sqlite3.connect(target)
    source.backup(copy)
    source.close()
    copy.close()
    return target


def test_that_nothing_can_be_said_of_a_database_is_said_too(installed: Chroot):
    installed.path("/var/lib/trimtab").mkdir(exist_ok=True)
    installed.path("/var/lib/trimtab/trimtab.db").write_text("not a database, and long enough to be taken for one" * 99)
    assert "Whether something of the cluster is still held cannot be said:" in installed.dpkg(
        "--remove", "trimtab-daemon"
    )


# --- other programs that come later


def a_package(folder: Path, name: str, *files: str) -> Path:
    stage = folder / name
    (stage / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: stands in\n"
    (stage / "DEBIAN" / "control").write_text(control)
    for file in files:
        (stage / file).parent.mkdir(parents=True, exist_ok=True)
        (stage / file).write_text("global: {}\n" if file.endswith("prometheus.yml") else "")
    made = folder / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", stage, made], check=True, stdout=subprocess.DEVNULL)
    return made


def test_grafana_and_prometheus_get_their_files_when_they_come_and_lose_them_with_trimtab(
    installed: Chroot, tmp_path: Path
):
    grafana = a_package(
        tmp_path, "grafana", "usr/share/grafana/VERSION", "etc/grafana/provisioning/dashboards/sample.yaml"
    )
    prometheus = a_package(tmp_path, "prometheus-here", "etc/prometheus/prometheus.yml")
    before = installed.files()
    said = installed.dpkg("--install", *installed.put(grafana))
    assert "Processing triggers for trimtab-daemon" in said
    made = installed.files() - before
    assert {one for one in made if one.endswith("trimtab-fleet.json")}
    assert "/etc/grafana/provisioning/datasources/trimtab.yaml" in made

    installed.dpkg("--install", *installed.put(prometheus))
    assert [one for one in installed.files() - before if one.endswith("/trimtab-daemon.rules.yml")]

    installed.dpkg("--purge", "trimtab-daemon", "trimtab-agent")
    left = [one for one in installed.files() - before if "trimtab" in one and one not in DPKGS_OWN]
    assert left == []
