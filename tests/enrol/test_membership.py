"""The agent's side: when it joins, renews, waits and gives up on nothing; with a clock that is moved."""

from __future__ import annotations

import random
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.enrol.desk import Office
from tests.enrol.gate import Gate
from tests.fakes.clock import FakeClock

from trimtab.clock import SystemClock
from trimtab.errors import SettingsError
from trimtab.joining import join_once, joined
from trimtab.model.enrolment import JoinAsked
from trimtab.settings import AgentSettings
from trimtab.ship.admission import NotAdmitted
from trimtab.ship.join_token import digest_of
from trimtab.ship.keyring import CREDENTIAL_FILE, PENDING_FILE, TROUBLE_FILE, Keyring
from trimtab.ship.membership import REFUSED_SECONDS, Membership, Whereabouts

NODE = "gpu-07"


@pytest.fixture
def gate(office: Office) -> Iterator[Gate]:
    opened = Gate(office)
    yield opened
    opened.close()


class Node:
    """One agent's membership, with a clock of its own and a join token that is put there."""

    def __init__(self, gate: Gate, directory: Path, *, urls: tuple[str, ...] | None = None, seed: int = 1) -> None:
        self.clock = FakeClock(SystemClock().now())
        self.token: str | None = None
        self.directory, self.gate, self.used_up = directory, gate, 0
        where = Whereabouts(urls=urls or (gate.url,), node=NODE, cluster=gate.office.facts.cluster)
        self.membership = Membership(
            Keyring(directory),
            where,
            clock=self.clock,
            join_token=lambda: self.token,
            used_up=self._used_up,
            jitter=random.Random(seed),
        )

    def _used_up(self) -> None:
        self.used_up += 1

    def invite(self, **more: object) -> None:
        self.token = self.gate.registrar.invite([NODE], by="anna", **more)[0].token  # type: ignore[arg-type]

    def comes_in(self) -> bool:
        return self.gate.enrolled.node_of(self.membership.token) == NODE


@pytest.fixture
def node(gate: Gate, tmp_path: Path) -> Node:
    return Node(gate, tmp_path / "credential")


def test_a_node_joins_when_there_is_a_token_and_not_before(node: Node) -> None:
    assert node.membership.tick().startswith("not enrolled: there is no join token")
    node.invite()
    node.clock.advance(1.0)
    assert node.membership.tick().startswith(f"enrolled as {NODE} until ")
    assert node.comes_in()
    assert (node.used_up, node.membership.trouble) == (1, "")
    assert [file.name for file in node.directory.iterdir()] == [CREDENTIAL_FILE]
    assert stat.S_IMODE((node.directory / CREDENTIAL_FILE).stat().st_mode) == 0o600
    before = node.membership.token
    node.membership.tick()  # the token still lies there: it is used up, and asked about no more
    assert node.membership.token == before
    assert set(node.gate.desk.answers_total) == {"joined", "renewed"}


def test_a_secret_is_on_disk_before_the_daemon_hears_of_it_and_the_daemon_never_does(node: Node) -> None:
    node.gate.close()
    node.invite()
    node.membership.tick()
    assert "out of reach" in node.membership.trouble
    pending = Keyring(node.directory).pending
    assert pending is not None
    assert pending.token.startswith("trimtab_node_")
    assert pending.token not in repr(pending)
    assert pending.token not in repr(node.gate.office.facts.credentials())


def test_a_refusal_is_asked_about_slowly_but_a_new_token_is_tried_at_once(node: Node) -> None:
    node.invite(lasts_seconds=1e-6)
    node.membership.tick()
    assert "ran out at" in node.membership.trouble
    assert (node.directory / TROUBLE_FILE).read_text() == node.membership.trouble
    for _ in range(60):
        node.clock.advance(1.0)
        node.membership.tick()
    assert node.membership.refusals_total == {"expired": 1}
    node.clock.advance(REFUSED_SECONDS * 1.25)
    node.membership.tick()
    assert node.membership.refusals_total == {"expired": 2}
    node.invite()
    node.membership.tick()
    assert node.comes_in()
    assert not (node.directory / TROUBLE_FILE).exists()


def test_what_is_no_join_token_is_said_and_never_sent(node: Node) -> None:
    node.token = "hunter2"
    assert "holds no join token" in node.membership.tick()
    assert set(node.gate.desk.answers_total) == {"joined", "renewed"}


def test_a_credential_is_renewed_well_before_its_end_and_nodes_do_not_come_together(gate: Gate, tmp_path: Path) -> None:
    nodes = [Node(gate, tmp_path / str(number), seed=number) for number in range(12)]
    renewed_after: list[float] = []
    for node in nodes:
        node.invite(is_again=True)
        node.membership.tick()
        first = node.membership.token
        hours = 0
        while node.membership.token == first:
            hours += 1
            node.clock.advance(3600.0)
            node.membership.tick()
        renewed_after.append(hours / 24 / 90)
        assert node.membership.counts.renewed_total == 1
    assert all(0.6 <= share <= 0.76 for share in renewed_after)
    assert len({round(share, 2) for share in renewed_after}) >= 5


def test_the_old_credential_is_kept_until_the_new_one_was_taken(node: Node) -> None:
    node.invite()
    node.membership.tick()
    first = node.membership.token
    node.membership.ask_renewal()
    node.membership.tick()
    kept = node.membership.kept
    assert kept is not None
    assert (kept.token != first, kept.previous_token) == (True, first)
    assert node.comes_in()
    node.membership.was_taken()
    assert Keyring(node.directory).kept.previous_token == ""  # type: ignore[union-attr]


def test_a_daemon_whose_database_is_of_yesterday_lets_the_node_in_by_what_it_had_then(node: Node) -> None:
    node.invite()
    node.membership.tick()
    assert node.comes_in()
    node.membership.ask_renewal()
    node.membership.tick()
    lost = node.gate.office.facts.credentials()[-1]
    with node.gate.office.database.write() as connection:  # the backup is of before the renewal
        connection.exec_driver_sql(f"DELETE FROM node_credentials WHERE id = {lost.id}")
    node.clock.advance(REFUSED_SECONDS + 1.0)
    node.membership.was_refused()
    node.membership.tick()
    assert node.membership.trouble == ""
    assert node.comes_in()


def test_what_another_credential_does_not_mend_is_not_asked_for_again_and_again(node: Node) -> None:
    node.invite()
    node.membership.tick()
    for _ in range(int(REFUSED_SECONDS)):  # the reports are refused for their client certificate, say
        node.clock.advance(1.0)
        node.membership.was_refused()
        node.membership.tick()
    assert node.membership.counts.renewed_total == 0
    for _ in range(10):
        node.clock.advance(1.0)
        node.membership.was_refused()
        node.membership.tick()
    assert node.membership.counts.renewed_total == 1


def test_a_revoked_node_says_so_asks_slowly_and_comes_in_by_a_new_token(node: Node) -> None:
    node.invite()
    node.membership.tick()
    node.gate.registrar.revoke(NODE, by="anna", why="sold")
    node.membership.ask_renewal()
    assert "was revoked at" in node.membership.tick()
    assert node.membership.refusals_total == {"revoked": 1}
    node.invite()
    node.membership.tick()
    assert node.comes_in()


def test_a_join_token_that_is_good_for_nothing_keeps_no_node_from_renewing(node: Node) -> None:
    node.invite()
    first_token = node.token
    node.membership.tick()
    node.invite(is_again=True)
    node.clock.advance(1.0)
    node.membership.tick()
    second = node.membership.token
    node.token = first_token  # it is put there again, by whatever keeps the hosts alike
    node.clock.advance(1.0)
    node.membership.tick()
    assert node.membership.refusals_total == {"used": 1}
    node.clock.advance(80 * 86400.0)
    node.membership.tick()
    assert node.membership.counts.renewed_total == 1
    assert node.membership.token != second
    assert node.comes_in()


def test_a_renewal_whose_answer_was_lost_is_found_after_the_old_credential_ran_out(node: Node) -> None:
    node.invite()
    node.membership.tick()
    kept = node.membership.kept
    assert kept is not None
    pending = Keyring(node.directory).begin("renewal", node=NODE, is_certified=False)
    asked = JoinAsked(token_sha256="", node=NODE, cluster="", sha256=digest_of(pending.token))
    node.gate.registrar.renew(digest_of(kept.token), asked)  # the answer is lost, and then the node is off for long
    old = node.gate.office.facts.credentials()[0]
    with node.gate.office.database.write() as connection:
        connection.exec_driver_sql(f"UPDATE node_credentials SET expires_at_ms = 1 WHERE id = {old.id}")
    again = Node(node.gate, node.directory)
    again.membership.tick()
    assert again.membership.trouble == ""
    assert again.membership.token == pending.token
    assert again.comes_in()


def test_a_daemon_that_cannot_be_asked_is_passed_over(gate: Gate, tmp_path: Path) -> None:
    node = Node(gate, tmp_path / "credential", urls=("http://127.0.0.1:9", gate.url))
    node.invite()
    node.membership.tick()
    assert node.comes_in()


def test_a_crash_between_the_two_writes_leaves_what_is_kept(node: Node) -> None:
    node.invite()
    node.membership.tick()
    kept = (node.directory / CREDENTIAL_FILE).read_bytes()
    secret = node.membership.token.encode()
    (node.directory / PENDING_FILE).write_bytes(b'{"purpose":"x","token":"' + secret + b'"}')
    again = Keyring(node.directory)
    assert again.pending is None
    assert (node.directory / CREDENTIAL_FILE).read_bytes() == kept


def test_a_damaged_credential_is_named_with_its_fix(node: Node) -> None:
    node.directory.mkdir()
    (node.directory / CREDENTIAL_FILE).write_text("{")
    with pytest.raises(SettingsError, match=r"credential\.json is damaged .*trimtab enroll NODE --again"):
        Keyring(node.directory)


# --- what the settings say


def test_an_operators_token_and_enrolment_are_two_answers_to_one_question(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="token_file and join_token_file are both set"):
        joined(AgentSettings(token_file="a", join_token_file="b"), clock=FakeClock())
    assert joined(AgentSettings(token_file="a"), clock=FakeClock()).membership is None
    nothing = AgentSettings(credential_directory=str(tmp_path / "none"))
    assert joined(nothing, clock=FakeClock()).membership is None


def test_a_node_that_was_joined_by_hand_knows_its_daemon_and_cluster(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AgentSettings(
        node=NODE, daemon_urls=(gate.url,), credential_directory=str(tmp_path / "credential"), allow_plaintext=True
    )
    token = gate.registrar.invite([NODE], by="anna")[0].token
    kept = join_once(settings, token=token, clock=SystemClock())
    assert join_once(settings, token=token, clock=SystemClock()) == kept
    found = joined(
        AgentSettings(node=NODE, credential_directory=settings.credential_directory), clock=FakeClock()
    ).settings
    assert (found.daemon_urls, found.cluster) == ((gate.url,), gate.office.facts.cluster)
    with pytest.raises(NotAdmitted, match="knows no such join token") as caught:
        join_once(settings, token="trimtab_join_" + "x" * 43, clock=SystemClock())
    assert caught.value.is_final
    monkeypatch.setenv("TRIMTAB_NODE_TOKEN", "x")
    assert joined(settings, clock=FakeClock()).membership is None


def test_systemd_may_hand_the_token_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed = tmp_path / "run"
    handed.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(handed))
    settings = AgentSettings(credential_directory=str(tmp_path / "credential"), node=NODE)
    assert joined(settings, clock=FakeClock()).membership is None
    (handed / "credentials_join-token").write_text("trimtab_join_" + "x" * 43)
    assert joined(settings, clock=FakeClock()).membership is not None
