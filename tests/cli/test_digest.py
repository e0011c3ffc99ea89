"""`trimtab digest` as it is typed, against the real application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.builders import CLUSTER
from tests.fakes.people import TOKEN, Served, a_board, serving

from trimtab.cli import _root
from trimtab.cli.exits import Exit
from trimtab.model.past import GpuTime, GpuTimes, GpuTimeState
from trimtab.show.digest.desk import DigestDesk
from trimtab.show.digest.make import DigestSource
from trimtab.store.database import Database
from trimtab.store.history import History


class Hours:
    """A fleet of one GPU-hour a working hour; says which stretch was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[datetime, datetime]] = []

    def gpu_times(self, since: datetime, until: datetime) -> GpuTimes:
        self.asked.append((since, until))
        seconds = {GpuTimeState.WORKING: (until - since).total_seconds()}
        row = GpuTime(workload="research/a", queue="research", owner="anna", cause="", seconds=seconds)
        return GpuTimes(cluster=CLUSTER, since=since, until=until, rows=(row,))


@pytest.fixture
def hours() -> Hours:
    return Hours()


@pytest.fixture
def served(database: Database, hours: Hours, tmp_path: Path) -> Iterator[Served]:
    source = DigestSource(cluster=CLUSTER, hours=hours, facts=History(database, cluster=CLUSTER))
    desk = DigestDesk(source=lambda: source, zone=UTC, page_url=lambda: "")
    with serving(board=a_board(), web=tmp_path, digests=desk) as running:
        yield running


def run(served: Served, *words: str | Path) -> Result:
    return CliRunner().invoke(
        _root, [str(word) for word in ("digest", *words)], env={"TRIMTAB_URL": served.url, "TRIMTAB_TOKEN": TOKEN}
    )


def test_without_options_a_week_is_told_in_markdown(served: Served, hours: Hours) -> None:
    told = run(served)
    assert told.exit_code == Exit.DONE
    assert told.stdout.startswith(f"# {CLUSTER}: ")
    assert "Of 168 GPU-hours 168 did work that counted" in told.stdout
    since, until = hours.asked[0]
    assert (until - since).days == 7


def test_a_stretch_a_language_and_a_file(served: Served, hours: Hours, tmp_path: Path) -> None:
    out = tmp_path / "digest.html"
    words = (
        "--since",
        "2d",
        "--until",
        "2026-11-02T00:00:00Z",
        "--format",
        "html",
        "--language",
        "zh-CN",
        "--out",
        out,
    )
    assert run(served, *words, "--out", out).stderr == f"{out} written\n"
    assert 'lang="zh-CN"' in out.read_text()
    assert hours.asked[0] == (datetime(2026, 10, 31, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC))


def test_json_is_the_value(served: Served) -> None:
    for words in (("--json",), ("--format", "json")):
        found = json.loads(run(served, *words).stdout)
        assert found["hours"]["by_state"]["working"] == pytest.approx(168.0)
        assert found["queues"][0]["queue"] == "research"


def test_what_cannot_be_written_or_understood_is_said(served: Served, tmp_path: Path) -> None:
    told = run(served, "--out", tmp_path / "missing" / "digest.md")
    assert (told.exit_code, "cannot be written" in told.stderr) == (Exit.USAGE, True)
    told = run(served, "--until", "yesterday")
    assert (told.exit_code, "is no moment" in told.stderr) == (Exit.REFUSED, True)


def test_a_daemon_without_history_says_so(tmp_path: Path) -> None:
    with serving(board=a_board(), web=tmp_path) as running:
        told = run(running)
    assert (told.exit_code, "keeps no history" in told.stderr) == (Exit.OUT_OF_REACH, True)


def test_a_folder_holds_so_many_digests_each_named_by_its_day(served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "digests"
    folder.mkdir()
    for day in ("2026-01-05", "2026-01-12", "2026-01-19"):
        (folder / f"digest-{day}.html").write_text("old")
    (folder / "digest-2026-01-05.md").write_text("of another form")
    for _ in range(2):  # the second of a day replaces the first
        assert run(served, "--format", "html", "--folder", folder, "--keep", "3").exit_code == Exit.DONE
    kept = sorted(path.name for path in folder.iterdir())
    today = f"digest-{datetime.now(UTC):%Y-%m-%d}.html"
    assert kept == ["digest-2026-01-05.md", "digest-2026-01-12.html", "digest-2026-01-19.html", today]
    assert CLUSTER in (folder / today).read_text()


def test_a_folder_and_a_file_at_once_are_a_mistake(served: Served, tmp_path: Path) -> None:
    said = run(served, "--folder", tmp_path, "--out", tmp_path / "a.md")
    assert said.exit_code == Exit.USAGE
    assert "not both" in said.stderr


def test_a_digest_that_is_not_told_costs_no_older_one(served: Served, tmp_path: Path) -> None:
    for day in ("2026-01-05", "2026-01-12"):
        (tmp_path / f"digest-{day}.md").write_text("old")
    assert run(served, "--until", "no moment", "--folder", tmp_path, "--keep", "1").exit_code != Exit.DONE
    assert sorted(path.name for path in tmp_path.glob("digest-*")) == ["digest-2026-01-05.md", "digest-2026-01-12.md"]
