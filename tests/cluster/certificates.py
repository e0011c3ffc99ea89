"""Certificates of the test planes: one CA and server certificate per machine, since Kueue reads two fixed paths."""

from __future__ import annotations

import fcntl
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Beside the fixed paths and not in a cache: two users' caches would else overwrite each other's certificates there.
MACHINE_FOLDER = Path("/etc/kueue/trimtab-tests")
KUEUE_FOLDERS = (Path("/etc/kueue/metrics/certs"), Path("/visibility"))
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default.svc", "visibility-server.kueue-system.svc")
CA_NAME = "trimtab-tests-ca"
_CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
CA_DAYS, SERVER_DAYS, RENEW_DAYS = 3650, 365, 30


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def read(cls, folder: Path, name: str) -> Signed:
        """What `write` wrote."""
        key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(certificate=x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes()), key=key)

    def write(self, folder: Path, name: str) -> None:
        """Write NAME.crt and NAME.key."""
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _replace(folder / f"{name}.key", key, mode=0o600)
        _replace(folder / f"{name}.crt", self.certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


def machine_folder(home: Path = MACHINE_FOLDER, kueue_folders: Sequence[Path] = KUEUE_FOLDERS) -> Path:
    """Folder with ca.crt, tls.crt and tls.key, made or renewed when needed; Kueue's fixed paths hold the same."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _days_left(home / "ca.crt") < SERVER_DAYS + RENEW_DAYS:
            sign(CA_NAME, days=CA_DAYS).write(home, "ca")
            (home / "tls.crt").unlink(missing_ok=True)
        if _days_left(home / "tls.crt") < RENEW_DAYS:
            # The CA stays, so planes that run go on trusting what they read.
            sign("localhost", issuer=Signed.read(home, "ca"), names=SERVER_NAMES).write(home, "tls")
        for folder in kueue_folders:
            _copy(home, folder)
    return home


def front_proxy(folder: Path) -> None:
    """Write the CA and client certificate by which the API server proves itself to aggregated APIs."""
    ca = sign("front-proxy-ca", days=SERVER_DAYS)
    ca.write(folder, "front-proxy-ca")
    sign("front-proxy-client", issuer=ca, is_client=True).write(folder, "front-proxy-client")


def service_account_keys(folder: Path) -> None:
    """Write the pair that signs service account tokens."""
    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _replace(folder / "service-account.key", private, mode=0o600)
    _replace(folder / "service-account.pub", public, mode=0o644)


def sign(
    name: str,
    *,
    issuer: Signed | None = None,
    names: tuple[str, ...] = (),
    is_client: bool = False,
    days: int = SERVER_DAYS,
) -> Signed:
    """A CA when nobody issues it, else a server or client certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    if issuer is None:
        builder = builder.add_extension(_CA_USAGE, critical=True)
    else:
        # Python 3.13 verifies strictly, and then asks for the issuer's key identifier.
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
        builder = builder.add_extension(issued_by, critical=False)
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if names:
        alternatives = [*map(x509.DNSName, names), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return Signed(certificate=builder.sign(issuer.key if issuer else key, hashes.SHA256()), key=key)


def _days_left(path: Path) -> float:
    if not path.exists() or not path.with_suffix(".key").exists():
        return 0.0
    ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    return (ends - datetime.now(UTC)).total_seconds() / 86400


def _copy(home: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "tls.crt"
    if target.exists() and not _is_ours(target):
        raise RuntimeError(f"{target} is not from these tests: a real Kueue's? Move it away, or run on another machine")
    for name in ("tls.key", "tls.crt"):
        content = (home / name).read_bytes()
        if not (folder / name).exists() or (folder / name).read_bytes() != content:
            _replace(folder / name, content, mode=0o600 if name.endswith("key") else 0o644)


def _is_ours(path: Path) -> bool:
    issuer = x509.load_pem_x509_certificate(path.read_bytes()).issuer
    return issuer.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == CA_NAME


def _replace(path: Path, content: bytes, *, mode: int) -> None:
    """Write whole or not at all: a plane that runs may be reading it."""
    draft = path.with_suffix(path.suffix + ".draft")
    draft.write_bytes(content)
    draft.chmod(mode)
    draft.rename(path)
