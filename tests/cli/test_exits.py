"""Exit codes: every verb ends as the one table says, and the table, --help and the reference page are the same."""

from __future__ import annotations

import inspect as python
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.fakes.people import TOKEN, Served, a_board, serving

from trimtab.cli import VERBS, _root, main
from trimtab.cli.exits import ASKING, EXITS, Exit, exits_of, reference
from trimtab.cli.place import OutOfReach
from trimtab.errors import TrimtabError
from trimtab.model.people import Role

NOBODY = "http://127.0.0.1:1"
REFERENCE = Path(__file__).parent.parent.parent / "docs" / "reference" / "exit-codes.md"


def leaves() -> dict[str, click.Command]:
    """Every command that does something, by its words."""
    found: dict[str, click.Command] = {}
    for verb in VERBS:
        command = _root.get_command(click.Context(_root), verb)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{verb} {name}": each for name, each in command.commands.items()}
        else:
            found[verb] = command
    return found


LEAVES = leaves()
ASK = {words: one for words, one in LEAVES.items() if getattr(one.callback, "asks_the_daemon", False)}
SAMPLES = {"id": "R11", "span": "5m", "place": "gpu-01/3", "node": "gpu-01", "name": "anna"}
OWN_SAMPLES = {
    "token revoke": ["T99"],
    "ack": ["F31"],
    "drill": ["xid79", "gpu-01/3"],
    "pager": [],
    "maintenance add": ["gpu-01", "--until", "2h", "--reason", "new cooler"],
    "maintenance extend": ["M3", "--until", "1h"],
    "maintenance end": ["M3"],
    "release": ["--all"],
    "history": [],
    "enroll give": ["gpu-07"],
}


def a_call(words: str) -> list[str]:
    """The least that a command takes: its arguments and what it cannot do without."""
    if words in OWN_SAMPLES:
        return [*words.split(), *OWN_SAMPLES[words]]
    given = []
    for param in LEAVES[words].params:
        if not param.required:
            continue
        if isinstance(param.type, click.Choice):
            value = str(next(iter(param.type.choices)))
        else:
            value = SAMPLES.get(param.type.name, SAMPLES.get(param.name or "", "x"))
        given += [value] if isinstance(param, click.Argument) else [param.opts[0], value]
    return [*words.split(), *given]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    bounds = {"failures_per_peer_per_minute": 10**6, "failures_per_minute": 10**6}
    with serving(board=a_board(), web=tmp_path_factory.mktemp("web"), **bounds) as running:
        yield running


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No client file of anybody's."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("URL", "TOKEN", "TOKEN_FILE", "CA_FILE"):
        monkeypatch.delenv(f"TRIMTAB_{name}", raising=False)


def run(*words: str, url: str = "", token: str = TOKEN, text: str | None = None) -> Result:
    env = {"TRIMTAB_URL": url, "TRIMTAB_TOKEN": token} if url else {}
    return CliRunner().invoke(_root, words, input=text, env=env)


def test_every_verb_that_asks_the_daemon_is_known_to_the_table() -> None:
    assert len(ASK) >= 20
    for words in LEAVES:
        ends = exits_of(words.split()[0])
        if words in ASK:
            assert {*ASKING} <= {*ends}, words
        assert {Exit.DONE, Exit.USAGE} <= {*ends}, words


def test_the_table_has_no_verb_that_is_not_there() -> None:
    assert set(EXITS) <= set(VERBS)


@pytest.mark.parametrize("words", LEAVES)
def test_a_wrong_command_line_is_2_and_names_the_way_to_help(words: str) -> None:
    result = run(*words.split(), "--no-such-option")
    assert (result.exit_code, result.stdout) == (Exit.USAGE, "")
    assert "--no-such-option" in result.stderr


@pytest.mark.parametrize("words", ASK)
def test_a_daemon_out_of_reach_is_3(words: str) -> None:
    result = run(*a_call(words), url=NOBODY)
    assert (result.exit_code, result.stdout) == (Exit.OUT_OF_REACH, ""), result.output
    assert f"The daemon at {NOBODY} does not answer." in " ".join(result.stderr.split())


@pytest.mark.parametrize("words", ASK)
def test_no_daemon_at_all_is_3_too(words: str) -> None:
    result = run(*a_call(words))
    assert (result.exit_code, "No daemon is known here" in result.stderr) == (Exit.OUT_OF_REACH, True), result.output


@pytest.mark.parametrize("words", ASK)
def test_a_wrong_token_is_4(served: Served, words: str) -> None:
    result = run(*a_call(words), url=served.url, token="trimtab_" + "x" * 43)
    assert result.exit_code == Exit.REFUSED, result.output
    assert "does not take this token (from TRIMTAB_TOKEN)" in " ".join(result.stderr.split())


DECIDES = {
    "approve", "reject", "snooze", "undo", "pause", "resume", "allow", "release", "ack", "drill",
    "token person", "token list", "token revoke",
}  # fmt: skip


@pytest.mark.parametrize("words", sorted(DECIDES))
def test_a_role_that_does_not_suffice_is_4(served: Served, words: str) -> None:
    _, secret = served.door.passes.give_token(name="vera", role=Role.VIEWER, lasts_seconds=None, by="operator")
    result = run(*a_call(words), url=served.url, token=secret)
    assert (result.exit_code, "needs the role" in result.stderr) == (Exit.REFUSED, True), result.output


LOOKS = (
    ["status"],
    ["findings"],
    ["plan"],
    ["explain", "R11"],
    ["explain", "F31"],
    ["history"],
    ["history", "gpu-01", "0"],
    ["link"],
    ["top"],
    ["whoami"],
    ["token", "list"],
    ["token", "sessions"],
    ["token", "person", "anna", "--role", "viewer"],
    ["completion", "bash"],
)


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_what_is_done_is_0(served: Served, words: list[str]) -> None:
    result = run(*words, url=served.url)
    assert (result.exit_code, result.stderr if words[0] != "token" else "") == (Exit.DONE, ""), result.output


@pytest.mark.parametrize("words", [words for words in LOOKS if words[0] != "completion"], ids=" ".join)
def test_each_has_its_data_as_json(served: Served, words: list[str]) -> None:
    import msgspec

    result = run(*words, "--json", url=served.url)
    assert result.exit_code == Exit.DONE, result.output
    assert msgspec.json.decode(result.stdout)


def test_check_makes_it_1_where_something_is_wrong(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with serving(board=a_board(), web=tmp_path / "a") as wrong:
        for verb in ("status", "findings", "plan"):
            assert run(verb, url=wrong.url).exit_code == Exit.DONE
            for more in ((), ("--json",)):
                result = run(verb, "--check", *more, url=wrong.url)
                assert (result.exit_code, bool(result.stdout)) == (Exit.NOT_WELL, True)
    well = a_board(findings=(), commands=(), refusals=())
    with serving(board=well, web=tmp_path / "b") as fine:
        for verb in ("status", "findings", "plan"):
            assert run(verb, "--check", url=fine.url).exit_code == Exit.DONE


def test_a_daemon_that_cannot_answer_now_is_3(tmp_path: Path) -> None:
    with serving(board=None, web=tmp_path) as starting:
        result = run("status", url=starting.url)
    assert (result.exit_code, "has just started" in result.stderr) == (Exit.OUT_OF_REACH, True)


def test_what_is_not_there_is_4(served: Served) -> None:
    for words in (["explain", "R99"], ["approve", "R99"], ["token", "revoke", "T99"], ["allow", "gpu-77"]):
        assert run(*words, url=served.url).exit_code == Exit.REFUSED, words


@pytest.mark.parametrize("words", LEAVES)
def test_help_says_how_it_ends_and_gives_an_example(words: str) -> None:
    shown = " ".join(run(*words.split(), "--help").stdout.split())
    if words in ASK:
        assert "Exit codes: 0 done;" in shown
        assert "4 the daemon says no." in shown
        assert "Example" in shown, words
    assert python.cleandoc(LEAVES[words].help or "").strip()


def test_the_reference_page_is_made_from_the_table() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == reference(VERBS), "run: make docs"


def test_an_error_that_trimtab_names_and_nobody_caught_is_2() -> None:
    assert issubclass(OutOfReach, TrimtabError)
    result = run("token", "node", "gpu-07", "--settings", "/nowhere/daemon.toml")
    assert isinstance(result.exception, TrimtabError)  # `main` makes one line and exit code 2 of it


def test_what_this_user_may_not_read_is_one_line_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied", "/var/lib/trimtab/trimtab.db")

    monkeypatch.setattr(_root, "main", refused)
    monkeypatch.setattr("sys.argv", ["trimtab", "db", "check"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("trimtab: /var/lib/trimtab/trimtab.db: this user may not.")
    assert "sudo trimtab" in said
