"""The daemon's own CA and certificate: made when a setting needs them, renewed in time, and `trimtab ca`."""

from __future__ import annotations

import json
import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.fakes.clock import FakeClock

from trimtab import pki
from trimtab.certificates import RENEW_MINUTES, Certificates, authority_of, ca_directory, server_names
from trimtab.cli import _root
from trimtab.errors import SettingsError, TrimtabError
from trimtab.settings import DaemonSettings, IngestSettings, PeopleSettings, TlsSettings

NAMES = ("trimtab.example", "192.0.2.7")
HELD = ("trimtab.example", "localhost", "192.0.2.7", "127.0.0.1", "::1")
"""As a certificate gives them back: names, then addresses; this host's own are always among them."""


def settings_of(state: Path, **changes: object) -> DaemonSettings:
    given = {
        "cluster": "hall-a",
        "state_directory": str(state),
        "ingest": IngestSettings(own_certificate=True),
        "tls": TlsSettings(names=NAMES),
    }
    return DaemonSettings(**(given | changes))


def server_of(state: Path) -> pki.x509.Certificate:
    return pki.read_certificates(state / "ca" / "server.pem")[0]


def test_without_a_setting_that_needs_one_no_ca_is_made(tmp_path: Path):
    plain = settings_of(tmp_path, ingest=IngestSettings())
    made = Certificates(plain, clock=FakeClock())
    assert (made.authority, made.facts(), list(tmp_path.iterdir())) == (None, (), [])
    assert made.section("ingest") == plain.ingest


def test_ca_and_certificate_are_made_at_the_first_start_and_stay(tmp_path: Path):
    clock = FakeClock()
    made = Certificates(settings_of(tmp_path), clock=clock)
    first = server_of(tmp_path)
    assert pki.names_of(first) == HELD
    assert made.authority is not None
    assert made.authority.has_signed(first)
    assert stat.S_IMODE((tmp_path / "ca" / "server.key").stat().st_mode) == 0o600
    section = made.section("ingest")
    assert section.certificate_file == str(tmp_path / "ca" / "server.pem")
    assert made.section("people").certificate_file == ""
    Certificates(settings_of(tmp_path), clock=clock)
    assert server_of(tmp_path) == first


def test_it_is_renewed_when_a_third_of_its_life_is_left(tmp_path: Path):
    clock = FakeClock()
    made = Certificates(settings_of(tmp_path), clock=clock)
    first = server_of(tmp_path)
    clock.advance(59 * 86400)
    assert made.renew() == "the daemon's own certificate is good"
    clock.advance(2 * 86400)
    assert "made the daemon's own certificate anew: the one there was ends at" in made.renew()
    assert pki.ends_at(server_of(tmp_path)) == pki.ends_at(first) + timedelta(days=61)


def test_while_a_daemon_stands_by_it_is_renewed_all_the_same(tmp_path: Path):
    clock = FakeClock()
    made = Certificates(settings_of(tmp_path), clock=clock)
    first = server_of(tmp_path)
    clock.jump(61 * 86400)
    made.keep_good()
    assert server_of(tmp_path) == first  # not yet: it looks once an hour
    clock.advance(RENEW_MINUTES * 60)
    made.keep_good()
    assert server_of(tmp_path) != first


def test_another_name_or_another_ca_makes_another_certificate(tmp_path: Path):
    clock = FakeClock()
    Certificates(settings_of(tmp_path), clock=clock)
    more = settings_of(tmp_path, tls=TlsSettings(names=(*NAMES, "2001:DB8::1")))
    Certificates(more, clock=clock)
    assert set(pki.names_of(server_of(tmp_path))) == {*HELD, "2001:db8::1"}
    second = server_of(tmp_path)
    Certificates(more, clock=clock)
    assert server_of(tmp_path) == second
    for name in ("ca.pem", "ca.key"):
        (tmp_path / "ca" / name).unlink()
    made = Certificates(more, clock=clock)
    assert made.authority is not None
    assert made.authority.has_signed(server_of(tmp_path))


def test_a_daemon_that_was_killed_between_key_and_certificate_starts_all_the_same(tmp_path: Path):
    clock, directory = FakeClock(), tmp_path / "ca"
    first = Certificates(settings_of(tmp_path), clock=clock).authority
    assert first is not None
    signed, key = server_of(tmp_path), (directory / "ca.key").read_bytes()
    (directory / "ca.pem").unlink()
    again = Certificates(settings_of(tmp_path), clock=clock).authority
    assert again is not None
    assert (directory / "ca.key").read_bytes() == key
    assert again.has_signed(signed)
    (directory / "server.key").write_bytes(pki.key_pem(pki.new_key()))
    Certificates(settings_of(tmp_path), clock=clock)
    assert server_of(tmp_path) != signed
    assert pki.belong_together(server_of(tmp_path), directory / "server.key")


def test_a_certificate_that_cannot_be_renewed_is_said_by_its_facts(tmp_path: Path):
    clock = FakeClock()
    made = Certificates(settings_of(tmp_path), clock=clock)
    clock.advance(61 * 86400)
    (tmp_path / "ca" / "server.key").unlink()
    (tmp_path / "ca" / "server.key").mkdir()  # as good as read-only, for root too
    with pytest.raises(SettingsError, match=r"cannot be renewed: .*server\.key: Is a directory"):
        made.renew()
    assert [fact.trouble[:48] for fact in made.facts() if fact.use == "ca"] == [
        "The daemon's own certificate cannot be renewed: "
    ]
    assert "cannot be renewed" in made.reload()


def test_client_certificates_are_judged_by_the_own_ca_or_by_the_sites(tmp_path: Path):
    own = Certificates(settings_of(tmp_path, ingest=IngestSettings(client_certificates="wanted")), clock=FakeClock())
    assert own.section("ingest").client_ca_file == str(tmp_path / "ca" / "ca.pem")
    assert own.client_rule().mode == "wanted"
    ingest = IngestSettings(client_certificates="required", client_ca_file=str(tmp_path / "ca" / "ca.pem"))
    site = Certificates(settings_of(tmp_path, ingest=ingest), clock=FakeClock())
    assert {fact.use for fact in site.facts()} == {"ca", "client_ca"}
    off = Certificates(settings_of(tmp_path, ingest=IngestSettings(client_ca_file="/x")), clock=FakeClock())
    assert off.section("ingest").client_ca_file == ""


def test_own_certificate_and_files_are_not_set_together(tmp_path: Path):
    both = PeopleSettings(own_certificate=True, certificate_file="/x.pem", key_file="/x.key")
    with pytest.raises(SettingsError, match=r"people\.own_certificate and people\.certificate_file are two answers"):
        Certificates(settings_of(tmp_path, people=both), clock=FakeClock())


def test_a_ca_that_cannot_be_read_names_the_key_and_the_ways_out(tmp_path: Path):
    authority_of(settings_of(tmp_path), clock=FakeClock())
    (tmp_path / "ca" / "ca.key").write_text("")
    with pytest.raises(SettingsError, match=r"tls\.ca_directory: .*ca\.key: no private key in PEM form"):
        authority_of(settings_of(tmp_path), clock=FakeClock())


def test_names_are_found_where_none_are_set(tmp_path: Path):
    found = server_names(
        settings_of(
            tmp_path,
            tls=TlsSettings(),
            ingest=IngestSettings(listen="192.0.2.9:9741"),
            people=PeopleSettings(public_url="https://page.example/trimtab"),
        )
    )
    assert {"localhost", "127.0.0.1", "::1", "192.0.2.9", "page.example"} <= set(found)
    assert len(found) == len(set(found))


# --- the verbs


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "daemon.toml"
    made.write_text(
        f'cluster = "hall-a"\nstate_directory = "{tmp_path / "state"}"\n'
        '[tls]\nnames = ["trimtab.example", "192.0.2.7"]\n'
    )
    return made


def run(*words: str, file: Path) -> Result:
    return CliRunner().invoke(_root, ["ca", *words, "--settings", str(file)], catch_exceptions=True)


def said_json(*words: str, file: Path) -> dict[str, object]:
    done = run(*words, "--json", file=file)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_create_show_renew_and_issue(file: Path, tmp_path: Path):
    made = said_json("create", file=file)
    assert (made["server"], len(str(made["sha256"]))) == (None, 64)
    renewed = said_json("renew", file=file)
    assert renewed["server"]["names"] == list(HELD)
    shown = said_json("show", file=file)
    assert shown == renewed
    text = run("show", file=file).output
    assert f"SHA-256 {made['sha256']}" in text
    assert f"for {', '.join(HELD)}" in text
    out = tmp_path / "out"
    issued = said_json("issue", "gpu-07.example", "10.0.0.7", "--out", str(out), file=file)
    assert issued["names"] == ["gpu-07.example", "10.0.0.7"]
    assert sorted(one.name for one in out.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]
    assert stat.S_IMODE((out / "key.pem").stat().st_mode) == 0o600
    assert b"PRIVATE" not in (out / "cert.pem").read_bytes()


def test_a_second_ca_is_made_elsewhere_and_never_in_place_of_the_first(file: Path, tmp_path: Path):
    first = said_json("create", file=file)["sha256"]
    again = run("create", file=file)
    assert isinstance(again.exception, TrimtabError)
    assert "holds a CA already" in str(again.exception)
    assert said_json("create", "--directory", str(tmp_path / "state" / "ca-2"), file=file)["sha256"] != first
    assert said_json("show", file=file)["sha256"] == first


def test_without_a_ca_the_verbs_say_how_to_make_one(file: Path, tmp_path: Path):
    for words in (("show",), ("renew",), ("issue", "a", "--out", str(tmp_path / "out"))):
        done = run(*words, file=file)
        assert str(done.exception).endswith("holds no CA yet: trimtab ca create")


def test_a_ca_that_root_makes_belongs_to_the_daemons_user(tmp_path: Path):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away: run as root")
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, 65534, 65534)
    authority_of(settings_of(state), clock=FakeClock())
    directory = ca_directory(settings_of(state))
    assert {one.stat().st_uid for one in (directory, *directory.iterdir())} == {65534}
