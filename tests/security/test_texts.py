"""Texts of strangers on their way to a terminal, a log, a spreadsheet, a YAML or TOML file: texts, and nothing more."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_report, an_xid
from tests.security.hall import Hall
from tests.system.processes import CLUSTER, eventually, verb

from trimtab.cli.tame import tame
from trimtab.clock import SystemClock
from trimtab.model.command import AuditLine
from trimtab.outbound import session
from trimtab.setup.text import yaml_text
from trimtab.ship.tokens import give_token, read_nodes
from trimtab.ship.wire import MSGPACK, ZSTD, encode_reports
from trimtab.store.care import export
from trimtab.store.database import Database
from trimtab.store.history import History

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1mC1\u202edlrow\r\x08overwritten"
STEERING = [chr(code) for code in (*range(9), *range(11, 32), 127, *range(128, 160), 0x202E, 0x2066, 0x2028)]


@pytest.mark.parametrize("steering", STEERING, ids=lambda one: f"U+{ord(one):04X}")
def test_no_character_that_steers_a_terminal_gets_through(steering: str) -> None:
    raw = msgspec.json.encode({"sentence": f"a{steering}b", "path": "C:\\u001b\\n"})
    read = msgspec.json.decode(tame(raw))
    assert steering not in read["sentence"]
    assert read["sentence"][0] + read["sentence"][-1] == "ab"
    assert read["path"] == "C:\\u001b\\n", "a backslash that somebody wrote stays one"


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_whatever_is_said_stays_json_and_printable_text_stays_as_it_is(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    read = msgspec.json.decode(tame(msgspec.json.encode({"text": text})))["text"]
    assert not set(read) & set(STEERING)
    if text.isprintable():
        assert read == text


def test_no_verb_lets_a_kernel_line_or_a_person_steer_the_terminal(shared_hall: Hall, tmp_path: Path) -> None:
    hall = shared_hall
    now = SystemClock().now()
    event = replace(an_xid(79, node="noisy", index=0, at=now, boot_id="b"), text=f"Xid 79 {ESCAPES}")
    made = a_report("noisy", cluster=CLUSTER, spool_id="s", boot_id="b", sampled_at=now, gpus=1, events=(event,))
    with session(timeout_seconds=20.0, token=hall.daemon.token_of("noisy")) as peer:
        headers = {"Content-Type": MSGPACK, "Content-Encoding": ZSTD}
        answer = peer.post(f"{hall.daemon.ingest_url}/v1/reports", data=encode_reports([made]), headers=headers)
        assert answer.status_code == 200
    assert hall.daemon.ask("POST", "/api/v1/pause", {"reason": ESCAPES}).status_code == 200
    (finding,) = eventually(
        lambda: [one.id for one in hall.daemon.board().findings if one.finding.subject.node == "noisy"]
    )
    for words in (("status",), ("top", "--once"), ("findings",), ("explain", f"F{finding}"), ("history",)):
        options = ("--url", hall.url, "--token", hall.daemon.operator_token)
        said = verb(*words, *options, home=tmp_path, COLUMNS="200")
        text = said.stdout + said.stderr
        assert not set(text) & set(STEERING), (words, text)
    assert "\x1b" not in hall.daemon.text()


def test_a_log_that_somebody_gives_steers_no_terminal(tmp_path: Path) -> None:
    log = tmp_path / "kernel.log"
    line = "Nov 30 14:00:00 gpu-07 kernel: NVRM: Xid (PCI:0000:b3:00): 79, pid='<unknown>', name=<unknown>, "
    log.write_text(f"{line}GPU has fallen off the bus. {ESCAPES}\n" * 3, encoding="utf-8")
    said = verb("inspect", str(log), home=tmp_path)
    assert "79" in said.stdout
    assert not set(said.stdout + said.stderr) & set(STEERING)


FORMULAS = ("=cmd|'/C calc'!A0", "+1+1", "-2+3", '@SUM(1)"', "\t=1", "\r=1")


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_of_an_export_is_a_formula(database: Database, formula: str) -> None:
    history = History(database, cluster=CLUSTER)
    history.audit([AuditLine(at=SystemClock().now(), who=formula, what="paused", why=formula)])
    into = io.StringIO()
    assert export(database, "audit", into) == 1
    (row,) = csv.DictReader(io.StringIO(into.getvalue()))
    assert row["who"] == "'" + formula.replace("\r", "\n")
    assert row["what"] == "paused"


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["name", "url", "user"]), st.text() | st.lists(st.text(), max_size=3)))
def test_what_setup_writes_as_yaml_holds_what_it_was_given(value: dict[str, object]) -> None:
    value = json.loads(json.dumps(value).replace("\\ud", "\\u0"))  # halves of surrogate pairs are no text
    assert yaml.safe_load(yaml_text(value, says="a test")) == (value or None)


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=60))
def test_a_nodes_name_writes_one_line_of_toml_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    path = tmp_path_factory.mktemp("tokens") / "node-tokens.toml"
    give_token(path, "first")
    try:
        give_token(path, name)
    except Exception as error:  # noqa: BLE001 - whatever is refused is refused by name
        assert type(error).__name__ == "SettingsError"
        assert set(read_nodes(path)) == {"first"}
        return
    assert set(read_nodes(path)) == {"first", name}
    assert set(tomllib.loads(path.read_text(encoding="utf-8"))) == {"nodes"}
