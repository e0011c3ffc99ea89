"""PagerDuty, JSM Operations, Grafana IRM and signed webhooks: one incident by our key, however often it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.clock import FakeClock
from tests.oncall.cases import CASES, KEY, SECRET
from tests.oncall.receivers import GrafanaIrmReceiver, JsmReceiver, PagerDutyReceiver, WebhookReceiver
from tests.oncall.scenes import KEY as INCIDENT
from tests.oncall.scenes import a_message, a_sender, a_story, secret_file, told
from tests.oncall.server import DROP, Reply, serving

from trimtab.errors import SettingsError
from trimtab.model.oncall import Verb
from trimtab.settings.oncall_targets import JsmSettings, PagerDutySettings, WebhookSettings
from trimtab.show.oncall.sender import Dead, Sender, TryAgain
from trimtab.show.oncall.senders.jsm import ROUNDS_MAX, WAITS_SECONDS
from trimtab.show.oncall.webhook_body import schema

CASE = {case.kind: case for case in CASES}


@pytest.fixture
def pagerduty() -> Iterator[PagerDutyReceiver]:
    receiver = PagerDutyReceiver(SECRET)
    with serving(receiver):
        yield receiver


@pytest.fixture
def sender(pagerduty: PagerDutyReceiver, tmp_path: Path) -> Sender:
    return CASE["pagerduty"].sender(pagerduty.url, tmp_path)


def test_pagerduty_keeps_one_incident_by_our_key(pagerduty: PagerDutyReceiver, sender: Sender) -> None:
    told(sender, a_story())
    assert [action for action, _, _ in pagerduty.log] == ["trigger", "trigger", "acknowledge", "resolve"]
    assert pagerduty.alerts == {(SECRET, INCIDENT): "resolved"}
    assert pagerduty.pages == {INCIDENT: 1}


def test_pagerduty_is_told_twice_after_a_crash_and_pages_once(pagerduty: PagerDutyReceiver, sender: Sender) -> None:
    pagerduty.after = [DROP]
    with pytest.raises(TryAgain):
        sender.send(a_message(), None)
    sender.send(a_message(is_repeat=True), None)
    assert pagerduty.pages == {INCIDENT: 1}


def test_pagerduty_sees_what_where_and_whom(pagerduty: PagerDutyReceiver, sender: Sender) -> None:
    sender.send(a_message(), None)
    event = pagerduty.requests[0].json()
    assert event["payload"]["source"] == "gpu-07"
    assert event["payload"]["class"] == "device_fault"
    assert event["payload"]["custom_details"]["owner"] == "lin"
    assert "32 GPUs stand still" in event["payload"]["custom_details"]["text"]
    assert [link["text"] for link in event["links"]] == ["Open in trimtab", "Runbook"]
    assert event["client_url"] == "https://trimtab.example/f/31"


def test_a_note_is_a_change_event_and_pages_nobody(pagerduty: PagerDutyReceiver, sender: Sender) -> None:
    sender.send(a_message(Verb.NOTE, first_line="hall-a: R11 cordoned gpu-07"), None)
    assert [change["payload"]["summary"] for change in pagerduty.changes] == ["hall-a: R11 cordoned gpu-07"]
    assert pagerduty.log == []


def test_a_key_of_theirs_in_place_of_ours_is_no_success(pagerduty: PagerDutyReceiver, sender: Sender) -> None:
    pagerduty.first = [Reply(status=202, body={"status": "success", "message": "ok", "dedup_key": "srv01/HTTP"})]
    with pytest.raises(Dead):
        sender.send(a_message(), None)


def test_a_new_routing_key_counts_at_once_and_a_lost_file_costs_nothing(tmp_path: Path) -> None:
    receiver = PagerDutyReceiver("o" * 32, "n" * 32)
    key_file = tmp_path / secret_file(tmp_path, "key", "# service GPU", "o" * 32)
    with serving(receiver) as url:
        sender = a_sender(PagerDutySettings(routing_key_file="key", url=url), tmp_path)
        sender.send(a_message(), None)
        key_file.write_text("n" * 32, encoding="utf-8")
        sender.send(a_message(), None)
        key_file.unlink()
        sender.send(a_message(Verb.RESOLVE), None)
    assert receiver.alerts == {("o" * 32, INCIDENT): "triggered", ("n" * 32, INCIDENT): "resolved"}


class TestJsm:
    @pytest.fixture
    def jsm(self) -> Iterator[JsmReceiver]:
        receiver = JsmReceiver(SECRET)
        with serving(receiver):
            yield receiver

    def a_sender(self, jsm: JsmReceiver, folder: Path, **more: Any) -> Sender:
        return CASE["jsm"].sender(jsm.url, folder, **more)

    def test_one_alert_is_opened_noted_acknowledged_and_closed(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        sender = self.a_sender(jsm, tmp_path)
        states = []
        for message in a_story():
            sender.send(message, None)
            states.append(jsm.alerts[INCIDENT]["status"])
        assert states == ["open", "open", "acked", "closed"]
        assert jsm.alerts[INCIDENT]["priority"] == "P1"
        assert "vision-3 stopped" in jsm.alerts[INCIDENT]["notes"][0]

    def test_what_is_done_within_a_moment_is_one_outcome(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        jsm.polls_until_done = 2
        done = self.a_sender(jsm, tmp_path).send(a_message(), None)
        assert done.remote_id == jsm.alerts[INCIDENT]["id"]
        assert [request.method for request in jsm.requests] == ["POST", "GET", "GET", "GET"]

    def test_what_is_queued_for_long_is_asked_about_and_not_sent_again(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        jsm.polls_until_done = len(WAITS_SECONDS)
        sender = self.a_sender(jsm, tmp_path)
        with pytest.raises(TryAgain, match="queued") as caught:
            sender.send(a_message(), None)
        assert caught.value.after_seconds
        assert not caught.value.may_have_arrived
        done = sender.send(a_message(), None)
        assert done.remote_id == jsm.alerts[INCIDENT]["id"]
        assert [request.method for request in jsm.requests] == ["POST", *["GET"] * 5]
        assert jsm.alerts[INCIDENT]["count"] == 1

    def test_a_question_that_fails_is_asked_again(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        jsm.first = [Reply(status=202, body={"requestId": "r1"}), Reply(status=502), DROP]
        jsm.queue["r1"] = [0, lambda: {"isSuccess": True, "alertId": "a1"}]
        assert self.a_sender(jsm, tmp_path).send(a_message(), None).remote_id == "a1"

    def test_after_a_crash_it_is_sent_again_and_only_counted(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        jsm.after = [DROP]
        with pytest.raises(TryAgain) as caught:
            self.a_sender(jsm, tmp_path).send(a_message(), None)
        assert caught.value.may_have_arrived
        self.a_sender(jsm, tmp_path).send(a_message(is_repeat=True), None)
        assert list(jsm.alerts) == [INCIDENT]

    def test_queued_then_refused_is_refused(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        sender = self.a_sender(jsm, tmp_path)
        queued = Reply(status=202, body={"result": "Request will be processed", "requestId": "r1"})
        refused = Reply(body={"data": {"isSuccess": False, "status": f"Key {SECRET} is disabled"}})
        jsm.first = [queued, refused]
        with pytest.raises(Dead, match="is disabled") as caught:
            sender.send(a_message(), None)
        assert SECRET not in caught.value.reason

    def test_closing_what_is_not_there_is_done_with_a_remark(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        done = self.a_sender(jsm, tmp_path).send(a_message(Verb.RESOLVE), None)
        assert "nothing to resolve there" in done.remark

    def test_where_nobody_tells_what_became_of_it_being_taken_must_do(self, tmp_path: Path) -> None:
        jsm = JsmReceiver(SECRET, tells_status=False)
        with serving(jsm):
            sender = self.a_sender(jsm, tmp_path)
            for _ in range(ROUNDS_MAX - 1):
                with pytest.raises(TryAgain):
                    sender.send(a_message(), None)
            assert "told nothing more" in sender.send(a_message(), None).remark
        assert jsm.alerts[INCIDENT]["count"] == 1

    def test_a_key_that_may_not_ask_is_no_failure(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        jsm.first = [Reply(status=202, body={"requestId": "r1"}), Reply(status=403)]
        assert "may not ask" in self.a_sender(jsm, tmp_path).send(a_message(), None).remark

    def test_results_are_not_asked_for_where_the_setting_says_so(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        self.a_sender(jsm, tmp_path, asks_result=False).send(a_message(), None)
        assert [request.method for request in jsm.requests] == ["POST"]

    def test_opsgenie_by_its_own_address(self, tmp_path: Path) -> None:
        jsm = JsmReceiver("k")
        secret_file(tmp_path, "key", "k")
        with serving(jsm) as url:
            sender = a_sender(JsmSettings(api_key_file="key", url=f"{url}/v2", tags=("gpu",)), tmp_path)
            sender.send(a_message(is_drill=True), None)
        assert jsm.requests[0].path == "/v2/alerts"
        assert jsm.alerts[INCIDENT]["tags"] == ["hall-a", "device_fault", "drill", "gpu"]

    def test_a_note_is_not_for_jsm(self, jsm: JsmReceiver, tmp_path: Path) -> None:
        assert Verb.NOTE not in self.a_sender(jsm, tmp_path).target.verbs

    @settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(facts=st.dictionaries(st.text(max_size=300), st.text(max_size=5000), max_size=6))
    def test_any_facts_are_taken(self, facts: dict[str, str], jsm: JsmReceiver, tmp_path: Path) -> None:
        self.a_sender(jsm, tmp_path).send(a_message(facts=facts), None)
        assert jsm.refusals == []


def test_grafana_irm_opens_and_closes_one_group_and_is_told_no_acknowledgement(tmp_path: Path) -> None:
    irm = GrafanaIrmReceiver(SECRET)
    with serving(irm) as url:
        sender = CASE["grafana_irm"].sender(url, tmp_path)
        told(sender, a_story())
    assert irm.groups == {INCIDENT: "resolved"}
    assert len(irm.requests) == 3


class TestWebhook:
    @pytest.fixture
    def hook(self) -> Iterator[WebhookReceiver]:
        receiver = WebhookReceiver(KEY, schema())
        with serving(receiver):
            yield receiver

    def test_the_story_by_type_and_sequence(self, hook: WebhookReceiver, tmp_path: Path) -> None:
        told(CASE["webhook"].sender(hook.url, tmp_path), a_story())
        assert [(one["type"].removeprefix("incident."), one["data"]["sequence"]) for one in hook.taken] == [
            ("opened", 1),
            ("updated", 2),
            ("acknowledged", 3),
            ("resolved", 4),
        ]
        assert {one["data"]["key"] for one in hook.taken} == {INCIDENT}

    def test_a_repeat_has_the_same_id_and_is_dropped(self, hook: WebhookReceiver, tmp_path: Path) -> None:
        sender = CASE["webhook"].sender(hook.url, tmp_path)
        hook.after = [DROP]
        with pytest.raises(TryAgain):
            sender.send(a_message(), None)
        sender.send(a_message(is_repeat=True), None)
        assert (len(hook.taken), hook.repeats) == (1, 1)

    def test_a_receiver_with_the_old_key_and_one_with_the_new_both_verify(self, tmp_path: Path) -> None:
        new = "whsec_" + "QUFB" * 12
        secret_file(tmp_path, "keys", "# new since November", new, KEY)
        for key in (KEY, new):
            receiver = WebhookReceiver(key, schema())
            with serving(receiver) as url:
                a_sender(WebhookSettings(url=url, keys_file="keys"), tmp_path).send(a_message(), None)
            assert len(receiver.taken) == 1

    def test_a_closed_receiver_is_dead_and_says_what_to_do(self, hook: WebhookReceiver, tmp_path: Path) -> None:
        hook.first = [Reply(status=410)]
        with pytest.raises(Dead, match=r"take it out of oncall.targets"):
            CASE["webhook"].sender(hook.url, tmp_path).send(a_message(), None)

    def test_the_timestamp_is_the_attempts_own(self, hook: WebhookReceiver, tmp_path: Path) -> None:
        """A daemon whose clock is wrong is refused as a replay would be: and says so."""
        secret_file(tmp_path, "keys", KEY)
        late = a_sender(WebhookSettings(url=hook.url, keys_file="keys"), tmp_path, clock=FakeClock())
        with pytest.raises(Dead, match="401"):
            late.send(a_message(), None)

    def test_an_address_is_set_once(self, tmp_path: Path) -> None:
        secret_file(tmp_path, "keys", KEY)
        with pytest.raises(SettingsError, match=r"either url or url_file"):
            a_sender(WebhookSettings(keys_file="keys"), tmp_path)
