"""An enrolled node's sender shows the certificate of the credential that it sends by, also after many renewals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.fakes.clock import FakeClock
from tests.tls.certificates import Hall

from trimtab.ship.sender import Sender
from trimtab.ship.spool import Spool


@dataclass
class Renewed:
    """A keyring whose files have a new name at each renewal, the former ones gone."""

    hall: Hall
    token: str = ""
    client_file: str = ""
    trouble: str = ""

    @property
    def ca_file(self) -> str:
        return self.hall.ca_file

    def renew(self, number: int) -> None:
        files = self.hall.client("gpu-00")
        both = Path(files["certificate_file"]).read_bytes() + Path(files["key_file"]).read_bytes()
        if self.client_file:
            Path(self.client_file).unlink()
        self.client_file = str(self.hall.directory / f"client-{number}.pem")
        Path(self.client_file).write_bytes(both)
        self.token = f"trimtab_node_{number}"

    def was_taken(self) -> None:
        """Nothing was."""

    def ask_renewal(self) -> None:
        """Not here."""


def test_each_renewed_certificate_is_shown(tmp_path: Path):
    keys, spool = Renewed(Hall(tmp_path / "hall")), Spool(tmp_path / "spool", 10**6)
    sender = Sender(spool=spool, urls=["https://127.0.0.1:1"], token=None, clock=FakeClock(), keys=keys)
    for number in range(1, 4):
        keys.renew(number)
        sender.tick()
        assert (sender.trust.is_shown, sender.trust.files.certificate_file) == (True, keys.client_file)
    sender.close()
    spool.close()
