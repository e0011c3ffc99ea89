"""What units and manifests grant has a reason on the page; a role that may do no more than it says suffices."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml
from tests import postgres
from tests.security import permissions

from trimtab.clock import SystemClock
from trimtab.model.command import AuditLine
from trimtab.setup.history import postgres_of
from trimtab.store.database import open_database
from trimtab.store.history import History

PAGE = permissions.ROOT / "docs" / "how-to" / "permissions.md"
THREATS = permissions.ROOT / "docs" / "how-to" / "threat-model.md"
STOLEN = (
    "node credential", "join token", "viewer's token", "operator's token", "admin's token", "session cookie",
    "webhook secret", "database file", "backup", "ca key", "reader's service account", "actor's service account",
    "page link", "agent's host", "daemon's host", "we do not defend",
)  # fmt: skip


def test_the_page_is_made_of_units_and_manifests() -> None:
    assert PAGE.read_text(encoding="utf-8") == permissions.page(), "run: make docs"


def test_no_rule_names_everything_or_a_secret() -> None:
    for path in sorted(permissions.MANIFESTS.glob("*/*.yaml")):
        for held in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            for rule in (held or {}).get("rules") or []:
                said = (path.name, rule)
                assert "*" not in rule.get("verbs", []), said
                assert not {"*", "secrets"} & set(rule.get("resources", [])), said
                assert "*" not in rule.get("apiGroups", []), said


def test_every_rule_and_grant_has_a_reason() -> None:
    for _, name, rules in permissions.roles():
        assert name in permissions.RULE_WHY
        assert all(why for _, _, why in rules), rules
    for unit in sorted(permissions.UNITS.glob("*.service")):
        assert all(permissions.why_of(grant) for grant in permissions.grants(unit))


def owned_database(server: postgres.PostgresServer) -> tuple[str, str]:
    """A database owned by a role that may nothing else: its URL, and the superuser's."""
    superuser = server.new_database()
    name = urlsplit(superuser).path.lstrip("/")
    with psycopg.connect(superuser.replace("postgresql+psycopg", "postgresql"), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS trimtab_plain")
        connection.execute("CREATE ROLE trimtab_plain LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE")
        connection.execute(f'ALTER DATABASE "{name}" OWNER TO trimtab_plain')
    parts = urlsplit(superuser)
    user = parts.netloc.rpartition("@")[0]
    plain = (
        superuser.replace(f"{user}@", "trimtab_plain@", 1) if user else superuser.replace("//", "//trimtab_plain@", 1)
    )
    return plain, superuser


def test_a_role_that_owns_its_database_and_no_more_suffices(
    postgresql: postgres.PostgresServer, tmp_path: Path
) -> None:
    plain, superuser = owned_database(postgresql)
    database = open_database(plain, state_directory=tmp_path)
    History(database, cluster="hall-a").audit([AuditLine(at=SystemClock().now(), who="x", what="paused", why="")])
    database.close()
    reader = postgres_of(plain)
    assert reader is not None
    with psycopg.connect(superuser.replace("postgresql+psycopg", "postgresql"), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS trimtab_reader")
        for line in reader.grants:
            connection.execute(line.partition("--")[0].replace("'…'", "'x'"))
        connection.execute("SET ROLE trimtab_reader")
        assert connection.execute("SELECT count(*) FROM findings").fetchone() == (0,)
        for table in ("people_tokens", "people_sessions", "join_tokens", "node_credentials"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM {table}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM audit")
        connection.execute("RESET ROLE")
        connection.execute("DROP OWNED BY trimtab_reader")
        connection.execute("DROP ROLE trimtab_reader")


def test_the_threat_model_names_every_kind_of_stolen_thing() -> None:
    text = THREATS.read_text(encoding="utf-8").lower()
    for thing in STOLEN:
        assert thing in text, thing
    assert (THREATS.parent.parent / "pictures" / "trust-boundaries.svg").exists()
    assert "trust-boundaries.svg" in text
    assert "report" in (THREATS.parent.parent / "SECURITY.md").read_text(encoding="utf-8").lower()
