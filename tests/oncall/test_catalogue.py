"""The catalogue of senders, their settings and secrets: what cannot work is refused at the start, with its fix."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.clock import FakeClock
from tests.oncall.cases import CASES
from tests.oncall.scenes import CHINESE_FIRST_LINE, a_long_chinese_message, a_message, secret_file
from tests.oncall.server import Receiver, Reply, Request, serving

from trimtab.errors import SettingsError
from trimtab.settings.oncall_targets import PER_MINUTE, AppriseSettings, TargetSettings, TeamsSettings, WeComSettings
from trimtab.show.oncall.secret import Secret, scrubbed
from trimtab.show.oncall.sender import TryAgain
from trimtab.show.oncall.senders import SENDERS, build, build_all

ROOT = Path(__file__).parent.parent.parent


def read(table: dict[str, Any]) -> Any:
    kinds: Any = TargetSettings
    return msgspec.convert(table, kinds, strict=True)


def test_each_kind_of_settings_has_its_sender_and_its_pace() -> None:
    kinds = set(get_args(TargetSettings))
    assert {section for section, _ in SENDERS} == kinds
    assert set(PER_MINUTE) == kinds


def test_each_kind_is_tested_against_its_real_ends_rules() -> None:
    spoken = {section.__struct_config__.tag for section, _ in SENDERS}
    assert {case.kind for case in CASES} == spoken - {"email", "apprise"}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"kind": "slak"}, "Invalid value 'slak'"),
        ({"channel": "C1"}, "missing required field `kind`"),
        ({"kind": "slack", "channel": "C1"}, "missing required field `token_file`"),
        ({"kind": "slack", "channel": "C1", "token_file": "t", "token": "xoxb"}, "unknown field `token`"),
        ({"kind": "pagerduty", "routing_key_file": "k", "url": "https://user:pw@host"}, "url"),
        ({"kind": "pagerduty", "routing_key_file": "k", "url": "ftp://host"}, "url"),
        ({"kind": "pagerduty", "routing_key_file": "k", "timeout_seconds": 60}, "timeout_seconds"),
        ({"kind": "ntfy", "topic": "a b"}, "topic"),
        ({"kind": "email", "host": "h", "sender": "a b@c", "to": ["x@y"]}, "sender"),
        ({"kind": "email", "host": "h", "sender": "a@c", "to": []}, "to"),
    ],
)
def test_settings_say_what_is_wrong_with_them(table: dict[str, Any], says: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        read(table)
    assert says in str(caught.value)


def test_a_secret_that_is_not_there_names_target_and_file(tmp_path: Path) -> None:
    settings = WeComSettings(key_file="wecom-key")
    with pytest.raises(SettingsError, match=r"oncall.targets.night: cannot read .*wecom-key"):
        build("night", settings, clock=FakeClock(), directory=tmp_path)
    secret_file(tmp_path, "wecom-key", "# nothing but this")
    with pytest.raises(SettingsError, match="is empty"):
        build("night", settings, clock=FakeClock(), directory=tmp_path)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_on_call_may_not_rest_on_what_cannot_tell(tmp_path: Path) -> None:
    secret_file(tmp_path, "teams", "https://flow.example/x")
    secret_file(tmp_path, "more", "json://127.0.0.1:9")
    secret_file(tmp_path, "key", "k")
    weak = {"chat": TeamsSettings(url_file="teams"), "sms": AppriseSettings(url_file="more")}
    with pytest.raises(SettingsError, match=r"chat \(teams\), sms \(apprise\) cannot tell"):
        build_all(weak, clock=FakeClock(), directory=tmp_path)
    made = build_all({**weak, "group": WeComSettings(key_file="key")}, clock=FakeClock(), directory=tmp_path)
    assert list(made) == ["chat", "sms", "group"]
    assert build_all({}, clock=FakeClock(), directory=tmp_path) == {}


def test_every_sender_goes_by_its_targets_name_and_shows_no_secret(tmp_path: Path) -> None:
    for case in CASES:
        sender = case.sender("http://127.0.0.1:9", tmp_path)
        assert sender.name == "night"
        assert sender.target.kind == case.kind
        for content in case.files.values():
            assert content not in repr(vars(sender))


def test_a_secret_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    path = tmp_path / secret_file(tmp_path, "s", "one")
    secret = Secret(path, of="test")
    assert secret.value == "one"
    replacement = tmp_path / secret_file(tmp_path, "s.new", "two", "", "# old", " one ")
    replacement.replace(path)
    assert secret.lines == ("two", "one")
    path.write_text("", encoding="utf-8")
    assert secret.lines == ("two", "one")
    assert repr(secret) == f"Secret({path})"


@given(secret=st.text(min_size=1, max_size=40).filter(lambda text: text.strip("*")), around=st.text(max_size=40))
def test_scrubbed_text_holds_no_secret(secret: str, around: str) -> None:
    if secret not in around and secret not in "***":
        assert secret not in scrubbed(f"{around} {secret} {around}", [secret]).replace("***", "") or secret.isspace()


def test_pieces_of_a_secret_address_are_hidden_too() -> None:
    address = "https://prod-07.westeurope.logic.azure.com:443/workflows/5f0c9a7b3d21/invoke?sig=Qm9vbVNoYWth"
    said = "no flow 5f0c9a7b3d21 for Qm9vbVNoYWth at prod-07.westeurope.logic.azure.com"
    assert scrubbed(said, [address]) == "no flow *** for *** at prod-07.westeurope.logic.azure.com"


# apprise 2.3 asks for a module that Python 3.13 has no more, and says so while it loads.
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
class TestApprise:
    def a_sender(self, folder: Path, *lines: str, **more: Any) -> Any:
        secret_file(folder, "more", *lines)
        return build("sms", AppriseSettings(url_file="more", **more), clock=FakeClock(), directory=folder)

    @pytest.mark.parametrize("scheme", ["dingtalk", "feishu", "pagerduty", "wecombot", "slack", "opsgenie", "mailto"])
    def test_what_has_a_sender_of_its_own_is_refused(self, tmp_path: Path, scheme: str) -> None:
        with pytest.raises(SettingsError, match="has a sender of its own") as caught:
            self.a_sender(tmp_path, f"{scheme}://s3cr3t@token")
        assert "s3cr3t" not in str(caught.value)

    def test_what_apprise_does_not_know_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="no URL that apprise knows") as caught:
            self.a_sender(tmp_path, "nonsense://s3cr3t")
        assert "s3cr3t" not in str(caught.value)

    def test_settings_that_it_would_ignore_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="no ca_file, proxy"):
            self.a_sender(tmp_path, "json://127.0.0.1:9", ca_file="ca.crt")

    def test_it_is_imported_only_where_it_is_used(self) -> None:
        code = "import sys, trimtab.show.oncall.senders; print('apprise' in sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "daemon"
        )
        assert done.stdout.strip() == "False"

    def test_nobody_there_is_tried_again(self, tmp_path: Path) -> None:
        with pytest.raises(TryAgain, match="does not say why"):
            self.a_sender(tmp_path, "json://127.0.0.1:9").send(a_message(), None)

    def test_what_it_sends_is_cut_first_and_called_delivered_with_a_remark(self, tmp_path: Path) -> None:
        heard = Anything()
        with serving(heard) as url:
            sender = self.a_sender(tmp_path, url.replace("http://", "json://"), body_bytes_max=600)
            done = sender.send(a_long_chinese_message(), None)
        (request,) = heard.requests
        said = json.loads(request.body)
        assert said["title"] == CHINESE_FIRST_LINE
        assert 590 < len(said["message"].encode()) <= 600
        assert "not told" in done.remark


class Anything(Receiver):
    """Takes whatever comes."""

    def judge(self, request: Request) -> Reply:
        return Reply()
