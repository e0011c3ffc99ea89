"""E-mail: one thread an incident, each mail with an id of its own that is the same on every try."""

from __future__ import annotations

import hashlib
import re
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from trimtab.errors import SettingsError
from trimtab.model.advice import Severity
from trimtab.model.oncall import Message, Target, Thread, Verb
from trimtab.outbound import is_loopback
from trimtab.settings.oncall_targets import EmailSettings
from trimtab.show.catalogue import Catalogue
from trimtab.show.oncall.post import Site
from trimtab.show.oncall.secret import scrubbed
from trimtab.show.oncall.sender import Aimed, Dead, Delivered, TryAgain
from trimtab.show.oncall.text import one_line, plain, title, wants_notice
from trimtab.smtp import MailLater, MailRefused, MailServer

TEXT_BYTES_MAX = 200_000
OWNER = "{owner}"
"""Stands in `to` for whoever owns the workload."""
_LOCAL_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_ADDRESS = re.compile(rf"{_LOCAL_PART.pattern}@[A-Za-z0-9][A-Za-z0-9.-]{{0,250}}")


class Email(Aimed):
    """Some people, by the site's mail server. Mailboxes drop repeats by Message-ID, most of them."""

    def __init__(self, name: str, settings: EmailSettings, site: Site) -> None:
        """Raises SettingsError for a password that cannot be read or would travel in the clear."""
        super().__init__(Target(name=name, kind="email", locale=settings.locale))
        if settings.security == "none" and not is_loopback(settings.host) and not settings.allow_plaintext:
            raise SettingsError(
                f'oncall.targets.{name}: security = "none" is for a mail server on this host, or with allow_plaintext.'
            )
        if bool(settings.user) != bool(settings.password_file):
            raise SettingsError(f"oncall.targets.{name}: user and password_file go together.")
        if settings.proxy_url or settings.proxy_url_file:
            raise SettingsError(f"oncall.targets.{name}: mail goes by no proxy; name a relay as host.")
        self._settings = settings
        self._password = site.secret(name, settings.password_file)
        self._server = MailServer(
            host=settings.host,
            port=settings.port,
            security=settings.security,
            user=settings.user,
            ca_file=str(site.directory / settings.ca_file) if settings.ca_file else "",
            timeout_seconds=settings.timeout_seconds,
        )

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        """Hand one mail over."""
        if not self._recipients(message):
            raise Dead(f"{message.owner or 'nobody'} owns what this is about, and that is no name to write to: see to")
        mail = self.mail(message)
        try:
            refused = self._server.send(mail, password=self._password.value if self._password else "")
        except MailLater as error:
            raise TryAgain(self._scrubbed(str(error)), may_have_arrived=error.may_have_arrived) from None
        except MailRefused as error:
            raise Dead(self._scrubbed(str(error))) from None
        remark = "; ".join(f"{who}: {said}" for who, said in sorted(refused.items()))
        return Delivered(remote_id=mail["Message-ID"], remark=f"not to {remark}" if remark else "")

    def mail(self, message: Message) -> EmailMessage:
        """The mail itself."""
        mail = EmailMessage(policy=SMTP)
        user, _, domain = self._settings.sender.partition("@")
        mail["From"] = Address(display_name=f"trimtab {one_line(message.cluster)}", username=user, domain=domain)
        mail["To"] = ", ".join(self._recipients(message))
        mail["Subject"] = title(message)
        mail["Date"] = format_datetime(message.at)
        # The root's id follows from the incident alone: the thread survives whatever we may forget.
        root = _mail_id(message.key, domain)
        is_root = message.verb is Verb.OPEN
        mail["Message-ID"] = root if is_root else _mail_id(message.id, domain)
        if not is_root and message.verb is not Verb.NOTE:
            mail["In-Reply-To"] = root
            mail["References"] = root
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Auto-Response-Suppress"] = "All"
        if message.severity is Severity.CRITICAL and wants_notice(message):
            mail["Importance"] = "high"
        mail.set_content(f"{plain(message, TEXT_BYTES_MAX)}\n\n-- \n{self._reason(message)}\n")
        if message.html:
            mail.add_alternative(message.html, subtype="html")
        return mail

    def _recipients(self, message: Message) -> list[str]:
        """Who is written to; names of owners come from other people's objects, and only plain ones are taken."""
        found: dict[str, None] = {}
        owners = [owner.strip() for owner in message.owner.split(",")]
        for one in self._settings.to:
            if OWNER not in one:
                found[one] = None
                continue
            form = _ADDRESS if one == OWNER else _LOCAL_PART
            found |= dict.fromkeys(one.replace(OWNER, owner) for owner in owners if form.fullmatch(owner))
        return list(found)

    def _reason(self, message: Message) -> str:
        return Catalogue(message.locale).say("oncall-mail-reason", target=self.name, incident=message.key)

    def _scrubbed(self, text: str) -> str:
        return scrubbed(text, self._password.lines) if self._password else text


def _mail_id(of: str, domain: str) -> str:
    return f"<trimtab.{hashlib.sha256(of.encode()).hexdigest()[:32]}@{domain}>"
