"""A real SMTP server of the test's own: STARTTLS, sign-in, and answers to give first."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword


class Mailbox:
    """Takes mail, strictly: `first` holds answers to give before any is taken, `unknown` recipients it has not."""

    def __init__(self) -> None:
        self.first: list[str] = []
        self.unknown: dict[str, str] = {}
        self.mails: list[EmailMessage] = []
        self.was_encrypted: list[bool] = []

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address in self.unknown:
            return self.unknown[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        if self.first:
            return self.first.pop(0)
        mail = message_from_bytes(envelope.content, policy=default)
        assert isinstance(mail, EmailMessage)
        if not (mail["Message-ID"] and mail["Date"] and mail["From"]):
            return "550 5.7.1 a mail needs Message-ID, Date and From"
        if len(mail.get_all("Message-ID", [])) != 1 or any(len(line) > 998 for line in envelope.content.splitlines()):
            return "550 5.6.0 not as RFC 5322 wants it"
        self.mails.append(mail)
        self.was_encrypted.append(session.ssl is not None)
        return "250 OK"


@contextmanager
def serving_mail(mailbox: Mailbox, certificate: Path | None, *, user: str = "", password: str = "") -> Iterator[int]:
    """Run it on a port of its own. With a certificate nothing is taken before STARTTLS."""
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")

    def sign_in(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        is_right = (data.login, data.password) == (user.encode(), password.encode())
        return AuthResult(success=is_right, handled=False)

    # The controller knocks at its own port by number, so that it cannot be left to the kernel.
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    controller = Controller(
        mailbox,
        hostname="127.0.0.1",
        port=port,
        tls_context=context,
        require_starttls=context is not None,
        auth_required=bool(user),
        authenticator=sign_in if user else None,
        ready_timeout=30,
    )
    controller.start()
    try:
        yield port
    finally:
        controller.stop()
