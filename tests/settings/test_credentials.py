"""Credentials: any `*_file` key may name what systemd hands over; what is missing is said, secrets never are."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.cli.settings import checks_of
from trimtab.errors import SettingsError
from trimtab.secrecy import scrubbed
from trimtab.settings import AgentSettings, DaemonSettings, load, read_token
from trimtab.settings.load import load_whole
from trimtab.settings.secrets import database_url, shown
from trimtab.store.database import open_database

CANARY = "canary-4f9c1e77d2"


def handed_over(tmp_path: Path, *names: str) -> dict[str, str]:
    """A credentials directory as systemd makes it."""
    directory = tmp_path / "credentials"
    directory.mkdir()
    for name in names:
        (directory / name).write_text(f"{CANARY}\n")
    return {"CREDENTIALS_DIRECTORY": str(directory)}


@pytest.mark.parametrize("handed", ["node-token", "credentials_node-token"])
@pytest.mark.parametrize("written", ["credential:node-token", "node-token"])
def test_a_credential_is_found_by_its_scheme_or_its_bare_name(tmp_path: Path, handed: str, written: str):
    path = tmp_path / "agent.toml"
    path.write_text(f'token_file = "{written}"\n')
    environment = handed_over(tmp_path, handed)
    found = load_whole(path, AgentSettings, environment=environment)
    assert found.settings.token_file == str(Path(environment["CREDENTIALS_DIRECTORY"]) / handed)
    assert found.origins["token_file"] == "credential node-token"
    assert read_token(found.settings.token_file, environment_name="TRIMTAB_NONE") == CANARY


def test_every_file_key_may_name_one_also_in_tables_of_the_sites_own(tmp_path: Path):
    path = tmp_path / "daemon.toml"
    path.write_text(
        '[people]\nmetrics_token_file = "credential:metrics"\nkey_file = "credential:tls.key"\n'
        'certificate_file = "/etc/cert.pem"\n'
        '[oncall.targets.pager]\nkind = "pagerduty"\nrouting_key_file = "credential:pd"\n'
    )
    environment = handed_over(tmp_path, "credentials_metrics", "credentials_tls.key", "credentials_pd")
    found = load(path, DaemonSettings, environment=environment, is_start=True)
    directory = environment["CREDENTIALS_DIRECTORY"]
    assert found.people.metrics_token_file == f"{directory}/credentials_metrics"
    assert found.people.key_file == f"{directory}/credentials_tls.key"
    assert found.people.certificate_file == "/etc/cert.pem"
    assert found.oncall.targets["pager"].routing_key_file == f"{directory}/credentials_pd"


def test_a_variable_may_name_one_too(tmp_path: Path):
    environment = handed_over(tmp_path, "node-token") | {"TRIMTAB_AGENT__TOKEN_FILE": "credential:node-token"}
    assert load(None, AgentSettings, environment=environment).token_file.endswith("/node-token")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("credential:node-tokn", "no credential 'node-tokn'. Did you mean credential:node-token?"),
        ("credential:other", "There are: node-token."),
        ("credential:../agent.toml", "names no credential"),
        ("credential:", "names no credential"),
    ],
)
def test_whoever_starts_needs_it_and_is_told_what_there_is(tmp_path: Path, written: str, said: str):
    path = tmp_path / "agent.toml"
    path.write_text(f'token_file = "{written}"\n')
    environment = handed_over(tmp_path, "credentials_node-token")
    with pytest.raises(SettingsError) as caught:
        load(path, AgentSettings, environment=environment, is_start=True)
    for part in (str(path), "token_file", said):
        assert part in str(caught.value)
    assert load(path, AgentSettings, environment=environment).token_file == written, "a verb needs it not"


def test_outside_a_unit_it_is_said_who_hands_them_over(tmp_path: Path):
    path = tmp_path / "agent.toml"
    path.write_text('token_file = "credential:node-token"\n')
    with pytest.raises(SettingsError, match=r"handed over by systemd, and \$CREDENTIALS_DIRECTORY is not set here"):
        load(path, AgentSettings, environment={}, is_start=True)


def test_a_password_file_completes_the_databases_url(tmp_path: Path):
    path = tmp_path / "daemon.toml"
    path.write_text('[store]\nurl = "postgresql://trimtab@db:5433/trimtab?sslmode=require"\npassword_file = "pw"\n')
    environment = handed_over(tmp_path, "pw")
    store = load(path, DaemonSettings, environment=environment).store
    assert database_url(store) == f"postgresql://trimtab:{CANARY}@db:5433/trimtab?sslmode=require"
    assert store.url == "postgresql://trimtab@db:5433/trimtab?sslmode=require"


def test_a_password_is_said_once(tmp_path: Path):
    path = tmp_path / "daemon.toml"
    path.write_text(f'[store]\nurl = "postgresql://u:{CANARY}@db/x"\npassword_file = "pw"\n')
    store = load(path, DaemonSettings, environment=handed_over(tmp_path, "pw")).store
    with pytest.raises(SettingsError, match=r"store\.url has a password") as caught:
        database_url(store)
    assert CANARY not in str(caught.value)


def test_a_secret_is_in_no_repr_and_no_error(tmp_path: Path):
    path = tmp_path / "daemon.toml"
    path.write_text(
        f'[store]\nurl = "postgresql://u:{CANARY}@127.0.0.1:1/x"\n[oncall]\nheartbeat_url = "https://h/{CANARY}"\n'
    )
    settings = load(path, DaemonSettings, environment={})
    assert CANARY not in repr(settings)
    assert CANARY not in f"{settings.store!r} {settings.oncall!s} {list(settings.store.__rich_repr__())}"
    assert shown("store.url", settings.store.url) == "postgresql://u:set@127.0.0.1:1/x"
    assert shown("oncall.heartbeat_url", settings.oncall.heartbeat_url) == "set"
    with pytest.raises(Exception, match=r"127\.0\.0\.1") as caught:
        open_database(database_url(settings.store), state_directory=tmp_path)
    assert CANARY not in str(caught.value)


def test_a_token_file_of_strange_bytes_is_not_quoted(tmp_path: Path):
    path = tmp_path / "token"
    path.write_bytes(f"{CANARY}ü".encode())
    with pytest.raises(SettingsError) as caught:
        read_token(str(path), environment_name="TRIMTAB_NONE")
    assert CANARY not in str(caught.value)
    assert "not plain ASCII" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:canary-9f2@db/trimtab",
        "postgresql://u:ca@nary-9f2@db/trimtab",
        "postgresql://db/trimtab?user=u&password=canary-9f2&sslmode=require",
        "postgresql://db/trimtab?sslpassword=canary-9f2",
    ],
)
def test_a_password_in_an_address_is_shown_nowhere(url: str):
    for said in (shown("store.url", url), scrubbed(f"cannot reach {url} now")):
        assert "nary-9f2" not in str(said)
        assert "db/trimtab" in str(said)


def test_addresses_without_a_password_stay_as_they_are():
    said = '{"url":"http://127.0.0.1:9740","by":"ada@example.org"} https://h:1/a?b=c'
    assert scrubbed(said) == said


def test_a_join_token_that_was_used_and_is_gone_is_as_it_should_be(tmp_path: Path):
    file = tmp_path / "agent.toml"
    file.write_text('join_token_file = "credential:join-token"\n')
    assert all(one.is_ok for one in checks_of(file, "agent"))
