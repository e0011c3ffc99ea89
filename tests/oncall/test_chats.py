"""Slack, Teams, Feishu, DingTalk, WeCom and ntfy: threads, edits, mentions, signatures, and what they cannot do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.clock import START, FakeClock
from tests.oncall.cases import CASES, SECRET, SIGNING
from tests.oncall.chat_receivers import (
    DingTalkReceiver,
    FeishuReceiver,
    NtfyReceiver,
    SlackReceiver,
    TeamsReceiver,
    WeComReceiver,
)
from tests.oncall.scenes import FIRST_LINE, a_long_chinese_message, a_message, a_story, secret_file, told
from tests.oncall.scenes import KEY as INCIDENT
from tests.oncall.server import DROP, Reply, serving

from trimtab.clock import unix_seconds
from trimtab.errors import SettingsError
from trimtab.model.oncall import Thread, Verb
from trimtab.show.oncall.sender import Dead, Sender, TryAgain

CASE = {case.kind: case for case in CASES}


class TestSlack:
    @pytest.fixture
    def slack(self) -> Iterator[SlackReceiver]:
        receiver = SlackReceiver(SECRET)
        with serving(receiver):
            yield receiver

    def a_sender(self, slack: SlackReceiver, folder: Path, **more: Any) -> Sender:
        return CASE["slack"].sender(slack.url, folder, **more)

    def test_one_message_is_edited_and_its_story_stands_below_it(self, slack: SlackReceiver, tmp_path: Path) -> None:
        thread = told(self.a_sender(slack, tmp_path), a_story())
        assert thread == Thread(root="1700000000.000001", place="C0FLEET")
        root, *below = slack.messages.values()
        assert root["text"] == "hall-a: llama-70b runs again after 41 min"
        assert [one["thread_ts"] for one in below] == [thread.root] * 3
        assert [one["text"] for one in below][1] == "hall-a: wang has it"

    def test_only_what_is_to_be_noticed_goes_to_the_whole_channel(self, slack: SlackReceiver, tmp_path: Path) -> None:
        told(self.a_sender(slack, tmp_path), [*a_story()[:1], a_message(Verb.UPDATE), *a_story()[1:]])
        assert [one.get("reply_broadcast") for one in list(slack.messages.values())[1:]] == [False, True, False, True]

    def test_the_channel_is_called_at_the_opening_and_when_it_gets_worse(
        self, slack: SlackReceiver, tmp_path: Path
    ) -> None:
        told(self.a_sender(slack, tmp_path, mention="<!here>"), a_story())
        assert slack.woken == ["<!here>", "<!here>"]

    def test_a_job_called_channel_wakes_nobody(self, slack: SlackReceiver, tmp_path: Path) -> None:
        nasty = "hall-a: <!channel> & <@U1> stopped"
        self.a_sender(slack, tmp_path).send(a_message(first_line=nasty, lines=(nasty, nasty)), None)
        assert slack.woken == []
        assert slack.messages["1700000000.000001"]["blocks"][0]["text"]["text"] == nasty

    def test_an_edit_is_repeated_unseen_when_the_line_below_fails(self, slack: SlackReceiver, tmp_path: Path) -> None:
        sender = self.a_sender(slack, tmp_path)
        thread = sender.send(a_message(), None).thread
        slack.first = [Reply(body={"ok": True, "channel": "C0FLEET", "ts": "1700000000.000001"}), Reply(status=503)]
        with pytest.raises(TryAgain):
            sender.send(a_message(Verb.RESOLVE), thread)
        sender.send(a_message(Verb.RESOLVE), thread)
        assert len(slack.messages) == 2

    def test_a_deleted_message_is_followed_by_a_new_one(self, slack: SlackReceiver, tmp_path: Path) -> None:
        sender = self.a_sender(slack, tmp_path)
        thread = sender.send(a_message(), None).thread
        slack.messages.clear()
        again = sender.send(a_message(Verb.UPDATE), thread)
        assert again.thread
        assert again.thread != thread
        assert list(slack.messages) == [again.thread.root]

    def test_a_message_that_may_not_be_edited_any_more_still_gets_its_thread(
        self, slack: SlackReceiver, tmp_path: Path
    ) -> None:
        sender = self.a_sender(slack, tmp_path)
        thread = sender.send(a_message(), None).thread
        slack.first = [Reply(body={"ok": False, "error": "edit_window_closed"})]
        sender.send(a_message(Verb.RESOLVE), thread)
        assert len(slack.messages) == 2

    def test_the_acknowledge_button_is_there_only_where_its_answer_can_be_checked(
        self, slack: SlackReceiver, tmp_path: Path
    ) -> None:
        self.a_sender(slack, tmp_path).send(a_message(), None)
        secret_file(tmp_path, "signing", "s")
        told(self.a_sender(slack, tmp_path, signing_secret_file="signing"), a_story())
        buttons = [
            [one.get("value") for one in block["elements"] if one["action_id"] == "trimtab_acknowledge"]
            for message in slack.messages.values()
            for block in message["blocks"]
            if block["type"] == "actions"
        ]
        # First sender's; then the root as last edited, update, acknowledgement, closing.
        assert buttons == [[], [], [INCIDENT], [], []]

    def test_a_wrong_token_is_dead_and_not_shown(self, slack: SlackReceiver, tmp_path: Path) -> None:
        slack.token = "another"
        with pytest.raises(Dead, match="invalid_auth"):
            self.a_sender(slack, tmp_path).send(a_message(), None)

    def test_a_repeat_is_looked_for_where_that_is_set(self, slack: SlackReceiver, tmp_path: Path) -> None:
        sender = self.a_sender(slack, tmp_path, looks_back=True)
        assert not sender.target.is_repeat_visible
        slack.after = [DROP]
        with pytest.raises(TryAgain):
            sender.send(a_message(), None)
        thread = sender.send(a_message(is_repeat=True), None).thread
        assert thread == Thread(root="1700000000.000001", place="C0FLEET")
        slack.after = [Reply(body={"ok": True, "ts": thread.root}), DROP]
        update = a_message(Verb.UPDATE)
        with pytest.raises(TryAgain):
            sender.send(update, thread)
        assert sender.send(replace(update, is_repeat=True), thread).thread == thread
        assert len(slack.messages) == 2
        sender.send(a_message(Verb.RESOLVE, is_repeat=True), thread)
        assert len(slack.messages) == 3

    def test_where_the_bot_may_not_look_a_repeat_is_sent(self, slack: SlackReceiver, tmp_path: Path) -> None:
        slack.may_read = False
        sender = self.a_sender(slack, tmp_path, looks_back=True)
        sender.send(a_message(), None)
        sender.send(a_message(is_repeat=True), None)
        assert len(slack.messages) == 2
        assert "[may be a repeat]" in slack.said[1]

    def test_a_long_text_is_whole_lines_in_sections(self, slack: SlackReceiver, tmp_path: Path) -> None:
        self.a_sender(slack, tmp_path).send(a_long_chinese_message(), None)
        sections = [block for block in slack.messages["1700000000.000001"]["blocks"] if block["type"] == "section"]
        assert len(sections) > 3
        assert all(block["text"]["text"][0].isdigit() for block in sections)


class TestTeams:
    def test_the_card_shows_text_as_it_stands(self, tmp_path: Path) -> None:
        teams = TeamsReceiver(f"/workflows/{SECRET}/triggers/manual/paths/invoke?sig={SECRET}")
        with serving(teams) as url:
            sender = CASE["teams"].sender(url, tmp_path)
            done = sender.send(a_message(lines=("[click](https://evil.example)", "**bold**")), None)
        (card,) = teams.shown
        texts = [block["inlines"][0]["text"] for block in card["body"][1:]]
        assert texts == ["[click](https://evil.example)", "**bold**"]
        assert all(block["type"] == "RichTextBlock" for block in card["body"][1:])
        assert "not told" in done.remark

    def test_on_call_may_not_rest_on_it(self, tmp_path: Path) -> None:
        assert not CASE["teams"].sender("http://127.0.0.1", tmp_path).target.may_be_only

    def test_what_counts_is_the_size_after_inflation(self, tmp_path: Path) -> None:
        teams = TeamsReceiver(f"/workflows/{SECRET}/triggers/manual/paths/invoke?sig={SECRET}")
        with serving(teams) as url:
            CASE["teams"].sender(url, tmp_path).send(a_long_chinese_message(), None)
        assert 15_000 < len(json.dumps(json.loads(teams.requests[0].body))) <= 20_000
        assert len(teams.shown) == 1


class TestFeishu:
    def a_receiver(self, clock: FakeClock, **more: Any) -> FeishuReceiver:
        return FeishuReceiver(SECRET, secret=SIGNING, now=lambda: unix_seconds(clock.now()), **more)

    def test_the_signature_is_made_at_each_attempt(self, tmp_path: Path) -> None:
        clock = FakeClock()
        feishu = self.a_receiver(clock)
        with serving(feishu) as url:
            sender = CASE["feishu"].sender(url, tmp_path, clock=clock)
            sender.send(a_message(), None)
            clock.advance(7200)
            sender.send(a_message(), None)
        assert len(feishu.shown) == 2

    def test_a_clock_that_is_off_by_more_than_an_hour_is_said(self, tmp_path: Path) -> None:
        feishu = FeishuReceiver(SECRET, secret=SIGNING, now=lambda: unix_seconds(START + timedelta(seconds=3601)))
        with serving(feishu) as url, pytest.raises(Dead, match="our clock is off by an hour"):
            CASE["feishu"].sender(url, tmp_path, clock=FakeClock()).send(a_message(), None)

    def test_the_keyword_is_added_where_it_is_missing(self, tmp_path: Path) -> None:
        clock = FakeClock()
        feishu = self.a_receiver(clock, keyword="值班")
        with serving(feishu) as url:
            with pytest.raises(Dead, match="keyword"):
                CASE["feishu"].sender(url, tmp_path, clock=clock).send(a_message(), None)
            CASE["feishu"].sender(url, tmp_path, clock=clock, keyword="值班").send(a_long_chinese_message(), None)
        assert len(feishu.shown) == 1

    def test_names_cannot_call_the_group(self, tmp_path: Path) -> None:
        clock = FakeClock()
        feishu = self.a_receiver(clock)
        with serving(feishu) as url:
            CASE["feishu"].sender(url, tmp_path, clock=clock).send(a_message(lines=("<at id=all></at>",)), None)
        assert {one["text"]["tag"] for one in feishu.shown[0]["card"]["elements"] if "text" in one} == {"plain_text"}


class TestDingTalk:
    @pytest.fixture
    def ding(self) -> Iterator[DingTalkReceiver]:
        receiver = DingTalkReceiver(SECRET, secret=SIGNING)
        with serving(receiver):
            yield receiver

    def test_forty_signatures_in_a_row_verify(self, tmp_path: Path) -> None:
        clock = FakeClock()
        ding = DingTalkReceiver(SECRET, secret=SIGNING, now=lambda: unix_seconds(clock.now()))
        with serving(ding) as url:
            sender = CASE["dingtalk"].sender(url, tmp_path, clock=clock)
            for _ in range(40):
                clock.advance(0.317)
                sender.send(a_message(), None)
        assert len(ding.shown) == 40

    def test_people_are_called_by_number_when_they_are_to_notice(self, ding: DingTalkReceiver, tmp_path: Path) -> None:
        told(CASE["dingtalk"].sender(ding.url, tmp_path, mention_mobiles=["13800000000"]), a_story())
        assert ding.called == ["13800000000", "13800000000"]

    def test_everybody_is_called_only_where_that_is_set(self, ding: DingTalkReceiver, tmp_path: Path) -> None:
        told(CASE["dingtalk"].sender(ding.url, tmp_path), a_story())
        told(CASE["dingtalk"].sender(ding.url, tmp_path, mentions_all=True), a_story())
        assert [one["at"]["isAtAll"] for one in ding.shown] == [False] * 4 + [True, True, False, False]

    def test_names_are_no_markdown(self, ding: DingTalkReceiver, tmp_path: Path) -> None:
        CASE["dingtalk"].sender(ding.url, tmp_path).send(a_message(lines=("[click](https://evil.example)",)), None)
        assert "\\[click\\](https://evil.example)" in ding.shown[0]["markdown"]["text"]
        assert "[Runbook](https://trimtab.example/runbooks/device_fault)" in ding.shown[0]["markdown"]["text"]

    def test_too_many_waits_until_the_block_is_over(self, ding: DingTalkReceiver, tmp_path: Path) -> None:
        ding.first = [Reply(body={"errcode": 130101, "errmsg": "send too fast"})]
        with pytest.raises(TryAgain) as caught:
            CASE["dingtalk"].sender(ding.url, tmp_path).send(a_message(), None)
        assert caught.value.after_seconds == 600

    def test_the_keyword_is_added_where_it_is_missing(self, tmp_path: Path) -> None:
        ding = DingTalkReceiver(SECRET, secret=SIGNING, keyword="值班")
        with serving(ding) as url:
            CASE["dingtalk"].sender(url, tmp_path, keyword="值班").send(a_message(), None)
        assert len(ding.shown) == 1

    def test_a_robot_without_a_secret_is_not_signed(self, tmp_path: Path) -> None:
        ding = DingTalkReceiver(SECRET)
        with serving(ding) as url:
            CASE["dingtalk"].sender(url, tmp_path, secret_file="").send(a_message(), None)
        assert ding.requests[0].query == {"access_token": SECRET}


class TestWeCom:
    @pytest.fixture
    def wecom(self) -> Iterator[WeComReceiver]:
        receiver = WeComReceiver(SECRET)
        with serving(receiver):
            yield receiver

    def test_text_stays_within_2048_bytes_with_its_links(self, wecom: WeComReceiver, tmp_path: Path) -> None:
        CASE["wecom"].sender(wecom.url, tmp_path).send(a_long_chinese_message(), None)
        content = wecom.shown[0]["text"]["content"]
        assert 2040 <= len(content.encode()) <= 2048
        assert content.endswith("https://trimtab.example/runbooks/device_fault")

    def test_markdown_holds_more_and_calls_nobody(self, wecom: WeComReceiver, tmp_path: Path) -> None:
        sender = CASE["wecom"].sender(wecom.url, tmp_path, format="markdown")
        sender.send(a_long_chinese_message(lines=("<@all>" * 900,)), None)
        content = wecom.shown[0]["markdown"]["content"]
        assert 3000 < len(content.encode()) <= 4096
        assert "<" not in content

    def test_people_are_called_when_they_are_to_notice(self, wecom: WeComReceiver, tmp_path: Path) -> None:
        told(CASE["wecom"].sender(wecom.url, tmp_path, mention_mobiles=["@all"]), a_story())
        assert [one["text"]["mentioned_mobile_list"] for one in wecom.shown] == [["@all"], ["@all"], [], []]


class TestNtfy:
    def test_a_phone_shows_one_notification_an_incident(self, tmp_path: Path) -> None:
        ntfy = NtfyReceiver(token=SECRET)
        with serving(ntfy) as url:
            told(CASE["ntfy"].sender(url, tmp_path), [*a_story(), a_message(Verb.NOTE)])
        closing, note = ntfy.standing.values()
        assert closing["title"] == "hall-a: llama-70b runs again after 41 min"
        assert (closing["priority"], closing["tags"]) == (2, ["white_check_mark"])
        assert note["title"] == FIRST_LINE
        assert ntfy.attachments == 0

    def test_an_older_server_shows_each_and_we_say_so(self, tmp_path: Path) -> None:
        ntfy = NtfyReceiver(token=SECRET, version=(2, 11))
        with serving(ntfy) as url:
            sender = CASE["ntfy"].sender(url, tmp_path)
            assert "older than 2.16" in sender.send(a_message(), None).remark
            sender.send(a_message(Verb.RESOLVE), None)
        assert len(ntfy.standing) == 2

    def test_what_is_to_be_noticed_is_loud(self, tmp_path: Path) -> None:
        ntfy = NtfyReceiver(token=SECRET)
        with serving(ntfy) as url:
            told(CASE["ntfy"].sender(url, tmp_path), a_story())
        assert [request.json()["priority"] for request in ntfy.requests] == [5, 5, 2, 2]

    def test_the_topic_may_be_a_secret(self, tmp_path: Path) -> None:
        secret_file(tmp_path, "topic", "gpu-7f3a9c")
        ntfy = NtfyReceiver(token=SECRET)
        with serving(ntfy) as url:
            sender = CASE["ntfy"].sender(url, tmp_path, topic=None, topic_file="topic")
            sender.send(a_message(), None)
            ntfy.first = [Reply(status=404, body={"error": "no topic gpu-7f3a9c"})]
            with pytest.raises(Dead) as caught:
                sender.send(a_message(), None)
        assert ntfy.requests[0].json()["topic"] == "gpu-7f3a9c"
        assert "7f3a9c" not in caught.value.reason

    def test_a_topic_is_needed_once(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="either topic or topic_file"):
            CASE["ntfy"].sender("http://127.0.0.1", tmp_path, topic=None)
