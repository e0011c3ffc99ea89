"""The machine's certificates: kept, renewed in time under the same CA, and never put over a stranger's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster import certificates


def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "home", tmp_path / "kueue"


def test_they_are_made_once_and_kueue_reads_the_same(tmp_path: Path) -> None:
    home, kueue = folders(tmp_path)
    certificates.machine_folder(home, [kueue])
    first = (home / "tls.crt").read_bytes()
    certificates.machine_folder(home, [kueue])
    assert (home / "tls.crt").read_bytes() == first == (kueue / "tls.crt").read_bytes()


def test_a_server_certificate_near_its_end_is_renewed_under_the_same_ca(tmp_path: Path) -> None:
    home, kueue = folders(tmp_path)
    certificates.machine_folder(home, [kueue])
    ca, first = (home / "ca.crt").read_bytes(), (home / "tls.crt").read_bytes()
    issuer = certificates.Signed.read(home, "ca")
    certificates.sign("localhost", issuer=issuer, days=certificates.RENEW_DAYS - 1).write(home, "tls")
    certificates.machine_folder(home, [kueue])
    assert (home / "ca.crt").read_bytes() == ca
    assert (kueue / "tls.crt").read_bytes() == (home / "tls.crt").read_bytes() != first
    certificates.Signed.read(home, "tls").certificate.verify_directly_issued_by(issuer.certificate)


def test_a_strangers_certificate_is_left_alone(tmp_path: Path) -> None:
    home, kueue = folders(tmp_path)
    kueue.mkdir()
    certificates.sign("somebody").write(kueue, "tls")
    with pytest.raises(RuntimeError, match="is not from these tests"):
        certificates.machine_folder(home, [kueue])
