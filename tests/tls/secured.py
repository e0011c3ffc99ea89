"""A real daemon that serves by its own CA and asks agents for client certificates."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from tests.system.processes import Daemon, verb

from trimtab import pki
from trimtab.clock import SystemClock
from trimtab.outbound import session


class Secured(Daemon):
    """A daemon that serves both listeners by a certificate of its own CA, and asks agents for theirs."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.write_settings(
            f'[ingest]\nlisten = "127.0.0.1:{self.ingest_port}"\nown_certificate = true\n'
            f'client_certificates = "required"\n'
            f'[people]\nlisten = "127.0.0.1:{self.people_port}"\nown_certificate = true\n'
        )
        self.url, self.ingest_url = (url.replace("http:", "https:") for url in (self.url, self.ingest_url))
        self.ca_directory = self.state_directory / "ca"
        self.ca_file = str(self.ca_directory / "ca.pem")
        self.authority: pki.Authority | None = None

    def up(self) -> Secured:
        done = verb("ca", "create", "--settings", str(self.settings_file), home=self.home)
        assert done.returncode == 0, done.stderr
        self.authority = pki.Authority.load(self.ca_directory, clock=SystemClock())
        assert f"SHA-256 {self.authority.fingerprint}" in done.stdout
        self._session = session(timeout_seconds=20, ca_file=self.ca_file)
        super().up()
        return self

    def give(self, node: str, folder: Path) -> dict[str, str]:
        """A node's certificate, as enrolment gives it, and the settings that name its files."""
        assert self.authority is not None
        key = pki.new_key()
        certificate = self.authority.sign_node(pki.request_for(key, node), node=node)
        pki.write_file(folder / f"{node}.crt", certificate, mode=0o644)
        pki.write_file(folder / f"{node}.key", pki.key_pem(key), mode=0o600)
        return {
            "ca_file": self.ca_file,
            "client_certificate_file": str(folder / f"{node}.crt"),
            "client_key_file": str(folder / f"{node}.key"),
        }


def as_toml(settings: dict[str, str]) -> str:
    return "".join(f'{name} = "{value}"\n' for name, value in settings.items())


def serial_at(daemon: Secured, port: int) -> int:
    context = ssl.create_default_context(cafile=daemon.ca_file)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as talking,
    ):
        der = talking.getpeercert(binary_form=True)
    assert der is not None
    return pki.certificate_of_der(der).serial_number
