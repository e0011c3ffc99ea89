"""Keys, requests and the small CA: what is signed holds up before OpenSSL, and what must not be signed is not."""

from __future__ import annotations

import base64
import stat
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.fakes.clock import FakeClock

from trimtab.clock import SystemClock
from trimtab.pki import (
    Authority,
    CertificateError,
    certificate_of,
    ends_at,
    fingerprint_of,
    names_of,
    new_key,
    node_of,
    request_for,
    serial_of,
    starts_at,
)


@pytest.fixture
def authority() -> Authority:
    return Authority.make(cluster="hall-a", clock=FakeClock())


def openssl_says(purpose: str, ca: bytes, leaf: bytes, folder: Path) -> str:
    (folder / "ca.pem").write_bytes(ca)
    (folder / "leaf.pem").write_bytes(leaf)
    words = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca.pem", "leaf.pem"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_what_the_ca_signs_holds_up_before_openssl_for_its_purpose_alone(tmp_path: Path):
    authority = Authority.make(cluster="hall-a", clock=SystemClock())
    client = authority.sign_node(request_for(new_key(), "gpu-01"), node="gpu-01")
    server = authority.issue_server(["daemon.example", "10.0.0.1", "::1"]).certificate_pem
    assert openssl_says("sslclient", authority.certificate_pem, client, tmp_path) == "leaf.pem: OK\n"
    assert openssl_says("sslserver", authority.certificate_pem, server, tmp_path) == "leaf.pem: OK\n"
    assert "unsuitable certificate purpose" in openssl_says("sslserver", authority.certificate_pem, client, tmp_path)
    assert "unsuitable certificate purpose" in openssl_says("sslclient", authority.certificate_pem, server, tmp_path)
    other = Authority.make(cluster="hall-a", clock=SystemClock())
    assert "unable to get local issuer" in openssl_says("sslclient", other.certificate_pem, client, tmp_path)


@pytest.mark.parametrize("node", ["gpu-01", "a" * 200 + ".example", "knoten-ü", "rack 7/slot%2f"])
def test_a_node_certificate_names_its_node_and_no_other(authority: Authority, node: str):
    certificate = certificate_of(authority.sign_node(request_for(new_key(), "somebody-else"), node=node))
    assert node_of(certificate) == node
    assert names_of(certificate) == ()
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert certificate.extensions.get_extension_for_class(x509.KeyUsage).critical
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_certificate_begins_a_little_early_and_ends_with_its_ca(authority: Authority):
    now = FakeClock().now()
    certificate = certificate_of(authority.sign_node(request_for(new_key(), "n"), node="n", days=2))
    assert starts_at(certificate) == now - timedelta(minutes=5)
    assert ends_at(certificate) == now + timedelta(days=2)
    longest = certificate_of(authority.sign_node(request_for(new_key(), "n"), node="n", days=99999))
    assert ends_at(longest) == authority.ends_at


def test_a_ca_that_has_ended_signs_nothing_and_says_what_to_do():
    clock = FakeClock()
    authority = Authority.make(cluster="c", clock=clock, days=1)
    clock.advance(86401)
    with pytest.raises(CertificateError, match=r"ended at 2026-11-03; make a new one with `trimtab ca create`"):
        authority.issue_server(["a"])


def test_serials_differ_and_are_long(authority: Authority):
    made = [certificate_of(authority.issue_server(["a"]).certificate_pem) for _ in range(4)]
    serials = {serial_of(one) for one in made}
    assert len(serials) == 4
    assert all(one.serial_number.bit_length() > 100 for one in made)


def test_a_server_certificate_is_for_names_and_addresses(authority: Authority):
    pair = authority.issue_server(["trimtab.example", "*.hall.example", "192.0.2.7", "2001:db8::1"])
    assert names_of(certificate_of(pair.certificate_pem)) == (
        "trimtab.example",
        "*.hall.example",
        "192.0.2.7",
        "2001:db8::1",
    )
    assert b"PRIVATE" in pair.key_pem
    assert "PRIVATE" not in repr(pair)


@pytest.mark.parametrize("name", ["", "a b", "ü.example", "a/b", "a*.example", "x" * 300, "a\0b"])
def test_what_is_no_host_name_is_not_signed(authority: Authority, name: str):
    with pytest.raises(CertificateError, match="is no host name or address"):
        authority.issue_server([name])


def a_request(key, name: str = "n") -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_request_of_another_kind_is_refused(authority: Authority):
    with pytest.raises(CertificateError, match="not on the curve P-256"):
        authority.sign_node(a_request(rsa.generate_private_key(public_exponent=65537, key_size=2048)), node="n")
    with pytest.raises(CertificateError, match="not on the curve P-256"):
        authority.sign_node(a_request(ec.generate_private_key(ec.SECP384R1())), node="n")
    with pytest.raises(CertificateError, match="no signing request"):
        authority.sign_node(b"hello", node="n")
    with pytest.raises(CertificateError, match="larger than 65536 bytes"):
        authority.sign_node(b"x" * 100_000, node="n")


def test_a_request_that_its_key_did_not_sign_is_refused(authority: Authority):
    good = x509.load_pem_x509_csr(request_for(new_key(), "n")).public_bytes(serialization.Encoding.DER)
    bent = good[:-1] + bytes([good[-1] ^ 1])
    text = b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(bent) + b"-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(CertificateError, match="not signed by its own key"):
        authority.sign_node(text, node="n")


def test_a_ca_on_disk_is_the_same_after_a_restart_and_its_key_is_its_owners(tmp_path: Path):
    made = Authority.create(tmp_path / "ca", cluster="hall-a", clock=FakeClock())
    read = Authority.load(tmp_path / "ca", clock=FakeClock())
    assert read.fingerprint == made.fingerprint == fingerprint_of(made.certificate)
    assert len(made.fingerprint) == 64
    assert stat.S_IMODE((tmp_path / "ca" / "ca.key").stat().st_mode) == 0o600
    assert "hall-a" in made.certificate.subject.rfc4514_string()
    with pytest.raises(CertificateError, match="holds a CA already"):
        Authority.create(tmp_path / "ca", cluster="hall-a", clock=FakeClock())


def test_a_broken_ca_directory_names_its_file(tmp_path: Path):
    with pytest.raises(CertificateError, match=r"ca\.pem: No such file"):
        Authority.load(tmp_path, clock=FakeClock())
    Authority.create(tmp_path / "a", cluster="a", clock=FakeClock())
    Authority.create(tmp_path / "b", cluster="b", clock=FakeClock())
    (tmp_path / "a" / "ca.key").write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(CertificateError, match=r"/a: the CA's certificate and key do not belong together"):
        Authority.load(tmp_path / "a", clock=FakeClock())
    (tmp_path / "a" / "ca.key").write_text("nothing")
    with pytest.raises(CertificateError, match=r"ca\.key: no private key in PEM form"):
        Authority.load(tmp_path / "a", clock=FakeClock())


def test_an_operators_client_certificate_names_its_node_by_cn():
    key, now = new_key(), FakeClock().now()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpu-09")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    assert node_of(made) == "gpu-09"
    assert serial_of(made) == "7"
