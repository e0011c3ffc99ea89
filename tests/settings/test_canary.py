"""A secret that nobody may ever see, sent down every path: it is in no log, no answer, no page and no traceback."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.system.processes import Daemon, Running, eventually, verb

CANARY = "canary-4f9c1e77d2-secret"


@pytest.fixture
def daemon(tmp_path: Path):
    """A daemon at debug whose every secret is the canary, each by another way."""
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    for name in ("metrics", "credentials_chat"):
        (credentials / name).write_text(CANARY + "\n")
    made = Daemon(
        tmp_path,
        settings='[people]\nlisten = "127.0.0.1:PORT"\nmetrics_token_file = "credential:metrics"\n'
        '[log]\nlevel = "debug"\n'
        f'[oncall]\nheartbeat_url = "http://127.0.0.1:9/{CANARY}"\nheartbeat_seconds = 0.2\n'
        'targets.chat = {kind = "slack", token_file = "credential:chat", channel = "#gpu", '
        'url = "http://127.0.0.1:9"}\n',
    )
    made.settings_file.write_text(made.settings_file.read_text().replace("PORT", str(made.people_port)))
    made.env |= {"CREDENTIALS_DIRECTORY": str(credentials), "TRIMTAB_PROXY_SECRET": CANARY}
    yield made
    made.hang_up()
    made.close()


def test_no_path_of_a_running_daemon_shows_a_secret(tmp_path: Path, daemon: Daemon):
    daemon.up()
    eventually(lambda: "heartbeat" in daemon.text(), said=daemon.tail)
    assert daemon.ask("GET", "/metrics", token=CANARY).status_code == 200, "the secret is the one in force"
    assert daemon.ask("GET", "/metrics", token=CANARY + "x").status_code in (401, 403)
    file = str(daemon.settings_file)
    more = {name: daemon.env[name] for name in ("CREDENTIALS_DIRECTORY", "TRIMTAB_PROXY_SECRET")}
    said = [
        verb(*words, home=tmp_path, **more)
        for words in (
            ("settings", "show", "--all", "--settings", file),
            ("settings", "show", "--json", "--settings", file),
            ("settings", "check", "--settings", file),
            ("doctor", "--settings", file),
            ("doctor", "--json", "--url", daemon.url, "--token", daemon.operator_token),
        )
    ]
    assert 'oncall.heartbeat_url = "set"' in said[0].stdout
    assert "people.metrics_token_file" in said[0].stdout
    daemon.settings_file.write_text(daemon.settings_file.read_text() + f'\n[plan]\nmoves = "{CANARY}"\n')
    os.kill(daemon.pid, signal.SIGHUP)
    eventually(lambda: "settings not reloaded" in daemon.text(), said=daemon.tail)
    broken = verb("settings", "check", "--settings", file, home=tmp_path, **more)
    assert broken.returncode == 1
    answers = [
        daemon.ask("GET", path).text for path in ("/api/v1/doctor", "/api/v1/audit", "/api/v1/board", "/metrics")
    ]
    whole = "\n".join((daemon.text(), *answers, *(one.stdout + one.stderr for one in (*said, broken))))
    assert CANARY not in whole


@pytest.mark.parametrize(
    "words", [("daemon", "--log-level", "debug"), ("db", "check"), ("db", "backup"), ("settings", "show")]
)  # a daemon waits for its database until it is stopped
def test_a_databases_password_is_in_no_error(tmp_path: Path, words: tuple[str, ...]):
    file = tmp_path / "daemon.toml"
    file.write_text(
        f'state_directory = "{tmp_path / "state"}"\n'
        f'[store]\nurl = "postgresql://trimtab:{CANARY}@127.0.0.1:9/trimtab"\n'
    )
    running = Running(*words, "--settings", str(file), home=tmp_path, name="verb", env={})
    running.start()
    try:
        eventually(lambda: "out of reach" in running.text() or not running.is_running, said=running.tail)
    finally:
        running.stop()
    assert running.text() != ""
    assert CANARY not in running.text()


def test_what_ends_a_daemon_shows_no_secret_in_its_traceback(tmp_path: Path):
    code = (
        "import sys; from trimtab import logs; from trimtab.settings import read_token;"
        "logs.setup(level='debug'); logs.hear_all();"
        "token = read_token(sys.argv[1], environment_name='NONE'); import threading;"
        "thread = threading.Thread(target=lambda: int(token)); thread.start(); thread.join(); int(token)"
    )
    (tmp_path / "token").write_text(CANARY)
    import subprocess
    import sys

    from tests.system.processes import environment

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "token")],
        env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 2
    assert CANARY not in done.stderr
