"""`trimtab top` and `--watch` in a real terminal: what stands there, keys, sizes, how it ends; and once in a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from tests.cli.terminal import ROOT, Terminal
from tests.fakes.hall import a_hall, a_hall_served
from tests.fakes.people import TOKEN, Served, a_board

from trimtab.cli import _root
from trimtab.cli.feed import boards
from trimtab.cli.keys import keys_of
from trimtab.cli.top_rows import SORTS, Ranking, top_jobs
from trimtab.cli.top_view import SECTIONS, View, frame, pressed
from trimtab.model.board import Board
from trimtab.model.people import Role

HALL = a_hall()
ALTERNATE, BACK, SHOW_CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"


@pytest.fixture
def served() -> Iterator[Served]:
    with a_hall_served() as running:
        yield running


def a_terminal(served: Served, *words: str, columns: int = 120, rows: int = 40, token: str = TOKEN) -> Terminal:
    env = {"TRIMTAB_URL": served.url, "TRIMTAB_TOKEN": token}
    return Terminal(*words, columns=columns, rows=rows, env=env)


# --- the picture, without a terminal


def plain(board: Board = HALL, view: View | None = None, columns: int = 120, rows: int | None = 40) -> list[str]:
    return [line.plain for line in frame(Ranking(board), view or View(), columns=columns, rows=rows, age_seconds=1.0)]


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("rows", [6, 10, 24, 40, 90])
def test_it_fits_whatever_the_size(columns: int, rows: int) -> None:
    for section in SECTIONS:
        lines = plain(view=View(section=section), columns=columns, rows=rows)
        assert max(Text(line).cell_len for line in lines) <= columns
        if rows > 8:
            assert len(lines) <= rows


def test_the_worst_nodes_come_first_and_each_state_has_its_own_form() -> None:
    lines = plain()
    first = lines.index(next(line for line in lines if "nodes by worst" in line)) + 1
    names = [line.split()[0] for line in lines[first : first + 3]]
    assert names == ["gpu-13", "gpu-17", "gpu-12"]
    assert "___x____" in lines[first]
    assert "????????" in lines[first + 1]
    assert "F30, no report" in lines[first + 1]


def test_from_100_columns_on_there_are_racks_queues_and_impacts() -> None:
    narrow, wide = "\n".join(plain(columns=80)), "\n".join(plain(columns=120))
    for extra in (" r2 ", "research running", "llama-70b stands still: 32 GPUs."):
        assert (extra in narrow, extra in wide) == (False, True)
    for always in ("gpu-13", "llama-70b", "F31", "R11", "Cordon gpu-13"):
        assert always in narrow


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_has_all_nodes_and_its_reverse_is_another(sort: str) -> None:
    there = [row.name for row in Ranking(HALL).nodes(sort=sort, is_reversed=False)]
    back = [row.name for row in Ranking(HALL).nodes(sort=sort, is_reversed=True)]
    assert sorted(there) == sorted(back) == sorted(node.name for node in HALL.nodes)
    assert there != back


def test_orders_are_what_they_say() -> None:
    hot = [row.temperature_celsius for row in Ranking(HALL).nodes(sort="temperature", is_reversed=False)]
    known = [value for value in hot if value is not None]
    assert known == sorted(known, reverse=True)
    assert hot[len(known) :] == [None] * (len(hot) - len(known))  # what is not known comes last
    idle = [row.activity_ratio for row in Ranking(HALL).nodes(sort="activity", is_reversed=False)]
    assert [value for value in idle if value is not None] == sorted(value for value in idle if value is not None)


def test_jobs_that_findings_hit_come_first_then_those_that_wait_longest() -> None:
    names = [row.name for row in top_jobs(HALL)]
    assert names[:4] == ["llama-70b", "vision-3", "eval-9", "ablate-4"]
    assert [row.activity_ratio for row in top_jobs(HALL) if row.state == "waiting"] == [None, None]


def test_an_empty_cluster_says_so() -> None:
    text = "\n".join(plain(a_board(findings=(), commands=(), snapshot=None)))
    assert "Nothing is wrong." in text
    assert "There is nothing to do." in text


@given(st.lists(st.sampled_from([*"qsrjk ?x\t", "up", "down", "pageup", "pagedown", "home", "backtab", "\x1b[99~"])))
def test_whatever_is_pressed_there_is_a_picture(keys: list[str]) -> None:
    view = View()
    for key in keys:
        view = pressed(view, key)
    assert view.sort in SORTS
    assert view.offset >= 0
    assert 0 < len(plain(view=view, columns=80, rows=24)) <= 24
    assert view.is_over is ("q" in keys)


def test_keys_come_one_at_a_time_however_they_arrive() -> None:
    assert list(keys_of(b"js\x1b[A\x1b[6~q")) == ["j", "s", "up", "pagedown", "q"]
    assert list(keys_of(b"\x1b[1;5C!")) == ["\x1b[1;5C", "!"]
    assert list(keys_of(b"\x1b")) == ["\x1b"]
    assert list(keys_of("é".encode())) == ["é"]


@given(st.lists(st.integers(1, 12), min_size=1))
def test_events_are_found_wherever_the_line_was_cut(cuts: list[int]) -> None:
    whole = b': hi\n\nid: 1\nevent: board\ndata: {"a":1}\n\nevent: other\ndata: no\n\nevent: board\ndata: {"b":2}\n\n'
    chunks, at = [], 0
    while at < len(whole):
        size = cuts[len(chunks) % len(cuts)]
        chunks.append(whole[at : at + size])
        at += size
    assert list(boards(chunks)) == [b'{"a":1}', b'{"b":2}']


# --- in a terminal


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_it_shows_all_four_lists_and_q_leaves_the_terminal_as_it_was(served: Served, columns: int, rows: int) -> None:
    with a_terminal(served, "top", columns=columns, rows=rows) as terminal:
        text = terminal.shows("q quit")
        for part in ("hall-a", "nodes by worst", "gpu-13", "jobs", "llama-70b", "wrong", "F31", "do", "R11"):
            assert part in text
        assert len([line for line in terminal.lines() if line]) <= rows
        terminal.press("q")
        assert terminal.ends() == 0
        assert terminal.raw.count(ALTERNATE) == terminal.raw.count(BACK) == 1
        assert terminal.raw.rindex(SHOW_CURSOR) > terminal.raw.rindex(ALTERNATE)
        assert terminal.modes() == terminal.modes_before
        assert b"Traceback" not in terminal.raw


def test_a_new_board_is_shown_as_it_comes_and_space_holds_the_picture(served: Served) -> None:
    with a_terminal(served, "top") as terminal:
        terminal.shows("F31")
        served.box.publish(replace(HALL, findings=(), cluster="hall-a"))
        terminal.shows("Nothing is wrong.")
        terminal.press(" ")
        terminal.shows("Frozen at")
        served.box.publish(HALL)
        terminal.press("s")
        terminal.shows("nodes by activity")  # the loop went round with the new board there
        assert "F31  critical" not in terminal.text()
        terminal.press(" ")
        terminal.shows("F31  critical")


def test_keys_sort_reverse_choose_scroll_and_help(served: Served) -> None:
    with a_terminal(served, "top", rows=24) as terminal:
        terminal.shows("nodes by worst")
        terminal.press("ssss")
        terminal.shows("nodes by name")
        terminal.press("r")
        terminal.shows("nodes by name reversed")
        terminal.shows("gpu-23")
        terminal.press("jj")
        terminal.until(lambda text: "gpu-21" in text and "gpu-23 " not in text, "two lines further down")
        terminal.press("\t")
        terminal.shows("▸ jobs")
        terminal.press("\x1b[Z")
        terminal.shows("▸ nodes")
        terminal.press("?")
        terminal.shows("the other way round")
        terminal.press("x")
        terminal.shows("nodes by name")


def test_it_follows_the_terminals_size(served: Served) -> None:
    with a_terminal(served, "top", columns=120, rows=40) as terminal:
        terminal.shows("research running")
        terminal.resize(80, 24)
        terminal.until(lambda text: "research running" not in text and "q quit" in text, "the narrow picture")
        assert terminal.lines()[-1].startswith("q quit") or terminal.lines()[-2].startswith("q quit")
        terminal.resize(130, 50)
        terminal.shows("research running")
        terminal.resize(40, 8)
        terminal.until(lambda text: "jobs" not in text and "nodes" in text, "the chosen list alone")


def test_ctrl_c_and_sigterm_end_it_well(served: Served) -> None:
    for end in (lambda one: one.press("\x03"), lambda one: one.process.send_signal(signal.SIGTERM)):
        with a_terminal(served, "top") as terminal:
            terminal.shows("F31")
            end(terminal)
            assert terminal.ends() == 0
            assert terminal.raw.count(BACK) == 1
            assert terminal.modes() == terminal.modes_before
            assert b"Traceback" not in terminal.raw


def test_ctrl_z_gives_the_terminal_back_until_fg(served: Served) -> None:
    with a_terminal(served, "top") as terminal:
        terminal.shows("F31")
        terminal.press("\x1a")
        terminal.until(lambda _: is_stopped(terminal.process.pid), "it is stopped")
        terminal.until(lambda _: terminal.raw.count(BACK) == 1, "the terminal is given back")
        assert terminal.modes() == terminal.modes_before
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.until(lambda _: terminal.raw.count(ALTERNATE) == 2, "it is there again")
        terminal.shows("F31")
        terminal.press("q")
        assert terminal.ends() == 0


def is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - a line of the kernel's
        return file.read().rpartition(")")[2].split()[0] == "T"


def test_a_daemon_that_goes_away_is_waited_for_and_what_is_old_is_said_to_be(served: Served) -> None:
    with a_terminal(served, "top") as terminal:
        terminal.shows("F31")
        served.box.close()
        served.listener.stop()
        text = terminal.shows("What is shown is old.")
        assert "gpu-13" in text
        terminal.press("q")
        assert terminal.ends() == 0


def test_a_token_that_is_revoked_meanwhile_ends_it_with_the_reason(served: Served) -> None:
    _, secret = served.door.passes.give_token(name="vera", role=Role.VIEWER, lasts_seconds=None, by="operator")
    with a_terminal(served, "top", token=secret) as terminal:
        terminal.shows("F31")
        served.door.passes.revoke(1, by="operator")
        served.box.publish(HALL)
        assert terminal.ends() == 4
        assert "does not take this token" in " ".join(terminal.text().split())


def test_a_daemon_that_was_never_there_is_an_error_and_no_picture(served: Served) -> None:
    served.listener.stop()
    with a_terminal(served, "top") as terminal:
        assert terminal.ends() == 3
        assert "does not answer" in terminal.text()
        assert ALTERNATE not in terminal.raw


def test_watch_redraws_in_place_and_leaves_the_last_look_behind(served: Served) -> None:
    with a_terminal(served, "status", "--watch", "0.2s", columns=80, rows=24) as terminal:
        terminal.shows("F31")
        assert "more lines" not in terminal.text()
        served.box.publish(replace(HALL, findings=()))
        terminal.until(lambda text: "F31" not in text and "hall-a" in text, "the new board")
        terminal.press("\x03")
        assert terminal.ends() == 0
        assert (terminal.raw.count(ALTERNATE), terminal.raw.count(BACK)) == (1, 1)
        assert b"hall-a" in terminal.raw[terminal.raw.rindex(BACK) :]


def test_watch_waits_for_a_daemon_that_goes_away(served: Served) -> None:
    with a_terminal(served, "findings", "--watch", "0.2s") as terminal:
        terminal.shows("F31")
        served.listener.stop()
        assert "F31" in terminal.shows("No word from the daemon")
        terminal.press("\x03")
        assert terminal.ends() == 0


# --- questions, and whoever hangs up


@pytest.mark.parametrize("answer", ["n\n", "\x03"])
def test_a_question_answered_with_no_or_ctrl_c_does_nothing_and_is_130(served: Served, answer: str) -> None:
    with a_terminal(served, "approve", "R11") as terminal:
        terminal.shows("Approve these writes?")
        terminal.press(answer)
        assert terminal.ends() == 130
        assert "Nothing was done." in terminal.text()
    assert served.memory.stored[11].state.value == "proposed"


def test_a_question_answered_with_yes_approves(served: Served) -> None:
    with a_terminal(served, "approve", "R11") as terminal:
        terminal.shows("Approve these writes?")
        terminal.press("y\n")
        assert terminal.ends() == 0
    assert served.memory.stored[11].state.value == "approved"


def test_a_reader_that_hangs_up_early_gets_no_traceback(served: Served) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-c", "from trimtab.cli import main; main()", "top"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": "daemon", "TRIMTAB_URL": served.url, "TRIMTAB_TOKEN": TOKEN},
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


# --- in a pipe


def run(served: Served, *words: str, columns: int = 120) -> str:
    env = {"TRIMTAB_URL": served.url, "TRIMTAB_TOKEN": TOKEN, "COLUMNS": str(columns)}
    result = CliRunner().invoke(_root, words, env=env)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_in_a_pipe_it_prints_once_without_colour(served: Served) -> None:
    for columns in (80, 120):
        out = run(served, "top", columns=columns)
        assert max(len(line) for line in out.splitlines()) <= columns
        assert "\x1b" not in out
        assert {"gpu-13", "gpu-23", "llama-70b", "F31", "R11"} <= set(out.split())


def test_json_has_the_same_rows_in_the_same_order(served: Served) -> None:
    told = json.loads(run(served, "top", "--sort", "temperature", "--json"))
    assert [row["name"] for row in told["nodes"]] == [
        row.name for row in Ranking(HALL).nodes(sort="temperature", is_reversed=False)
    ]
    assert [row["name"] for row in told["wrong"]] == ["F31", "F29", "F30"]
