"""Agents that show a certificate beside their token: the right one is let in, every other hears why it is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
import requests
from tests.builders import CLUSTER, a_report
from tests.tls.certificates import Hall

from trimtab import pki
from trimtab.clock import SystemClock
from trimtab.listener import Listener
from trimtab.outbound import session
from trimtab.settings import IngestSettings
from trimtab.ship.client_certificates import ClientRule
from trimtab.ship.inbox import Inbox
from trimtab.ship.receiver import ingest_app
from trimtab.ship.tokens import NodeTokens, give_token
from trimtab.ship.wire import MSGPACK, ZSTD, encode_reports
from trimtab.trust import Trust, TrustFiles

NODE = "gpu-00"


class Revoked:
    """The serials that an operator has taken back."""

    def __init__(self) -> None:
        self.serials: set[str] = set()

    def is_revoked(self, serial: str) -> bool:
        return serial in self.serials


class Door:
    """A real ingest listener over TLS, and whoever knocks."""

    def __init__(self, tmp_path: Path, mode: Literal["off", "wanted", "required"]) -> None:
        tmp_path.mkdir(exist_ok=True)
        self.hall, self.revoked, clock = Hall(tmp_path / "hall"), Revoked(), SystemClock()
        self.inbox = Inbox(100)
        tokens_file = tmp_path / "node-tokens.toml"
        self.token = give_token(tokens_file, NODE)[0]
        app = ingest_app(
            inbox=self.inbox,
            tokens=NodeTokens(tokens_file),
            settings=IngestSettings(),
            clock=clock,
            cluster=CLUSTER,
            client_rule=ClientRule(mode, clock=clock, revoked=self.revoked),
        )
        client_ca = {"client_ca_file": self.hall.ca_file} if mode != "off" else {}
        self.listener = Listener(app, name="ingest", listen="127.0.0.1:0", **self.hall.server(), **client_ca)

    @contextmanager
    def open(self) -> Iterator[Door]:
        ended = threading.Event()

        def commit() -> None:
            while not ended.wait(0.01):
                self.inbox.acknowledge(self.inbox.drain())

        thread = threading.Thread(target=commit)
        self.listener.start()
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join(10)
            self.listener.stop()

    def knock(self, client: dict[str, str] | None = None) -> tuple[int, str]:
        trust = Trust(TrustFiles(ca_file=self.hall.ca_file, **(client or {})), clock=_Believing())
        with session(timeout_seconds=20, trust=trust, token=self.token) as asking:
            answer = asking.post(
                f"https://127.0.0.1:{self.listener.port}/v1/reports",
                data=encode_reports([a_report(NODE)]),
                headers={"Content-Type": MSGPACK, "Content-Encoding": ZSTD},
            )
        return answer.status_code, answer.json().get("error", "")


class _Believing(SystemClock):
    """The clock of a client that shows whatever certificate it has, as one of another make would."""

    def now(self):
        return super().now().replace(year=2000)


@pytest.fixture
def required(tmp_path: Path) -> Iterator[Door]:
    with Door(tmp_path / "required", "required").open() as door:
        yield door


@pytest.fixture
def wanted(tmp_path: Path) -> Iterator[Door]:
    with Door(tmp_path / "wanted", "wanted").open() as door:
        yield door


def test_the_nodes_own_certificate_is_let_in(required: Door, wanted: Door):
    for door in (required, wanted):
        assert door.knock(door.hall.client(NODE)) == (200, "")


def test_without_a_certificate_where_one_is_required(required: Door):
    status, said = required.knock()
    assert status == 401
    assert said.startswith(
        "Show this node's client certificate: this daemon takes no report without one (ingest.client_"
    )
    assert said.endswith("or set client_certificate_file and client_key_file in the agent's settings.")


def test_without_a_certificate_where_it_is_wanted_only(wanted: Door):
    assert wanted.knock() == (200, "")


def test_the_certificate_of_another_node(required: Door, wanted: Door):
    for door in (required, wanted):
        status, said = door.knock(door.hall.client("gpu-99"))
        assert (status, said[:72]) == (403, "The client certificate of node gpu-99 was shown with the token of node g")


def test_a_certificate_that_has_ended(required: Door):
    status, said = required.knock(required.hall.client(NODE, at_days=-60, days=30))
    assert status == 401
    assert said.startswith("The client certificate of node gpu-00 ended at 20")
    assert said.endswith("Give the node a new one: `trimtab enroll gpu-00 --again`, or your CA's.")


def test_a_certificate_that_is_not_valid_yet_names_the_clocks(required: Door):
    status, said = required.knock(required.hall.client(NODE, at_days=2))
    assert status == 401
    assert said.startswith("The client certificate of node gpu-00 is not valid before 20")
    assert "one of the two clocks is wrong" in said


def test_a_certificate_that_was_revoked(required: Door):
    client = required.hall.client(NODE)
    assert required.knock(client)[0] == 200
    serial = pki.serial_of(pki.read_certificates(Path(client["certificate_file"]))[0])
    required.revoked.serials.add(serial)
    status, said = required.knock(client)
    assert (status, f"(serial {serial}) was revoked" in said) == (401, True), said


def test_a_certificate_of_another_ca_ends_the_handshake(required: Door, wanted: Door, tmp_path: Path):
    strange = Hall(tmp_path / "strange").client(NODE)
    for door in (required, wanted):
        with pytest.raises(requests.ConnectionError):
            door.knock(strange)
        assert door.knock(door.hall.client(NODE)) == (200, "")  # and nobody else minds


def test_a_server_certificate_is_no_client_certificate(required: Door):
    with pytest.raises(requests.ConnectionError):
        required.knock(required.hall.server("lent"))


def test_no_certificate_is_asked_for_where_the_setting_is_off(tmp_path: Path):
    with Door(tmp_path, "off").open() as door:
        assert door.knock(door.hall.client("gpu-99")) == (200, "")


def test_whoever_has_no_certificate_yet_can_still_ask_how_it_is(required: Door):
    trust = required.hall.trust()
    with session(timeout_seconds=20, trust=trust) as asking:
        assert asking.get(f"https://127.0.0.1:{required.listener.port}/healthz").status_code == 200


def test_a_certificate_alone_is_no_token(required: Door):
    required.token = "trimtab_node_wrong"
    assert required.knock(required.hall.client(NODE))[0] == 401
