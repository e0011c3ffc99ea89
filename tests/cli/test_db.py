"""`trimtab db` as it is typed: a daemon's database, beside the daemon and without it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result
from tests.postgres import PostgresServer

from trimtab.cli.db import db
from trimtab.errors import SettingsError, StoreError
from trimtab.service import lock_state
from trimtab.store.database import open_database
from trimtab.store.tables import VERSION_TABLE, audit


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "daemon.toml"
    path.write_text(f'cluster = "hall-a"\nstate_directory = "{tmp_path}"\n')
    return path


@pytest.fixture
def filled(settings: Path, tmp_path: Path) -> Path:
    database = open_database("sqlite:///trimtab.db", state_directory=tmp_path)
    with database.write() as connection:
        line = {"cluster": "hall-a", "at_ms": 1, "who": "anna", "what": "pause", "why": "full"}
        connection.execute(sa.insert(audit).values(line))
    database.close()
    return settings


def run(*words: str | Path) -> Result:
    result = CliRunner().invoke(db, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_check_says_what_is_there(filled: Path):
    assert "1  audit" in run("check", "--settings", filled).output
    assert json.loads(run("check", "--settings", filled, "--json").output)["rows"]["audit"] == 1


def test_check_without_a_database_says_so_and_makes_none(settings: Path, tmp_path: Path):
    with pytest.raises(StoreError, match="there is no database yet"):
        run("check", "--settings", settings)
    assert not (tmp_path / "trimtab.db").exists()


def test_a_newer_database_is_refused(filled: Path, tmp_path: Path):
    database = open_database("sqlite:///trimtab.db", state_directory=tmp_path)
    with database.write() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    database.close()
    for verb in (("check",), ("backup",), ("export", "audit"), ("move", "--to", "sqlite:///other.db")):
        with pytest.raises(StoreError, match="written by a newer trimtab"):
            run(*verb, "--settings", filled)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others: sudo make test")
def test_a_backup_by_root_leaves_the_folder_to_the_nightly_one_of_the_daemons_user(filled: Path, tmp_path: Path):
    os.chown(tmp_path, 64410, 64410)
    assert run("backup", "--settings", filled).exit_code == 0
    [copy] = (tmp_path / "backups").glob("trimtab-*.db")
    assert {(one.stat().st_uid, one.stat().st_gid) for one in (copy, copy.parent)} == {(64410, 64410)}


def test_backup_goes_on_beside_a_daemon_and_restore_waits_for_it_to_stop(filled: Path, tmp_path: Path):
    held = lock_state(tmp_path)
    assert run("backup", "--settings", filled, "--keep", "2").exit_code == 0
    [copy] = (tmp_path / "backups").glob("trimtab-*.db")
    with pytest.raises(SettingsError, match="another daemon is running here"):
        run("restore", copy, "--settings", filled)
    os.close(held)
    assert "is now" in run("restore", copy, "--settings", filled).output
    assert "1  audit" in run("check", "--settings", filled).output
    assert [one.name for one in copy.parent.iterdir()] == [copy.name], "a restore writes nothing beside the backup"


def test_export_is_csv_on_standard_output(filled: Path):
    result = run("export", "audit", "--settings", filled)
    assert result.stdout.splitlines()[0].startswith("id,cluster,at_ms,who,what")
    assert "anna,pause,full" in result.stdout
    assert "1 rows of audit" in result.stderr


def test_move_counts_both_and_shows_no_password(filled: Path, postgresql: PostgresServer):
    url = postgresql.new_database()
    said = run("move", "--to", url, "--settings", filled).output
    assert "the same in both databases" in said
    assert "[store]" in said
    assert "1  audit" in said
