"""The listener says at once what would leave a daemon deaf."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette

from trimtab.errors import SettingsError
from trimtab.listener import Listener

TLS = Path(__file__).parent / "fixtures" / "tls"


def a_listener(**given: str) -> Listener:
    return Listener(Starlette(), name="people", listen="127.0.0.1:0", **given)


def test_a_certificate_that_cannot_be_read_is_said_before_anything_starts(tmp_path: Path):
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for certificate in (tmp_path / "missing.pem", broken):
        with pytest.raises(SettingsError, match=r"people\.certificate_file = .*Both must be PEM files"):
            a_listener(certificate_file=str(certificate), key_file=str(TLS / "server.key"))


def test_certificate_and_key_go_together():
    for alone in ("certificate_file", "key_file"):
        with pytest.raises(SettingsError, match="go together"):
            a_listener(**{alone: str(TLS / "server.pem")})


def test_a_listener_tells_whether_it_listens():
    listener = a_listener(certificate_file=str(TLS / "server.pem"), key_file=str(TLS / "server.key"))
    assert not listener.is_alive
    listener.start()
    assert listener.is_alive
    listener.stop()
    assert not listener.is_alive
