"""E-mail against a real SMTP server: threads, TLS, sign-in, and which refusals are for good."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
from tests.oncall.mail_receiver import Mailbox, serving_mail
from tests.oncall.scenes import (
    CHINESE_FIRST_LINE,
    FIRST_LINE,
    a_long_chinese_message,
    a_message,
    a_sender,
    a_story,
    own_ca,
    secret_file,
    told,
)

from trimtab.errors import SettingsError
from trimtab.model.advice import Severity
from trimtab.model.oncall import Verb
from trimtab.settings.oncall_targets import EmailSettings
from trimtab.show.oncall.sender import Dead, Sender, TryAgain

PASSWORD = "correct-horse-battery"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    secret_file(tmp_path, "password", PASSWORD)
    return own_ca(tmp_path)


def a_mail_sender(port: int, folder: Path, **more: Any) -> Sender:
    known: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": port,
        "sender": "trimtab@example.com",
        "to": ("night@example.com",),
        "ca_file": "ca.crt",
    }
    return a_sender(EmailSettings(**{**known, **more}), folder)


def test_an_incident_is_one_thread(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, folder) as port:
        told(a_mail_sender(port, folder), a_story())
    root, *replies = mailbox.mails
    assert [mail["In-Reply-To"] for mail in replies] == [root["Message-ID"]] * 3
    assert [mail["References"] for mail in replies] == [root["Message-ID"]] * 3
    assert {mail["Subject"] for mail in mailbox.mails} == {FIRST_LINE}
    assert len({mail["Message-ID"] for mail in mailbox.mails}) == 4
    assert {mail["Auto-Submitted"] for mail in mailbox.mails} == {"auto-generated"}
    assert [mail["Importance"] for mail in mailbox.mails] == ["high", "high", None, None]


def test_it_is_encrypted_and_signed_in(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, folder, user="trimtab", password=PASSWORD) as port:
        a_mail_sender(port, folder, user="trimtab", password_file="password").send(a_message(), None)
    assert mailbox.was_encrypted == [True]


def test_a_mail_sent_twice_has_the_same_id(folder: Path) -> None:
    """Also by another daemon that knows nothing of the first try."""
    mailbox = Mailbox()
    with serving_mail(mailbox, folder) as port:
        for verb in (Verb.OPEN, Verb.OPEN, Verb.UPDATE, Verb.UPDATE):
            a_mail_sender(port, folder).send(a_message(verb), None)
    first, again, update, update_again = mailbox.mails
    assert first["Message-ID"] == again["Message-ID"]
    assert update["Message-ID"] == update_again["Message-ID"] != first["Message-ID"]


def test_the_body_has_it_all_and_says_why_it_came(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, folder) as port:
        a_mail_sender(port, folder).send(a_message(), None)
    (mail,) = mailbox.mails
    lines = mail.get_content().splitlines()
    assert lines[0] == FIRST_LINE
    assert "Open in trimtab: https://trimtab.example/f/31" in lines
    assert "the target night" in lines[-1]
    assert mail["From"] == "trimtab hall-a <trimtab@example.com>"
    assert mail["Date"].datetime == a_message().at


def test_a_long_text_in_chinese_arrives(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, folder) as port:
        a_mail_sender(port, folder).send(a_long_chinese_message(), None)
    (mail,) = mailbox.mails
    assert mail["Subject"] == CHINESE_FIRST_LINE
    assert mail.get_content().splitlines()[0] == CHINESE_FIRST_LINE


def test_a_name_cannot_add_headers(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, folder) as port:
        nasty = "job\r\nBcc: all@example.com"
        a_mail_sender(port, folder).send(a_message(title=nasty, first_line=nasty, cluster="a\r\nb"), None)
    assert mailbox.mails[0]["Bcc"] is None
    assert mailbox.mails[0]["Subject"] == "job Bcc: all@example.com"


def test_not_now_is_tried_again_and_never_is_dead(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, folder) as port:
        sender = a_mail_sender(port, folder)
        mailbox.first = ["451 4.7.1 greylisted, come back", "554 5.7.1 we want none of this"]
        with pytest.raises(TryAgain, match="451") as later:
            sender.send(a_message(), None)
        with pytest.raises(Dead, match="554"):
            sender.send(a_message(), None)
        sender.send(a_message(), None)
    assert not later.value.may_have_arrived
    assert len(mailbox.mails) == 1


def test_who_cannot_be_reached_is_named_and_the_others_are(folder: Path) -> None:
    mailbox = Mailbox()
    mailbox.unknown = {"gone@example.com": "550 5.1.1 no such user"}
    with serving_mail(mailbox, folder) as port:
        sender = a_mail_sender(port, folder, to=("gone@example.com", "night@example.com"))
        assert sender.send(a_message(), None).remark == "not to gone@example.com: 550 5.1.1 no such user"
        nobody = a_mail_sender(port, folder, to=("gone@example.com",))
        with pytest.raises(Dead, match="every recipient"):
            nobody.send(a_message(), None)
        mailbox.unknown["later@example.com"] = "450 4.2.1 mailbox busy"
        with pytest.raises(TryAgain, match="450"):
            a_mail_sender(port, folder, to=("gone@example.com", "later@example.com")).send(a_message(), None)
    assert len(mailbox.mails) == 1


def test_a_wrong_password_is_dead_and_not_shown(folder: Path) -> None:
    with serving_mail(Mailbox(), folder, user="trimtab", password="another") as port:
        sender = a_mail_sender(port, folder, user="trimtab", password_file="password")
        with pytest.raises(Dead, match="535") as caught:
            sender.send(a_message(), None)
    assert PASSWORD not in str(caught.value)


def test_it_never_goes_on_in_the_clear(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, None) as port, pytest.raises(Dead, match="STARTTLS"):
        a_mail_sender(port, folder).send(a_message(), None)
    assert mailbox.mails == []


def test_a_certificate_of_an_unknown_ca_is_refused(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, folder) as port, pytest.raises(Dead, match="Set its ca_file to the certificate"):
        a_mail_sender(port, folder, ca_file="").send(a_message(), None)
    assert mailbox.mails == []


def test_a_relay_on_this_host_may_be_plain(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, None) as port:
        a_mail_sender(port, folder, security="none", ca_file="").send(a_message(), None)
    assert len(mailbox.mails) == 1


def test_nobody_there_is_tried_again(folder: Path) -> None:
    with serving_mail(Mailbox(), folder) as port:
        pass
    with pytest.raises(TryAgain, match="ConnectionRefused") as caught:
        a_mail_sender(port, folder).send(a_message(), None)
    assert not caught.value.may_have_arrived


def test_a_server_that_hangs_up_or_says_nothing_is_tried_again(folder: Path) -> None:
    with create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(TryAgain, match="time-out"):
            a_mail_sender(port, folder, timeout_seconds=0.2).send(a_message(), None)
        thread = threading.Thread(target=lambda: [listener.accept()[0].close() for _ in range(2)])
        thread.start()
        with pytest.raises(TryAgain, match="Disconnected"):
            a_mail_sender(port, folder).send(a_message(), None)
        thread.join()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"security": "none", "host": "mail.example.com"}, "for a mail server on this host"),
        ({"user": "trimtab"}, "go together"),
        ({"user": "trimtab", "password_file": "nothing-here"}, "cannot read"),
    ],
)
def test_settings_that_would_leak_or_fail_are_refused_at_the_start(
    folder: Path, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        a_mail_sender(25, folder, **more)


def test_a_note_is_no_reply_and_a_warning_is_not_urgent(folder: Path) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, folder) as port:
        sender = a_mail_sender(port, folder)
        sender.send(a_message(Verb.NOTE), None)
        sender.send(replace(a_message(), severity=Severity.WARNING), None)
    note, warning = mailbox.mails
    assert note["In-Reply-To"] is None
    assert warning["Importance"] is None


@pytest.mark.parametrize(
    ("to", "owner", "wanted"),
    [
        (("{owner}@example.com",), "lin", "lin@example.com"),
        (("{owner}@example.com", "gpu@example.com"), "lin, wang", "lin@example.com, wang@example.com, gpu@example.com"),
        (("{owner}",), "lin@other.example", "lin@other.example"),
        (("{owner}@example.com", "gpu@example.com"), "x@evil.example\nBcc: y, a b", "gpu@example.com"),
        (("gpu@example.com",), "lin", "gpu@example.com"),
    ],
)
def test_owners_are_written_to_by_name(folder: Path, to: tuple[str, ...], owner: str, wanted: str) -> None:
    mailbox = Mailbox()
    with serving_mail(mailbox, folder) as port:
        a_mail_sender(port, folder, to=to).send(a_message(owner=owner), None)
    assert mailbox.mails[0]["To"] == wanted


@pytest.mark.parametrize("owner", ["", "a b", "<x>", "-x"])
def test_an_owner_that_nobody_can_write_to_is_said(folder: Path, owner: str) -> None:
    with serving_mail(Mailbox(), folder) as port, pytest.raises(Dead, match="no name to write to"):
        a_mail_sender(port, folder, to=("{owner}@example.com",)).send(a_message(owner=owner), None)
