"""What holds for every sender that speaks HTTP, each against the rules of its real end."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.oncall.cases import CASES, KEY, SECRET, SIGNING, Case
from tests.oncall.scenes import CHINESE_FIRST_LINE, FIRST_LINE, a_long_chinese_message, a_message, a_story, own_ca, told
from tests.oncall.server import DRIP, DROP, SILENCE, Receiver, Reply, serving

from trimtab.errors import SettingsError
from trimtab.model.oncall import Verb
from trimtab.show.oncall.sender import Dead, Delivered, Sender, TryAgain

by_kind = {"ids": lambda case: case.kind}


@pytest.fixture(params=CASES, ids=lambda case: case.kind)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def receiver(case: Case) -> Iterator[Receiver]:
    made = case.receiver()
    with serving(made):
        yield made


@pytest.fixture
def sender(case: Case, receiver: Receiver, tmp_path: Path) -> Sender:
    return case.sender(receiver.url, tmp_path)


def assert_no_secret(error: BaseException) -> None:
    text = "".join(traceback.format_exception(error)) + repr(error)
    for secret in (SECRET, SIGNING, KEY):
        assert secret not in text


def test_a_story_is_told_from_opening_to_end(case: Case, receiver: Receiver, sender: Sender) -> None:
    told(sender, a_story())
    assert receiver.refusals == []
    assert FIRST_LINE in case.heard(receiver)[0]


def test_too_many_waits_as_long_as_it_was_told(receiver: Receiver, sender: Sender) -> None:
    receiver.first = [Reply(status=429, headers={"Retry-After": "7"}, body={"error": SECRET})]
    with pytest.raises(TryAgain) as caught:
        sender.send(a_message(), None)
    assert caught.value.after_seconds == 7
    assert not caught.value.may_have_arrived
    assert_no_secret(caught.value)
    assert sender.send(a_message(), None)


@pytest.mark.parametrize(("status", "may_have_arrived"), [(500, True), (502, True), (503, False), (504, True)])
def test_an_ill_end_is_tried_again(receiver: Receiver, sender: Sender, status: int, may_have_arrived: bool) -> None:
    receiver.first = [Reply(status=status, body=f"<html>{SECRET}</html>".encode())]
    with pytest.raises(TryAgain) as caught:
        sender.send(a_message(), None)
    assert caught.value.may_have_arrived == may_have_arrived
    assert str(status) in caught.value.reason
    assert_no_secret(caught.value)


@pytest.mark.parametrize("status", [401, 403, 404, 413, 422])
def test_a_refusal_is_for_good(receiver: Receiver, sender: Sender, status: int) -> None:
    receiver.first = [Reply(status=status, body=f"no {SECRET}".encode())]
    with pytest.raises(Dead) as caught:
        sender.send(a_message(), None)
    assert str(status) in caught.value.reason
    assert_no_secret(caught.value)


def test_a_redirect_is_a_failure_and_is_not_followed(case: Case, receiver: Receiver, sender: Sender) -> None:
    elsewhere = case.receiver()
    with serving(elsewhere) as url:
        receiver.first = [Reply(status=308, headers={"Location": f"{url}/x?{SECRET}"})]
        with pytest.raises(Dead, match="redirect") as caught:
            sender.send(a_message(), None)
    assert elsewhere.requests == []
    assert_no_secret(caught.value)


def test_silence_is_a_repeat_next_time(case: Case, receiver: Receiver, tmp_path: Path) -> None:
    sender = case.sender(receiver.url, tmp_path, timeout_seconds=0.3)
    receiver.first = [SILENCE]
    with pytest.raises(TryAgain, match="ReadTimeout") as caught:
        sender.send(a_message(), None)
    assert caught.value.may_have_arrived
    assert_no_secret(caught.value)


def test_a_lost_answer_is_a_repeat_next_time(receiver: Receiver, sender: Sender) -> None:
    receiver.after = [DROP]
    with pytest.raises(TryAgain) as caught:
        sender.send(a_message(), None)
    assert caught.value.may_have_arrived
    assert receiver.requests
    assert_no_secret(caught.value)


def test_an_end_that_drips_does_not_hold_us(case: Case, receiver: Receiver, tmp_path: Path) -> None:
    sender = case.sender(receiver.url, tmp_path, timeout_seconds=0.4)
    receiver.first = [DRIP]
    with pytest.raises(TryAgain, match="ReadTimeout") as caught:
        sender.send(a_message(), None)
    assert caught.value.may_have_arrived


def test_secrets_do_not_leave_the_host_in_the_clear(case: Case, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"oncall.targets.night: its address has no TLS") as caught:
        case.sender("http://oncall.example", tmp_path)
    assert_no_secret(caught.value)


def test_no_log_holds_a_secret_however_much_is_logged(
    receiver: Receiver, sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.first = [Reply(status=500, body=SECRET.encode())]
    with pytest.raises(TryAgain):
        sender.send(a_message(), None)
    sender.send(a_message(), None)
    for secret in (SECRET, SIGNING, KEY):
        assert secret not in caplog.text


def test_nobody_there_is_no_repeat_next_time(case: Case, tmp_path: Path) -> None:
    with serving(case.receiver()) as url:
        pass
    with pytest.raises(TryAgain, match="NewConnectionError") as caught:
        case.sender(url, tmp_path).send(a_message(), None)
    assert not caught.value.may_have_arrived
    assert_no_secret(caught.value)


@pytest.mark.parametrize("failing", [case for case in CASES if case.body_error], **by_kind)
def test_an_error_told_in_a_success_is_an_error(failing: Case, tmp_path: Path) -> None:
    receiver = failing.receiver()
    assert failing.body_error
    with serving(receiver) as url:
        receiver.first = [failing.body_error]
        with pytest.raises(Dead) as caught:
            failing.sender(url, tmp_path).send(a_message(), None)
    assert_no_secret(caught.value)


@pytest.mark.parametrize("later", [case for case in CASES if case.body_later], **by_kind)
def test_a_not_now_told_in_a_success_is_tried_again(later: Case, tmp_path: Path) -> None:
    receiver = later.receiver()
    assert later.body_later
    with serving(receiver) as url:
        receiver.first = [later.body_later]
        sender = later.sender(url, tmp_path)
        with pytest.raises(TryAgain):
            sender.send(a_message(), None)
        assert sender.send(a_message(), None)
    assert len(later.heard(receiver)) == 1


@pytest.mark.parametrize("answering", [case for case in CASES if not case.says_nothing], **by_kind)
def test_a_sign_in_page_with_200_is_no_success(answering: Case, tmp_path: Path) -> None:
    receiver = answering.receiver()
    with serving(receiver) as url:
        receiver.first = [Reply(status=200, body=b"<html>Sign in to the guest network</html>")]
        with pytest.raises(TryAgain, match="proxy"):
            answering.sender(url, tmp_path).send(a_message(), None)


def test_the_sites_own_ca_is_trusted_where_it_is_set_and_only_there(case: Case, tmp_path: Path) -> None:
    receiver = case.receiver()
    own_ca(tmp_path)
    with serving(receiver, certificate=tmp_path) as url:
        with pytest.raises(TryAgain, match=r"signed by a CA that is not trusted here\. Set oncall\.targets") as caught:
            case.sender(url, tmp_path).send(a_message(), None)
        assert not caught.value.may_have_arrived
        assert case.sender(url, tmp_path, ca_file="ca.crt").send(a_message(), None)
    assert_no_secret(caught.value)
    assert receiver.refusals == []


def test_a_proxy_is_used_where_it_is_set(case: Case, receiver: Receiver, tmp_path: Path) -> None:
    # Whoever is asked for an absolute address is a proxy: the target itself could not even be looked up.
    sender = case.sender("http://target.invalid", tmp_path, proxy_url=receiver.url, allow_plaintext=True)
    with pytest.raises((Dead, TryAgain)):
        receiver.first = [Reply(status=403)]
        sender.send(a_message(), None)
    assert receiver.requests[0].target.startswith("http://target.invalid/")


def test_text_in_chinese_far_past_every_limit_arrives_with_its_first_line_whole(
    case: Case, receiver: Receiver, sender: Sender
) -> None:
    assert sender.send(a_long_chinese_message(), None)
    assert receiver.refusals == []
    assert getattr(receiver, "unseen", []) == []
    assert CHINESE_FIRST_LINE in case.heard(receiver)[0]


@pytest.mark.parametrize("character", ["x", "字", "🔥"])
def test_a_first_line_that_nobody_should_write_is_cut_and_taken(
    receiver: Receiver, sender: Sender, character: str
) -> None:
    long = character * 3000
    for verb in (Verb.OPEN, Verb.UPDATE):
        assert sender.send(a_message(verb, first_line=long, title=long), None)
    assert receiver.refusals == []
    assert getattr(receiver, "unseen", []) == []


def test_as_much_of_a_long_text_is_kept_as_there_is_room_for(receiver: Receiver, sender: Sender) -> None:
    sender.send(a_long_chinese_message(), None)
    body = receiver.requests[0].body.decode()
    assert "0 受影响的作业已停止" in body
    assert "…" in body
    assert len(body.encode()) > 1500


def test_a_drill_says_so_in_its_first_line(case: Case, receiver: Receiver, sender: Sender) -> None:
    sender.send(a_message(is_drill=True), None)
    assert case.heard(receiver)[0].strip("* ").startswith("[drill] ")


def test_what_may_have_arrived_before_says_so_where_it_can_be_seen_twice(
    case: Case, receiver: Receiver, sender: Sender
) -> None:
    sender.send(a_message(is_repeat=True, locale="zh-CN"), None)
    assert ("【可能重复】" in case.heard(receiver)[0]) == sender.target.is_repeat_visible


def test_names_of_other_peoples_things_cannot_break_lines(case: Case, receiver: Receiver, sender: Sender) -> None:
    sender.send(a_message(first_line="hall-a: job \r\nBcc: x\x00 stopped", title="a\nb"), None)
    assert receiver.refusals == []
    assert "\n" not in case.heard(receiver)[0]


def test_only_what_a_target_takes_is_sent_to_it(case: Case, receiver: Receiver, sender: Sender) -> None:
    opened = sender.send(a_message(), None)
    thread = opened.thread
    for verb in sorted(sender.target.verbs):
        answer = sender.send(a_message(verb), thread)
        assert isinstance(answer, Delivered)
    assert receiver.refusals == []


def test_a_closing_goes_out_without_any_memory_of_the_opening(receiver: Receiver, sender: Sender) -> None:
    """After a crash that lost the thread, or for an incident that a former daemon had opened."""
    sender.send(a_message(), None)
    assert sender.send(replace(a_message(Verb.RESOLVE), lines=()), None)
    assert receiver.refusals == []
