"""The one door to X.509: keys, requests, a small CA of our own, and what a certificate says about itself."""

from __future__ import annotations

import hashlib
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import InvalidVersion
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trimtab.clock import Clock
from trimtab.durable import sync_directory
from trimtab.errors import TrimtabError

CA_DAYS = 3650.0
NODE_DAYS = 30.0
SERVER_DAYS = 90.0
BACKDATED = timedelta(minutes=5)
"""A node whose clock is a little behind must not find its new certificate not yet valid."""
NODE_URI = "urn:trimtab:node:"
"""A client certificate names its node here, percent-encoded; the CN holds 64 characters only."""
CA_FILE, CA_KEY_FILE = "ca.pem", "ca.key"
PEM_BYTES_MAX = 64 * 1024
_CN_BYTES_MAX = 64
_NODE_CHARS_MAX = 253
_LATEST = datetime(9999, 12, 31, tzinfo=UTC)
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")


class CertificateError(TrimtabError):
    """A certificate, key or request cannot be used; the text says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate with its key, both PEM. Its text never shows the key."""

    certificate_pem: bytes
    key_pem: bytes

    def __repr__(self) -> str:
        return f"Pair(certificate of {certificate_of(self.certificate_pem).subject.rfc4514_string()})"


class Authority:
    """A small CA of our own: signs the daemon's server certificate and the nodes' client certificates."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, *, clock: Clock) -> None:
        """Of a certificate and its key, which must belong together."""
        if certificate.public_key() != key.public_key():
            raise CertificateError("the CA's certificate and key do not belong together")
        self.certificate = certificate
        self._key = key
        self._clock = clock

    @classmethod
    def make(
        cls, *, cluster: str, clock: Clock, days: float = CA_DAYS, key: ec.EllipticCurvePrivateKey | None = None
    ) -> Authority:
        """A new CA in memory; of this key, where there is one."""
        key = key or new_key()
        # Part of the key is in the name: two CAs of one cluster are told apart by whoever must trust both for a while.
        mark = hashlib.sha256(_public_der(key)).hexdigest()[:8]
        name = _named(f"trimtab CA {mark} of {cluster}")
        now = clock.now()
        builder = (
            _begun(name, name, key.public_key(), now, min(now + timedelta(days=days), _LATEST))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key, clock=clock)

    @classmethod
    def create(cls, directory: Path, *, cluster: str, clock: Clock, days: float = CA_DAYS) -> Authority:
        """A new CA on disk, its key readable by its owner alone. Raises CertificateError where there is one."""
        if (directory / CA_FILE).exists():
            raise CertificateError(f"{directory} holds a CA already")
        # Ended between the two writes, or its certificate was lost: what the key has signed stays of this CA.
        key = _key_in(directory / CA_KEY_FILE) if (directory / CA_KEY_FILE).exists() else None
        made = cls.make(cluster=cluster, clock=clock, days=days, key=key)
        write_file(directory / CA_KEY_FILE, key_pem(made._key), mode=0o600)
        write_file(directory / CA_FILE, made.certificate_pem, mode=0o644)
        return made

    @classmethod
    def load(cls, directory: Path, *, clock: Clock) -> Authority:
        """The CA that `create` wrote. Raises CertificateError that names the file."""
        certificate, key = read_certificates(directory / CA_FILE)[0], _key_in(directory / CA_KEY_FILE)
        try:
            return cls(certificate, key, clock=clock)
        except CertificateError as error:
            raise CertificateError(f"{directory}: {error}") from error

    @property
    def certificate_pem(self) -> bytes:
        """Its certificate, which whoever is to trust it needs."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its certificate, as a join token carries it."""
        return fingerprint_of(self.certificate)

    @property
    def ends_at(self) -> datetime:
        """When it ends, and everything that it signed with it."""
        return ends_at(self.certificate)

    def has_signed(self, certificate: x509.Certificate) -> bool:
        """Whether a certificate is of this CA."""
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def sign_node(self, csr_pem: bytes, *, node: str, days: float = NODE_DAYS) -> bytes:
        """A client certificate for this node, PEM; of the request only the key counts. Raises CertificateError."""
        if not node or len(node) > _NODE_CHARS_MAX or not node.isprintable():
            raise CertificateError(f"{node!r} is no node name")
        uri = x509.UniformResourceIdentifier(NODE_URI + quote(node, safe=""))
        builder = self._leaf(_named(node), key_of_request(csr_pem), days)
        builder = builder.add_extension(x509.SubjectAlternativeName([uri]), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue_server(self, names: Sequence[str], *, days: float = SERVER_DAYS) -> Pair:
        """A server certificate for these names and addresses, the first as its CN. Raises CertificateError."""
        if not names:
            raise CertificateError("a server certificate needs at least one name or address")
        key = new_key()
        alternative = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = self._leaf(_named(names[0]), key.public_key(), days)
        builder = builder.add_extension(alternative, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate_pem=signed.public_bytes(serialization.Encoding.PEM), key_pem=key_pem(key))

    def _leaf(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: float) -> x509.CertificateBuilder:
        now = self._clock.now()
        if now >= self.ends_at:
            raise CertificateError(f"the CA ended at {self.ends_at:%Y-%m-%d}; make a new one with `trimtab ca create`")
        end = min(now + timedelta(days=days), self.ends_at)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            _begun(subject, self.certificate.subject, key, now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(issuer_key, critical=False)
        )


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new key (P-256)."""
    return ec.generate_private_key(ec.SECP256R1())


def belong_together(certificate: x509.Certificate, key_file: Path) -> bool:
    """Whether the key in a file is the certificate's. Raises CertificateError that names a file that holds none."""
    return _key_in(key_file).public_key() == certificate.public_key()


def _key_in(file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(_read(file), password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{file}: no private key in PEM form") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{file}: not an elliptic-curve key")
    return key


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as a PEM file holds it, without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def request_for(key: ec.EllipticCurvePrivateKey, node: str) -> bytes:
    """A signing request (PEM) for this node's key; who signs decides the names."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_named(node))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def key_of_request(csr_pem: bytes) -> ec.EllipticCurvePublicKey:
    """The key that a signing request is for, its own signature checked. Raises CertificateError."""
    if len(csr_pem) > PEM_BYTES_MAX:
        raise CertificateError(f"the signing request is larger than {PEM_BYTES_MAX} bytes")
    try:
        request = x509.load_pem_x509_csr(csr_pem)
        is_own, key = request.is_signature_valid, request.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidVersion) as error:
        raise CertificateError("this is no signing request in PEM form") from error
    if not is_own:
        raise CertificateError("the signing request is not signed by its own key")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise CertificateError("the signing request's key is not on the curve P-256")
    return key


def certificate_of(pem: bytes) -> x509.Certificate:
    """The first certificate of PEM text. Raises CertificateError."""
    return certificates_of(pem)[0]


def certificate_of_der(der: bytes) -> x509.Certificate:
    """The certificate as a handshake gives it. Raises CertificateError."""
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise CertificateError("it is no certificate") from error


def certificates_of(pem: bytes) -> list[x509.Certificate]:
    """Every certificate of PEM text, at least one. Raises CertificateError."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CertificateError("no certificate in PEM form") from error


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Every certificate of a PEM file, at least one. Raises CertificateError that names the file."""
    held = _read(path)
    try:
        return certificates_of(held)
    except CertificateError as error:
        raise CertificateError(f"{path}: {error}") from error


def fingerprint_of(certificate: x509.Certificate) -> str:
    """SHA-256 of the whole certificate, lower-case hex."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def serial_of(certificate: x509.Certificate) -> str:
    """The serial number, lower-case hex, as a list of revoked ones holds it."""
    return f"{certificate.serial_number:x}"


def starts_at(certificate: x509.Certificate) -> datetime:
    """From when on it is valid."""
    return certificate.not_valid_before_utc


def ends_at(certificate: x509.Certificate) -> datetime:
    """Until when it is valid."""
    return certificate.not_valid_after_utc


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and addresses that a server certificate is for."""
    names = _alternative(certificate)
    if names is None:
        return ()
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def plain_name(name: str) -> str:
    """A name or address as `names_of` gives it back."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def node_of(certificate: x509.Certificate) -> str | None:
    """The node that a client certificate is of: our URI, or else the CN (an operator's own CA)."""
    names = _alternative(certificate)
    uris = names.get_values_for_type(x509.UniformResourceIdentifier) if names is not None else []
    ours = [unquote(uri.removeprefix(NODE_URI)) for uri in uris if uri.startswith(NODE_URI)]
    if ours:
        return ours[0] if len(ours) == 1 else None
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(common[0].value) if len(common) == 1 else None


def write_file(path: Path, data: bytes, *, mode: int) -> None:
    """Write whole or not at all, never readable by more than `mode` says. Raises CertificateError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _make_directory(path.parent)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0:  # made by root for a daemon that is not: it belongs to whom the directory belongs
                owner = path.parent.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CertificateError(f"{path}: {error.strerror}. Run this as the daemon's user, or as root") from error


def _make_directory(directory: Path) -> None:
    if directory.exists():
        return
    _make_directory(directory.parent)
    directory.mkdir(mode=0o750, exist_ok=True)
    if os.geteuid() == 0:
        owner = directory.parent.stat()
        # Not through a link that the directory's owner put in its place meanwhile.
        os.chown(directory, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _alternative(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return None


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    if not name or len(name) > _NODE_CHARS_MAX or set(name.removeprefix("*.")) - _NAME_CHARS:
        raise CertificateError(f"{name!r} is no host name or address")
    return x509.DNSName(name)


def _named(common: str) -> x509.Name:
    short = common.encode()[:_CN_BYTES_MAX].decode(errors="ignore")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, short)])


def _public_der(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
