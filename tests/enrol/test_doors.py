"""What a node is told at the listener, over real HTTP and TLS: each no with its sentence and its number."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from starlette.responses import Response
from tests.enrol.desk import Office, a_key
from tests.enrol.gate import Gate

from trimtab import pki
from trimtab.clock import SystemClock
from trimtab.listener import Listener
from trimtab.outbound import Answer, exchange
from trimtab.ship.admission import Entry, NotAdmitted, ask, daemon_ca
from trimtab.ship.join_token import secret_of
from trimtab.ship.keyring import Keyring
from trimtab.ship.membership import Membership, Whereabouts


@pytest.fixture
def gate_of(office: Office) -> Iterator[Callable[..., Gate]]:
    """Gates that are closed at the end."""
    opened: list[Gate] = []

    def open_one(**how: object) -> Gate:
        opened.append(Gate(office, **how))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for gate in opened:
        gate.close()


def enter(gate: Gate, token: str, node: str, *, path: str = "/v1/enroll", cluster: str = "", csr: str = "") -> str:
    """A new key that has come in by it; the sentence of a no is raised."""
    key = a_key()
    entry = Entry(node=node, cluster=cluster, sha256=key.sha256, csr_pem=csr)
    ask(gate.url, path, entry, token=secret_of(token), ca_file="")
    return key.token


def no(gate: Gate, token: str, node: str, **more: str) -> tuple[int, str, str]:
    with pytest.raises(NotAdmitted) as caught:
        enter(gate, token, node, **more)
    return caught.value.status, caught.value.reason, str(caught.value)


def post(gate: Gate, path: str, body: bytes, *, token: str = "x") -> Answer:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return exchange("POST", gate.url + path, body=body, headers=headers, timeout_seconds=10.0)


def invited(gate: Gate, node: str, **more: object) -> str:
    return gate.registrar.invite([node], by="anna", **more)[0].token  # type: ignore[arg-type]


def test_each_no_has_its_number_and_its_sentence_and_is_told_to_the_audit(gate_of: Callable[..., Gate]) -> None:
    gate = gate_of()
    token = invited(gate, "gpu-07")
    assert no(gate, token, "gpu-08")[:2] == (403, "other_node")
    enter(gate, token, "gpu-07")
    assert no(gate, token, "gpu-07")[:2] == (409, "used")
    assert no(gate, "trimtab_join_" + "x" * 43, "gpu-07")[:2] == (401, "unknown")
    assert no(gate, invited(gate, "gpu-09", lasts_seconds=1e-6), "gpu-09")[:2] == (403, "expired")
    assert no(gate, token, "gpu-07", cluster="hall-z")[:2] == (403, "other_cluster")
    gate.registrar.revoke("gpu-07", by="anna", why="sold")
    assert [what for what, _ in gate.refusals] == ["refused a join"] * 4
    assert [why.partition(":")[0] for _, why in gate.refusals] == ["gpu-08", "gpu-07", "gpu-07", "gpu-09"]
    assert gate.desk.answers_total == {
        "joined": 1,
        "renewed": 0,
        "other_node": 1,
        "used": 1,
        "unknown": 1,
        "expired": 1,
        "other_cluster": 1,
    }


def test_a_credential_says_why_it_opens_nothing(gate_of: Callable[..., Gate]) -> None:
    gate = gate_of()
    held = enter(gate, invited(gate, "gpu-07"), "gpu-07")
    assert post(gate, "/v1/reports", b"", token=held).status != 401
    gate.registrar.revoke("gpu-07", by="anna", why="sold")
    gate.sync()
    answer = post(gate, "/v1/reports", b"", token=held)
    assert answer.status == 401
    assert b"was revoked at" in answer.body
    assert b"by anna (sold)" in answer.body
    assert no(gate, held, "gpu-07", path="/v1/renew")[:2] == (401, "revoked")
    unknown = post(gate, "/v1/reports", b"", token="trimtab_node_" + "x" * 43)
    assert (unknown.status, b"trimtab enroll NODE" in unknown.body) == (401, True)


def test_a_node_that_joins_is_known_before_it_hears_of_it(gate_of: Callable[..., Gate]) -> None:
    gate, elsewhere = gate_of(), gate_of()
    held = enter(gate, invited(gate, "gpu-07"), "gpu-07")
    assert gate.enrolled.node_of(held) == "gpu-07"
    # The other daemon looks into the database for a token that it does not know.
    assert elsewhere.enrolled.node_of(held) is None
    while not elsewhere.enrolled.can_ask(held):
        pass
    assert post(elsewhere, "/v1/reports", b"", token=held).status != 401


def test_who_is_often_wrong_waits_and_who_is_right_does_not(gate_of: Callable[..., Gate]) -> None:
    gate = gate_of(failures_per_peer=3)
    for node in ("gpu-01", "gpu-02", "gpu-03", "gpu-04", "gpu-05"):
        enter(gate, invited(gate, node), node)
    statuses = [no(gate, "trimtab_join_" + "x" * 43, "gpu-07")[0] for _ in range(4)]
    assert statuses == [401, 401, 401, 429]
    with pytest.raises(NotAdmitted, match="Too many wrong attempts") as caught:
        enter(gate, invited(gate, "gpu-06"), "gpu-06")
    assert caught.value.retry_after_seconds > 0
    assert not caught.value.is_final


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 422, b"The body is not right"),
        (b"[]", 422, b"The body is not right"),
        (msgspec.json.encode({"node": "gpu-07"}), 422, b"sha256"),
        (msgspec.json.encode({"node": "gpu-07", "sha256": "G" * 64}), 422, b"no SHA-256"),
        (msgspec.json.encode({"node": "x" * 300, "sha256": "a" * 64}), 422, b"node"),
        (b"x" * 70_000, 413, b"larger than"),
        (b"\xff\xfe" * 30, 422, b"The body is not right"),
    ],
)
def test_a_body_that_is_none_is_refused(gate_of: Callable[..., Gate], body: bytes, status: int, said: bytes) -> None:
    for path in ("/v1/enroll", "/v1/renew"):
        answer = post(gate_of(), path, body)
        assert (answer.status, said in answer.body) == (status, True), answer.body


def test_without_a_token_nobody_is_asked_for_a_name(gate_of: Callable[..., Gate]) -> None:
    gate = gate_of()
    answer = exchange("POST", f"{gate.url}/v1/enroll", body=b"{}", headers={}, timeout_seconds=10.0)
    assert (answer.status, b"Send the join token" in answer.body) == (401, True)
    assert exchange("GET", f"{gate.url}/v1/ca", body=None, headers={}, timeout_seconds=10.0).status == 404


# --- with the daemon's own CA


@pytest.fixture(scope="module")
def authority() -> pki.Authority:
    return pki.Authority.make(cluster="hall-a", clock=SystemClock())


@pytest.fixture
def server(authority: pki.Authority, tmp_path: Path) -> tuple[Path, Path]:
    pair = authority.issue_server(["127.0.0.1"])
    (tmp_path / "server.pem").write_bytes(pair.certificate_pem)
    (tmp_path / "server.key").write_bytes(pair.key_pem)
    return tmp_path / "server.pem", tmp_path / "server.key"


def test_a_token_vouches_for_the_daemons_ca_and_the_node_gets_a_certificate(
    gate_of: Callable[..., Gate], authority: pki.Authority, server: tuple[Path, Path], tmp_path: Path
) -> None:
    gate = gate_of(authority=authority, server=server)
    token = invited(gate, "gpu-07")
    secret, _, fingerprint = token.partition(".")
    ca_pem = daemon_ca(gate.url, fingerprint)
    assert ca_pem.encode() == authority.certificate_pem
    (tmp_path / "ca.pem").write_text(ca_pem)
    key, own = a_key(), pki.new_key()
    entry = Entry(node="gpu-07", cluster="", sha256=key.sha256, csr_pem=pki.request_for(own, "gpu-99").decode())
    admission = ask(gate.url, "/v1/enroll", entry, token=secret, ca_file=str(tmp_path / "ca.pem"))
    certificate = pki.certificate_of(admission.certificate_pem.encode())
    assert pki.node_of(certificate) == "gpu-07"  # whatever the request said
    assert admission.ca_pem == ca_pem
    again = ask(gate.url, "/v1/enroll", entry, token=secret, ca_file=str(tmp_path / "ca.pem"))
    assert again.certificate_pem == admission.certificate_pem


def test_a_ca_that_the_token_does_not_vouch_for_is_not_believed(
    gate_of: Callable[..., Gate], authority: pki.Authority, server: tuple[Path, Path]
) -> None:
    gate = gate_of(authority=authority, server=server)
    other = pki.Authority.make(cluster="hall-a", clock=SystemClock()).fingerprint
    with pytest.raises(NotAdmitted, match="has another CA than the join token says") as caught:
        daemon_ca(gate.url, other)
    assert (caught.value.reason, caught.value.is_final) == ("other_ca", True)
    with pytest.raises(NotAdmitted, match=r"certificate verify failed|is not trusted here"):
        ask(gate.url, "/v1/enroll", Entry(node="gpu-07", cluster="", sha256="a" * 64), token="x", ca_file="")


@pytest.mark.parametrize("order", [1, -1])
def test_another_ca_beside_the_one_that_the_token_vouches_for_is_never_trusted(
    authority: pki.Authority, server: tuple[Path, Path], order: int
) -> None:
    others = (pki.Authority.make(cluster="hall-a", clock=SystemClock()) for _ in range(100))
    # Base64 that ends in padding: a decoder may stop there and see one certificate, where TLS sees two.
    ours = next(one for one in others if b"=\n-----END" in one.certificate_pem)
    both = b"".join((ours.certificate_pem, authority.certificate_pem)[::order])

    async def app(scope, receive, send):  # type: ignore[no-untyped-def] # ASGI
        await Response(both)(scope, receive, send)

    listener = Listener(app, name="ingest", listen="127.0.0.1:0", certificate_file=str(server[0]),
                        key_file=str(server[1]))  # fmt: skip
    listener.start()
    try:
        taken = daemon_ca(f"https://127.0.0.1:{listener.port}", ours.fingerprint)
    except NotAdmitted:
        return  # what is no single certificate may be refused whole
    finally:
        listener.stop()
    assert taken.encode() == ours.certificate_pem


def test_where_client_certificates_are_required_a_stolen_token_alone_is_not_renewed(
    gate_of: Callable[..., Gate], authority: pki.Authority, server: tuple[Path, Path], tmp_path: Path
) -> None:
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(authority.certificate_pem)
    gate = gate_of(authority=authority, server=server, client_ca_file=str(ca_file))
    token = invited(gate, "gpu-07")
    where = Whereabouts(urls=(gate.url,), node="gpu-07", cluster="")
    node = Membership(Keyring(tmp_path / "kept"), where, clock=SystemClock(), join_token=lambda: token)
    node.tick()
    assert node.client_file
    thief = Entry(
        node="gpu-07", cluster="", sha256=a_key().sha256, csr_pem=pki.request_for(pki.new_key(), "x").decode()
    )
    with pytest.raises(NotAdmitted, match="Show this node's client certificate") as caught:
        ask(gate.url, "/v1/renew", thief, token=node.token, ca_file=str(ca_file))
    assert (caught.value.status, caught.value.reason) == (401, "client_certificate")
    before = node.token
    node.ask_renewal()
    node.tick()
    assert (node.trouble, node.token != before) == ("", True)


def test_a_request_that_nobody_signed_gets_no_certificate_and_uses_nothing_up(
    gate_of: Callable[..., Gate], authority: pki.Authority, server: tuple[Path, Path], tmp_path: Path
) -> None:
    gate = gate_of(authority=authority, server=server)
    token = invited(gate, "gpu-07")
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    entry = Entry(node="gpu-07", cluster="", sha256="a" * 64, csr_pem="no request")
    with pytest.raises(NotAdmitted, match="csr: this is no signing request"):
        ask(gate.url, "/v1/enroll", entry, token=secret_of(token), ca_file=str(tmp_path / "ca.pem"))
    assert gate.office.facts.join_tokens()[-1].used_at is None
    assert ssl.create_default_context(cafile=str(tmp_path / "ca.pem")) is not None
