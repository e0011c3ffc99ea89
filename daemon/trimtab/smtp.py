"""The one door to SMTP: a mail handed to the site's server, over TLS, and what the server said about it."""

from __future__ import annotations

import smtplib
import socket
import ssl
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Literal

from trimtab.errors import TrimtabError
from trimtab.handshakes import Keys, sentence_of

KEYS = Keys(address="host of the mail target", ca="its ca_file")

Security = Literal["starttls", "tls", "none"]


class MailRefused(TrimtabError):
    """The server will never take this mail (5xx), or does not know us."""


class MailLater(TrimtabError):
    """Not now: no connection, or the server says so (4xx)."""

    def __init__(self, said: str, *, may_have_arrived: bool = False) -> None:
        """The sentence for people, and whether the mail may have been taken all the same."""
        super().__init__(said)
        self.may_have_arrived = may_have_arrived


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """How to reach the site's mail server. Its text never shows the password."""

    host: str
    port: int = 587
    security: Security = "starttls"
    """`starttls` refuses to go on in the clear."""
    user: str = ""
    ca_file: str = ""
    timeout_seconds: float = 10.0

    def send(self, mail: EmailMessage, *, password: str = "") -> dict[str, str]:
        """Hand over one mail; recipients that were refused while others were taken, each with the server's words.

        Raises MailRefused or MailLater.
        """
        try:
            server = self._connected(password)
        except (OSError, smtplib.SMTPException) as error:
            raise self._translated(error, has_begun=False) from error
        with closing(server):
            try:
                refused = server.send_message(mail)
            except (OSError, smtplib.SMTPException) as error:
                raise self._translated(error, has_begun=True) from error
            # Once the mail is taken, what the server says to our goodbye changes nothing.
            with suppress(smtplib.SMTPException, OSError):
                server.quit()
        return {who: f"{code} {_text(said)}" for who, (code, said) in refused.items()}

    def _connected(self, password: str) -> smtplib.SMTP:
        name = socket.gethostname()
        context = ssl.create_default_context(cafile=self.ca_file or None)
        server: smtplib.SMTP
        if self.security == "tls":
            server = smtplib.SMTP_SSL(
                self.host, self.port, local_hostname=name, timeout=self.timeout_seconds, context=context
            )
        else:
            server = smtplib.SMTP(self.host, self.port, local_hostname=name, timeout=self.timeout_seconds)
        try:
            if self.security == "starttls":
                server.starttls(context=context)
            if self.user:
                server.login(self.user, password)
        except BaseException:
            server.close()
            raise
        return server

    def _translated(self, error: Exception, *, has_begun: bool) -> MailRefused | MailLater:
        if isinstance(error, smtplib.SMTPRecipientsRefused):
            return _by_code(_worst(error.recipients), f"{self.host} refused every recipient")
        if isinstance(error, smtplib.SMTPResponseException):
            return _by_code((error.smtp_code, error.smtp_error), f"{self.host} said no")
        if isinstance(error, ssl.SSLCertVerificationError):
            said = sentence_of(error, url=f"https://{self.host}:{self.port}", keys=KEYS, ca_file=self.ca_file)
            return MailRefused(said or f"{self.host}: certificate not trusted ({error.verify_message})")
        if isinstance(error, smtplib.SMTPNotSupportedError):
            return MailRefused(f"{self.host}: {error} See the settings security and user.")
        # smtplib calls a time-out a disconnection, and names it in the text alone.
        kind = "time-out" if isinstance(error, TimeoutError) or "timed out" in str(error) else type(error).__name__
        return MailLater(f"no mail connection to {self.host}: {kind}", may_have_arrived=has_begun)


def _by_code(answer: tuple[int, bytes | str], what: str) -> MailRefused | MailLater:
    code, said = answer
    sentence = f"{what}: {code} {_text(said)}"
    return MailLater(sentence) if 400 <= code < 500 or code < 0 else MailRefused(sentence)


def _worst(recipients: dict[str, tuple[int, bytes]]) -> tuple[int, bytes]:
    """A refusal for now, if there is one: then a later try may reach somebody."""
    return min(recipients.values(), key=lambda answer: answer[0])


def _text(said: bytes | str) -> str:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return " ".join(text.split())[:200]
