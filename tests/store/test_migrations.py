from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from trimtab import __version__
from trimtab.errors import StoreError
from trimtab.store import schema
from trimtab.store.database import Database, open_database
from trimtab.store.schema import current_revision
from trimtab.store.tables import VERSION_TABLE, meta, metadata

OPENER = """
import sys
from pathlib import Path
from trimtab.store.database import open_database
open_database(sys.argv[1], state_directory=Path(sys.argv[2])).close()
"""


def open_in_a_process(url: str, directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OPENER, url, str(directory)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def head() -> str | None:
    """The newest migration there is."""
    versions = Path(schema.__file__).parent / "migrations" / "versions"
    return max(path.name[:4] for path in versions.glob("[0-9]*.py"))


def test_the_tables_are_the_sum_of_the_migrations(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []


def test_a_drift_between_tables_and_migrations_would_be_seen(database: Database) -> None:
    with database.write() as connection:
        connection.execute(sa.text("ALTER TABLE events ADD COLUMN surprise TEXT"))
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert len(compare_metadata(context, metadata)) == 1


def test_opening_again_changes_nothing(database: Database, database_url: str, tmp_path: Path) -> None:
    with database.write() as connection:
        connection.execute(sa.insert(meta), {"key": "mark", "value": "kept"})
    open_database(database_url, state_directory=tmp_path).close()
    with database.read() as connection:
        assert current_revision(connection) == head()
        assert connection.execute(sa.select(meta.c.key, meta.c.value).order_by(meta.c.key)).all() == [
            ("mark", "kept"),
            ("version", __version__),
        ]


def test_a_database_of_a_newer_version_is_refused_and_left_alone(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    with database.write() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '0099'"))
        connection.execute(sa.update(meta).values(value="9.9.9"))
    with pytest.raises(StoreError, match=r"newer trimtab \(9\.9\.9, schema 0099\).*Install that version"):
        open_database(database_url, state_directory=tmp_path)
    with database.read() as connection:
        assert current_revision(connection) == "0099"
        assert connection.execute(sa.select(meta.c.value)).scalar_one() == "9.9.9"


def test_daemons_that_migrate_at_once_do_not_collide(database_url: str, tmp_path: Path) -> None:
    processes = [open_in_a_process(database_url, tmp_path) for _ in range(4)]
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], "\n".join(said)


def test_a_migration_that_fails_half_way_leaves_nothing(database_url: str, tmp_path: Path) -> None:
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE switches (mine TEXT)"))  # a stranger's, made late in the migration
    with pytest.raises(StoreError, match="switches"):
        open_database(database_url, state_directory=tmp_path)
    assert sa.inspect(engine).get_table_names() == ["switches"]
    engine.dispose()
