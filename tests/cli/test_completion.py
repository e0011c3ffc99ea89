"""Tab in a shell: verbs, options and names, asked of a live daemon with little patience; in the shells themselves."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.fakes.people import TOKEN, Served, a_board, serving

from trimtab.cli import VERBS, _root
from trimtab.cli.completion import VARIABLE
from trimtab.cli.names import PATIENCE_SECONDS

ROOT = Path(__file__).parent.parent.parent
INSTALL = "{0} is missing: apt-get install {0}"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    web = tmp_path / "web"
    web.mkdir()
    with serving(board=a_board(), web=web) as running:
        monkeypatch.setenv("TRIMTAB_URL", running.url)
        monkeypatch.setenv("TRIMTAB_TOKEN", TOKEN)
        yield running


def offered(line: str) -> list[str]:
    """What click's answer to bash offers for a command line that ends where the person is."""
    words = line.split(" ")
    env = {VARIABLE: "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(_root, [], prog_name="trimtab", env=env)
    return [row.removeprefix("plain,") for row in result.stdout.splitlines() if row.startswith("plain,")]


def test_verbs_options_and_choices(served: Served) -> None:
    assert set(offered("trimtab ")) == set(VERBS)
    assert offered("trimtab appr") == ["approve"]
    assert "--watch" in offered("trimtab status --")
    assert offered("trimtab token person anna --role ") == ["viewer", "operator", "admin", "webhook"]
    assert offered("trimtab top --sort t") == ["temperature"]


def test_names_are_those_that_the_daemon_knows_now(served: Served) -> None:
    assert offered("trimtab explain ") == ["R11", "F31"]
    assert offered("trimtab explain f") == ["F31"]
    assert offered("trimtab approve ") == ["R11"]
    assert offered("trimtab history gpu-0") == ["gpu-00", "gpu-01", "gpu-02", "gpu-03"]
    assert offered("trimtab allow gpu-02") == ["gpu-02"]
    assert offered("trimtab ack f") == ["F31"]
    assert offered("trimtab drill xid79 gpu-03") == ["gpu-03"]


def test_the_daemon_may_be_named_on_the_line_itself(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIMTAB_URL")
    monkeypatch.delenv("TRIMTAB_TOKEN")
    assert offered("trimtab explain ") == []
    assert offered(f"trimtab explain --url {served.url} --token {TOKEN} R") == ["R11"]


def test_whatever_is_amiss_there_are_simply_no_names(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, token in (("http://127.0.0.1:1", TOKEN), (served.url, "wrong"), ("nonsense", TOKEN)):
        monkeypatch.setenv("TRIMTAB_URL", url)
        monkeypatch.setenv("TRIMTAB_TOKEN", token)
        assert offered("trimtab explain ") == []


def test_a_daemon_that_does_not_answer_is_waited_for_a_moment_only(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes the connection, and says nothing
        monkeypatch.setenv("TRIMTAB_URL", f"http://127.0.0.1:{mute.getsockname()[1]}")
        assert offered("trimtab explain ") == []  # it comes back by itself: nobody here hangs up
        assert PATIENCE_SECONDS <= 2


def test_names_are_bounded_and_of_one_kind(served: Served) -> None:
    told = served.get("/api/v1/names", params={"kind": "node", "begins": "GPU", "limit": "2"}).json()["names"]
    assert [one["name"] for one in told] == ["gpu-00", "gpu-01"]
    jobs = served.get("/api/v1/names", params={"kind": "job"}).json()["names"]
    assert {"name": "eval-9", "about": "waiting"} in jobs
    assert served.get("/api/v1/names", params={"kind": "secret"}).status_code == 422


def a_trimtab(tmp_path: Path) -> Path:
    """A folder with `trimtab` in it, as an installation has one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "trimtab"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT / 'daemon')!r})\n"
        "from trimtab.cli import main\nmain()\n"
    )
    script.chmod(0o755)
    return folder


SHELLS = {
    "bash": (
        "source <(trimtab completion bash); COMP_WORDS=(trimtab explain R); COMP_CWORD=2; "
        "_trimtab_completion trimtab R explain; printf '%s\\n' \"${COMPREPLY[@]}\""
    ),
    "fish": "trimtab completion fish | source; complete --do-complete 'trimtab explain R'",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_in_the_shell_itself(served: Served, tmp_path: Path, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which(shell) is None:
        pytest.skip(INSTALL.format(shell))
    monkeypatch.setenv("PATH", f"{a_trimtab(tmp_path)}:/usr/local/bin:/usr/bin:/bin")
    done = subprocess.run([shell, "-c", SHELLS[shell]], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split()[0] == "R11", done.stderr


def test_zsh_takes_the_script(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("zsh") is None:
        pytest.skip(INSTALL.format("zsh"))
    monkeypatch.setenv("PATH", f"{a_trimtab(tmp_path)}:/usr/local/bin:/usr/bin:/bin")
    line = "autoload -U compinit; compinit -u -D; source <(trimtab completion zsh); print $_comps[trimtab]"
    done = subprocess.run(["zsh", "-f", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("_trimtab_completion", "")
