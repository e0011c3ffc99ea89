"""A daemon elsewhere: where the verbs look for it, and what they say when it cannot be had; over real TLS."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.fakes.people import TOKEN, Served, a_board, serving

from trimtab.cli import _root
from trimtab.cli.place import Asked, OutOfReach, find, own_file
from trimtab.errors import ClientError
from trimtab.model.people import Role
from trimtab.show.keys import client_file, write_client_file

TLS = Path(__file__).parent.parent / "fixtures" / "tls"
WITH_TLS = {"certificate_file": str(TLS / "server.pem"), "key_file": str(TLS / "server.key")}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("URL", "TOKEN", "TOKEN_FILE", "CA_FILE"):
        monkeypatch.delenv(f"TRIMTAB_{name}", raising=False)
    return tmp_path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    web = tmp_path / "web"
    web.mkdir()
    with serving(board=a_board(), web=web) as running:
        yield running


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Served]:
    """A daemon that speaks TLS, with a certificate of the site's own CA."""
    web = tmp_path / "web"
    web.mkdir()
    with serving(board=a_board(), web=web, listener=WITH_TLS) as running:
        yield running


def run(*words: str, text: str | None = None, **env: str) -> Result:
    return CliRunner().invoke(_root, words, input=text, env={"COLUMNS": "120", **env})


def said(result: Result) -> str:
    return " ".join(result.stderr.split())


def own(text: str, mode: int = 0o600) -> Path:
    path = own_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


# --- where it is looked for


def test_options_come_before_files_and_a_demo_here_before_what_one_is_signed_in_to(home: Path) -> None:
    own('url = "https://own:1"\ntoken = "o"\n')
    assert find(Asked()).url == "https://own:1"
    write_client_file(client_file(), url="http://127.0.0.1:2", token="demo")
    assert (find(Asked()).url, find(Asked()).token) == ("http://127.0.0.1:2", "demo")
    given = find(Asked(url="https://given:3/", token="g"))
    assert (given.url, given.token, given.said_by, given.token_said_by) == ("https://given:3", "g", "--url", "--token")


def test_a_token_may_stand_in_a_file_of_its_own(home: Path) -> None:
    token = home / "token"
    token.write_text(f"  {TOKEN}\n")
    for path in (own(f'url = "http://a:1"\ntoken_file = "{token}"\n'), None):
        asked = Asked() if path else Asked(url="http://a:1", token_file=str(token))
        assert (find(asked).token, find(asked).token_said_by) == (TOKEN, str(token))
    token.write_text("two words\n")
    with pytest.raises(ClientError, match="holds no token"):
        find(Asked(url="http://a:1", token_file=str(token)))
    with pytest.raises(ClientError, match=r"cannot be read: No such file"):
        find(Asked(url="http://a:1", token_file=str(home / "nothing")))
    with pytest.raises(ClientError, match="not both"):
        find(Asked(url="http://a:1", token="x", token_file="y"))


@pytest.mark.parametrize(
    ("text", "mode", "sentence"),
    [
        ("url = [", 0o600, "client.toml: "),
        ('adress = "http://a:1"\n', 0o600, "there is no setting 'adress'. The settings are url, token, token_file, ca"),
        ("url = 3\n", 0o600, "url must be text in quotation marks"),
        ('url = "http://a:1"\ntoken = "x"\n', 0o644, "can be read by others. Run: chmod 600"),
        ('url = "trimtab.example:9740"\ntoken = "x"\n', 0o600, "is no address of a daemon: write https://HOST:9740"),
        ('url = "https://a:1"\ntoken = "x"\nca_file = "/nowhere.pem"\n', 0o600, "/nowhere.pem cannot be read"),
    ],
)
def test_a_file_that_is_wrong_is_2_and_named_with_its_fix(home: Path, text: str, mode: int, sentence: str) -> None:
    own(text, mode)
    result = run("status")
    assert (result.exit_code, sentence in said(result)) == (2, True), said(result)


def test_without_a_token_the_way_to_one_is_told() -> None:
    with pytest.raises(OutOfReach, match="trimtab login"):
        find(Asked(url="http://127.0.0.1:1"))


# --- what goes wrong on the way


def test_tls_of_the_sites_own_ca(secured: Served) -> None:
    ca = str(TLS / "ca.pem")
    good = run("status", "--url", secured.url, "--token", TOKEN, "--ca-file", ca)
    assert (good.exit_code, good.stderr) == (0, "")
    stranger = run("status", "--url", secured.url, "--token", TOKEN)
    assert stranger.exit_code == 3
    place = secured.url.removeprefix("https://")
    assert f"The certificate of {place} is signed by a CA that is not trusted here. Set --ca-file to" in said(stranger)
    plain = run("status", "--url", secured.url.replace("https", "http"), "--token", TOKEN)
    assert (plain.exit_code, "write https://" in said(plain)) == (3, True), said(plain)
    by_another_name = run(
        "status", "--url", secured.url.replace("127.0.0.1", "127.0.0.2"), "--token", TOKEN, "--ca-file", ca
    )
    assert by_another_name.exit_code == 3


def test_a_certificate_for_another_name(secured: Served) -> None:
    port = secured.url.rpartition(":")[2]
    ca = str(TLS / "ca.pem")
    result = run("status", "--url", f"https://[::ffff:127.0.0.1]:{port}", "--token", TOKEN, "--ca-file", ca)
    assert (result.exit_code, "is for another name than" in said(result)) == (3, True), said(result)


def test_a_ca_file_that_is_none(secured: Served, home: Path) -> None:
    (home / "ca.pem").write_text("no certificate")
    result = run("status", "--url", secured.url, "--token", TOKEN, "--ca-file", str(home / "ca.pem"))
    assert result.exit_code == 3
    assert "--ca-file" in said(result)
    assert "is no PEM file that can be read" in said(result)


def test_no_tls_where_it_was_expected(served: Served) -> None:
    result = run("status", "--url", served.url.replace("http", "https"), "--token", TOKEN)
    assert (result.exit_code, "does not speak TLS" in said(result)) == (3, True), said(result)


def test_a_name_that_nobody_knows() -> None:
    result = run("status", "--url", "http://nobody.invalid:9740", "--token", TOKEN)
    assert (result.exit_code, "There is no host nobody.invalid" in said(result)) == (3, True), said(result)


def test_a_port_where_something_else_hangs_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            server.accept()[0].close()

        taker = threading.Thread(target=hang_up)
        taker.start()
        result = run("status", "--url", f"http://127.0.0.1:{server.getsockname()[1]}", "--token", TOKEN)
        taker.join(10)
    assert (result.exit_code, "hung up" in said(result)) == (3, True), said(result)


def test_a_wrong_token_says_where_it_is_from(served: Served, home: Path) -> None:
    path = own(f'url = "{served.url}"\ntoken = "trimtab_{"x" * 43}"\n')
    result = run("status")
    assert (result.exit_code, f"does not take this token (from {path})" in said(result)) == (4, True)
    assert "x" * 43 not in result.output


# --- login and whoami


def give(served: Served, role: Role = Role.OPERATOR) -> str:
    return served.door.passes.give_token(name="anna", role=role, lasts_seconds=None, by="operator")[1]


def test_login_asks_tries_and_keeps_it_for_its_owner_alone(secured: Served) -> None:
    secret = give(secured)
    result = run("login", secured.url, "--ca-file", str(TLS / "ca.pem"), text=secret + "\n")
    assert (result.exit_code, f"{secured.url} knows you as anna, operator." in result.stdout) == (0, True), (
        result.output
    )
    assert secret not in result.output
    assert stat.S_IMODE(own_file().stat().st_mode) == 0o600
    assert [one.name for one in own_file().parent.iterdir()] == ["client.toml"]
    assert run("whoami").stdout.startswith(f"anna, operator, at {secured.url}")
    assert run("status").exit_code == 0


def test_login_may_keep_where_the_token_is_in_its_place(served: Served, home: Path) -> None:
    (home / "token").write_text(give(served))
    result = run("login", served.url, "--token-file", str(home / "token"), "--json")
    assert (result.exit_code, '"name": "anna"' in result.stdout) == (0, True), result.output
    assert "token_file" in own_file().read_text()
    assert (home / "token").read_text() not in own_file().read_text()
    assert run("whoami", "--json").exit_code == 0


def test_login_in_a_pipe_reads_the_token_there_and_it_wins_over_the_environments_file(
    served: Served, home: Path
) -> None:
    (home / "token").write_text(give(served))
    kept = {"TRIMTAB_TOKEN_FILE": str(home / "token")}
    wrong = run("login", served.url, text="trimtab_wrong\n", **kept)
    assert (wrong.exit_code, "does not take this token" in said(wrong)) == (4, True)
    assert run("login", served.url, text="", **kept).exit_code == 0
    assert "token_file" in own_file().read_text()
    assert run("login", served.url, text=give(served) + "\n", **kept).exit_code == 0
    assert "token_file" not in own_file().read_text()


def test_an_option_beats_the_environment_and_each_source_goes_by_its_name(served: Served, home: Path) -> None:
    (home / "token").write_text(give(served))
    (home / "wrong").write_text("trimtab_wrong")
    env = {"TRIMTAB_URL": served.url, "TRIMTAB_TOKEN_FILE": str(home / "token")}
    assert run("status", **env).exit_code == 0
    wrong = run("status", "--token", "wrong", **env)
    assert (wrong.exit_code, "this token (from --token)" in said(wrong)) == (4, True), said(wrong)
    assert run("status", "--token-file", str(home / "token"), TRIMTAB_URL=served.url, TRIMTAB_TOKEN="x").exit_code == 0
    other = run("status", **{**env, "TRIMTAB_TOKEN_FILE": str(home / "wrong")})
    assert f"(from {home / 'wrong'}, which TRIMTAB_TOKEN_FILE names)" in said(other)
    both = run("status", **env, TRIMTAB_TOKEN="x")
    assert (both.exit_code, said(both)) == (2, "trimtab: Give TRIMTAB_TOKEN or TRIMTAB_TOKEN_FILE, not both.")


def test_login_keeps_nothing_that_did_not_work(served: Served) -> None:
    wrong = run("login", served.url, text="trimtab_wrong\n")
    assert (wrong.exit_code, "does not take this token" in said(wrong)) == (4, True)
    nobody = run("login", "http://127.0.0.1:1", text="x\n")
    assert nobody.exit_code == 3
    webhook = run("login", served.url, text=give(served, Role.WEBHOOK) + "\n")
    assert (webhook.exit_code, "needs the role viewer" in said(webhook)) == (4, True)
    assert not own_file().exists()


# --- tokens of people


def test_an_admin_gives_lists_and_revokes(served: Served) -> None:
    env = {"TRIMTAB_URL": served.url, "TRIMTAB_TOKEN": TOKEN}
    given = run("token", "person", "anna", "--role", "operator", "--days", "30", **env)
    secret = given.stdout.strip()
    assert (given.exit_code, secret.startswith("trimtab_")) == (0, True)
    assert "This is T1, the token of anna (operator), shown this once; good until 20" in said(given)
    assert run("whoami", TRIMTAB_URL=served.url, TRIMTAB_TOKEN=secret).stdout.startswith("anna, operator")
    listed = run("token", "list", **env)
    assert "T1   anna, operator, good until 20" in listed.stdout
    assert "last used 0 s ago, given by operator" in " ".join(listed.stdout.split())
    assert secret not in listed.stdout + run("token", "list", "--json", **env).stdout
    revoked = run("token", "revoke", "t1", "--reason", "left the team", **env)
    assert (revoked.exit_code, revoked.stdout) == (0, "T1 of anna is revoked, and its sessions are over.\n")
    assert run("whoami", TRIMTAB_URL=served.url, TRIMTAB_TOKEN=secret).exit_code == 4
    assert "revoked 20" in run("token", "list", **env).stdout


def test_sessions_are_shown_and_ended(served: Served) -> None:
    env = {"TRIMTAB_URL": served.url, "TRIMTAB_TOKEN": TOKEN}
    assert run("token", "sessions", **env).stdout == "Nobody is signed in at the page.\n"
    served.door.sign_in(give(served), peer="10.0.0.7")
    assert "S1   anna, operator, by token from 10.0.0.7, until" in run("token", "sessions", **env).stdout
    assert run("token", "sessions", "--end", "S1", **env).stdout == "S1 of anna is over.\n"
    assert run("token", "sessions", "--end", "S1", **env).exit_code == 4
