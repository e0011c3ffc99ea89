"""`trimtab db schema` and `db kept`: what packages ask before trimtab is replaced or goes."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result
from tests.contract.rigs import a_command
from tests.issue.scenes import evacuation, to

from trimtab.cli.db import db
from trimtab.errors import StoreError
from trimtab.model.command import CommandState
from trimtab.store.database import open_database
from trimtab.store.history import History
from trimtab.store.tables import VERSION_TABLE


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    made = "sqlite:///trimtab.db"
    if request.param == "postgresql":
        made = request.getfixturevalue("postgresql").new_database()
    (tmp_path / "daemon.toml").write_text(
        f'cluster = "hall-a"\nstate_directory = "{tmp_path}"\n[store]\nurl = "{made}"\n'
    )
    open_database(made, state_directory=tmp_path).close()
    return made


def run(verb: str, tmp_path: Path) -> Result:
    result = CliRunner().invoke(db, [verb, "--settings", str(tmp_path / "daemon.toml")])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_schema_is_told_and_a_newer_one_is_refused_by_its_exit_code(url: str, tmp_path: Path):
    result = run("schema", tmp_path)
    assert (result.exit_code, result.stdout.strip().isdigit()) == (0, True)
    database = open_database(url, state_directory=tmp_path)
    with database.write() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    database.close()
    result = run("schema", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "written by a newer trimtab" in result.stderr


def test_only_what_is_still_in_the_cluster_is_told(url: str, tmp_path: Path):
    assert (run("kept", tmp_path).exit_code, run("kept", tmp_path).stdout) == (0, "")
    database = open_database(url, state_directory=tmp_path)
    scene = evacuation()
    scene.ledger = ledger = History(database, cluster="hall-a")
    scene.restart()
    settled = to(scene, CommandState.SETTLED)
    proposed = ledger.add(a_command().recommendation, scene.clock.now())  # has written nothing
    database.close()
    result = run("kept", tmp_path)
    assert result.exit_code == 1
    assert f"{settled.mark}  settled" in result.stdout
    assert proposed.mark not in result.stdout
    assert "trimtab release --all --wait" in result.stdout


def test_a_database_that_was_never_made_keeps_nothing_and_has_no_schema(tmp_path: Path):
    (tmp_path / "daemon.toml").write_text(f'state_directory = "{tmp_path}"\n')
    for verb in ("schema", "kept"):
        result = run(verb, tmp_path)
        assert (result.exit_code, result.stdout) == (0, "")
    assert not (tmp_path / "trimtab.db").exists()


def test_what_is_no_database_is_no_answer(tmp_path: Path):
    (tmp_path / "daemon.toml").write_text(f'state_directory = "{tmp_path}"\n')
    (tmp_path / "trimtab.db").write_text("not a database, and long enough to be taken for one" * 99)
    for verb in ("schema", "kept"):
        with pytest.raises(StoreError):
            run(verb, tmp_path)
