"""People at work on a live daemon, by its API and by the verbs: decide, undo, look; with the exit code of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import requests
from tests import postgres
from tests.system.hall import Hall, hall
from tests.system.processes import eventually, free_port, verb

from trimtab.model.cluster import WorkloadState


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    url = "sqlite:///trimtab.db"
    if request.param == "postgresql":
        server: postgres.PostgresServer = request.getfixturevalue("postgresql")
        url = server.new_database()
    with hall(tmp_path_factory.mktemp("hall"), database_url=url) as made:
        yield made


def test_what_was_approved_and_settled_is_undone_by_the_api(live: Hall) -> None:
    row = live.loses_a_gpu("gpu-00")
    path = f"/api/v1/recommendations/{row.command.id}"
    assert live.daemon.ask("POST", f"{path}/approve", {"fingerprint": row.fingerprint}).status_code == 200
    live.until(row.command.id, "settled")
    cordoned = live.node("gpu-00")
    assert (cordoned.is_cordoned, cordoned.cordoned_by) == (True, row.command.mark)
    job = live.job("gpu-00")
    assert job.state is WorkloadState.RUNNING
    assert "gpu-00" not in live.nodes_of(job)
    assert live.daemon.ask("POST", f"{path}/undo", {"reason": "a drill"}).status_code == 200
    live.until(row.command.id, "undone")
    eventually(lambda: not live.node("gpu-00").is_cordoned, said=live.daemon.tail)
    assert live.held(row) == []
    assert live.nodes_of(live.job("gpu-00")) == live.nodes_of(job)
    again = live.daemon.ask("POST", f"{path}/undo", {"reason": "a drill"})
    assert (again.status_code, "there is nothing to undo" in again.json()["error"]) == (409, True)


def test_what_was_approved_and_settled_is_undone_by_the_verb(live: Hall) -> None:
    row = live.loses_a_gpu("gpu-01")
    name, number = row.name, row.command.id
    code, out, err = live.verb("approve", name)
    assert (code, err) == (0, "")
    assert all(step.text in out for step in row.steps)
    assert f"{name} approved" in out
    live.until(number, "settled")
    assert live.node("gpu-01").is_cordoned
    code, _, err = live.verb("reject", name, "--reason", "too late")
    assert (code, "undo it instead" in err) == (4, True)
    code, out, _ = live.verb("undo", name, "--reason", "a drill", "--json")
    assert (code, json.loads(out)["command"]["reason"]) == (0, "a drill")
    live.until(number, "undone")
    eventually(lambda: not live.node("gpu-01").is_cordoned, said=live.daemon.tail)
    assert live.held(row) == []
    code, _, err = live.verb("undo", name, "--reason", "a drill")
    assert (code, "there is nothing to undo" in err) == (4, True)


def test_what_is_snoozed_or_rejected_touches_nothing_and_is_audited(live: Hall) -> None:
    row = live.loses_a_gpu("gpu-02")
    name, number = row.name, row.command.id
    code, _, err = live.verb("approve", name, "--fingerprint", "0" * 16)
    assert (code, "changed since you saw them" in err) == (4, True)
    assert live.verb("snooze", name, "30m")[0] == 0
    snoozed = live.row(number).command
    assert (snoozed.state, snoozed.snoozed_until is not None) == ("proposed", True)
    assert live.verb("snooze", name, "8d")[0] == 4
    assert live.verb("snooze", name, "a while")[0] == 2
    assert live.verb("reject", name)[0] == 2
    code, out, _ = live.verb("reject", name, "--reason", "it is being repaired", "--json")
    assert (code, json.loads(out)["command"]["state"]) == (0, "rejected")
    for refused in (("approve", name), ("snooze", name, "5m"), ("undo", name, "--reason", "x")):
        assert live.verb(*refused)[0] == 4
    assert live.row(number).command.reason == "it is being repaired"
    code, out, _ = live.verb("history", "--json")
    audited = [line for line in json.loads(out)["lines"] if line["command_id"] == number]
    assert (code, audited[-1]["why"]) == (0, "it is being repaired")
    assert audited[-1]["who"].startswith("operator:")
    assert not live.node("gpu-02").is_cordoned
    assert live.held(row) == []


def test_while_paused_nothing_begins_and_after_it_goes_on(live: Hall) -> None:
    code, out, _ = live.verb("pause", "--reason", "maintenance", "--json")
    assert (code, json.loads(out) is not None) == (0, True)
    row = live.loses_a_gpu("gpu-03")
    live.verb("approve", row.name)
    before = _rebalances(live)
    eventually(lambda: _rebalances(live) >= before + 5, said=live.daemon.tail)
    paused = live.row(row.command.id)
    assert paused.command.state in ("proposed", "approved")
    assert live.daemon.board().is_paused
    assert not live.node("gpu-03").is_cordoned
    assert live.verb("resume")[0] == 0
    if paused.command.state == "proposed":
        assert live.verb("approve", row.name)[0] == 0
    live.until(row.command.id, "settled")
    assert live.node("gpu-03").is_cordoned
    assert not live.daemon.board().is_paused


def _rebalances(live: Hall) -> float:
    page = live.daemon.ask("GET", "/metrics").text
    found = re.search(r'^trimtab_beats_total{beat="rebalance"} (\S+)$', page, re.M)
    assert found is not None, page
    return float(found[1])


def test_every_verb_that_looks_answers_for_people_and_as_json(live: Hall) -> None:
    row = live.loses_a_gpu("gpu-04")
    finding = live.daemon.findings("device_fault")[0]
    name, found = row.name, f"F{finding.id}"
    looks = {
        ("status",): (name, "findings"),
        ("findings",): (found, "findings"),
        ("findings", "--state", "all"): (found, "findings"),
        ("plan",): (name, "recommendations"),
        ("plan", "--all"): (name, "recommendations"),
        ("explain", name): ("GPU-h", "fingerprint"),
        ("explain", found): (finding.finding.sentence, "finding"),
        ("history",): (found, "lines"),
        ("history", "gpu-04", "0", "--since", "1h"): ("temperature", "series"),
    }
    for look, (told, key) in looks.items():
        code, out, err = live.verb(*look)
        assert (code, err, told in out) == (0, "", True), (look, out, err)
        code, out, err = live.verb(*look, "--json")
        assert (code, err, key in json.loads(out)) == (0, "", True), (look, out, err)


def test_doctor_says_with_its_exit_code_whether_all_is_well(live: Hall) -> None:
    code, out, _ = live.verb("doctor", "--json")
    checks = json.loads(out)["checks"]
    assert code == (0 if all(check["is_ok"] for check in checks) else 1)
    assert {check["name"] for check in checks if check["is_ok"]} >= {
        "daemon",
        "inbox",
        "reports",
        *(f"beat {beat}" for beat in ("remember", "judge", "rebalance")),
    }
    assert live.verb("doctor")[0] == code
    code, out, _ = live.verb("doctor", "--settings", str(live.daemon.settings_file))
    assert (code, 'issue.mode = "approve"' in out) == (0, True)


def test_a_link_opens_the_page_once(live: Hall) -> None:
    code, out, _ = live.verb("link")
    assert code == 0
    opened = requests.get(out.strip(), allow_redirects=False, timeout=20)
    assert (opened.status_code, opened.headers["location"], len(opened.cookies)) == (303, "/", 1)
    page = requests.get(live.daemon.url + "/api/v1/board", cookies=opened.cookies, timeout=20)
    assert page.status_code == 200
    assert requests.get(out.strip(), allow_redirects=False, timeout=20).status_code in (401, 403, 404, 410)
    code, out, _ = live.verb("link", "--json")
    assert (code, json.loads(out)["url"].startswith(live.daemon.url + "/open/")) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("explain", "R999"), 4),
        (("explain", "F999"), 4),
        (("approve", "R999"), 4),
        (("approve", "F1"), 2),
        (("explain", "eleven"), 2),
        (("history", "gpu-99", "0"), 4),
        (("history", "gpu-00"), 2),
        (("status", "--token", "not-the-token"), 4),
    ],
)
def test_a_no_of_the_daemon_is_four_and_a_wrong_question_two(live: Hall, arguments: tuple[str, ...], code: int) -> None:
    ended, out, err = live.verb(*arguments)
    assert (ended, out) == (code, "")
    assert err.strip()


def test_release_gives_everything_back_whatever_its_state_and_stays_paused(live: Hall) -> None:
    row = live.loses_a_gpu("gpu-06")
    assert live.verb("approve", row.name)[0] == 0
    live.until(row.command.id, "settled")
    assert live.node("gpu-06").is_cordoned
    code, out, err = live.verb("release", "--all", "--wait", "--reason", "we leave", "--limit", "2m")
    assert (code, err) == (0, ""), out
    assert f"{row.name} settled → undone" in out
    assert "Everything of ours is given back." in out
    assert [node.name for node in live.cluster.snapshot().nodes if node.is_cordoned] == []
    assert live.desk.marks_held() == {}
    assert live.daemon.board().is_paused
    told = live.verb("status")[1]
    assert "we leave" in told
    assert live.verb("resume")[1] == "Resumed.\n"
    eventually(lambda: not live.daemon.board().is_paused, said=live.daemon.tail)
    assert live.verb("allow", "gpu-06")[0] == 4
    assert live.verb("resume", "--rule", "device_fault")[0] == 4


def test_without_a_daemon_a_verb_says_what_to_do(live: Hall) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    done = verb("status", "--url", nobody, "--token", "x", home=live.home)
    assert (done.returncode, f"The daemon at {nobody} does not answer" in done.stderr) == (3, True)
