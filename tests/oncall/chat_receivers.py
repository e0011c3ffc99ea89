"""Chats, robots and ntfy as strict as the real ends: body codes, signatures with their window, sizes as they count."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import re
import time
from collections.abc import Callable
from typing import Any

from tests.oncall.receivers import is_text, must
from tests.oncall.server import Receiver, Refused, Reply, Request

Now = Callable[[], float]
WINDOW_SECONDS = 3600


class SlackReceiver(Receiver):
    """Web API: errors are told in a 200. `messages` is ts -> what stands there now."""

    def __init__(self, token: str, channel: str = "C0FLEET") -> None:
        super().__init__()
        self.token = token
        self.channel = channel
        self.messages: dict[str, dict[str, Any]] = {}
        self.said: list[str] = []
        """Lock-screen lines of what was posted, in order; edits wake nobody."""
        self.may_read = True
        """Whether the bot has channels:history."""
        self.woken: list[str] = []
        """Mentions that would have woken people."""
        self._numbers = itertools.count(1)

    def malformed(self, why: str) -> Reply:
        return Reply(body={"ok": False, "error": "invalid_arguments", "response_metadata": {"messages": [why]}})

    def judge(self, request: Request) -> Reply:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return self._no("invalid_auth")
        if request.method == "GET":
            return self._read(request)
        document = request.json()
        must("utf-8" in request.headers["content-type"].lower(), "charset")
        if document["channel"] != self.channel:
            return self._no("channel_not_found")
        if error := self._blocks(document.get("blocks", [])):
            return self._no(error)
        if len(document.get("text", "")) > 40_000:
            return self._no("msg_too_long")
        if request.path == "/api/chat.update":
            return self._update(document)
        must(request.path == "/api/chat.postMessage", "unknown_method")
        return self._post(document)

    def _read(self, request: Request) -> Reply:
        """conversations.history and .replies: newest first, metadata only where it is asked for."""
        query = request.query
        must(request.path in ("/api/conversations.history", "/api/conversations.replies"), "unknown_method")
        if not self.may_read:
            return self._no("missing_scope")
        must(query["channel"] == self.channel and int(query["limit"]) <= 999, "channel")
        root = query["ts"] if request.path.endswith("replies") else None
        found = [
            {"ts": stamp, "text": one["text"], **({"metadata": one["metadata"]} if "metadata" in one else {})}
            for stamp, one in reversed(self.messages.items())
            if one.get("thread_ts") == root
        ]
        if query.get("include_all_metadata") != "true":
            found = [{name: value for name, value in one.items() if name != "metadata"} for one in found]
        return Reply(body={"ok": True, "messages": found[: int(query["limit"])], "has_more": False})

    def _no(self, error: str) -> Reply:
        self.refusals.append(error)
        return Reply(body={"ok": False, "error": error})

    def _post(self, document: dict[str, Any]) -> Reply:
        root = document.get("thread_ts")
        if root is not None and root not in self.messages:
            return self._no("thread_not_found")
        if not document.get("text") and not document.get("blocks"):
            return self._no("no_text")
        self._wake(document)
        self.said.append(document["text"])
        stamp = f"1700000000.{next(self._numbers):06d}"
        self.messages[stamp] = document
        return Reply(body={"ok": True, "channel": self.channel, "ts": stamp, "message": {"text": document["text"]}})

    def _update(self, document: dict[str, Any]) -> Reply:
        if document["ts"] not in self.messages:
            return self._no("message_not_found")
        kept = {name: old[name] for name in ("thread_ts", "metadata") if name in (old := self.messages[document["ts"]])}
        self.messages[document["ts"]] = {**kept, **document}
        return Reply(body={"ok": True, "channel": self.channel, "ts": document["ts"], "text": document["text"]})

    def _wake(self, document: dict[str, Any]) -> None:
        parsed = [document.get("text", "")]
        parsed += [
            block["text"]["text"]
            for block in document.get("blocks", [])
            if block["type"] == "section" and block["text"]["type"] == "mrkdwn"
        ]
        self.woken += sorted({one for text in parsed for one in re.findall(r"<[!@][^>]+>", text)})

    def _blocks(self, blocks: list[dict[str, Any]]) -> str:
        if len(blocks) > 50:
            return "invalid_blocks"
        total = 0
        for block in blocks:
            kind = block["type"]
            if kind in ("header", "section"):
                text = block["text"]
                if not is_text(text["text"], 150 if kind == "header" else 3000):
                    return "invalid_blocks"
                if kind == "header" and text["type"] != "plain_text":
                    return "invalid_blocks"
                total += len(text["text"])
            elif kind == "actions":
                must(1 <= len(block["elements"]) <= 25, "elements")
                must(len({one["action_id"] for one in block["elements"]}) == len(block["elements"]), "action_id twice")
                for button in block["elements"]:
                    must(button["type"] == "button" and is_text(button["text"]["text"], 75), "button")
                    must(len(button.get("value", "")) <= 2000 and len(button.get("url", "")) <= 3000, "button")
            else:
                return "invalid_blocks"
        return "msg_blocks_too_long" if total > 13_200 else ""


class TeamsReceiver(Receiver):
    """A flow: takes whatever looks like a message; a card that is too large afterwards fails where nobody sees it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.shown: list[dict[str, Any]] = []
        self.unseen: list[str] = []

    def judge(self, request: Request) -> Reply:
        if request.target != self.path:
            raise Refused(Reply(status=401, body={"error": {"code": "DirectApiAuthorizationRequired"}}))
        document = request.json()
        must(document["type"] == "message", "type")
        for attachment in document["attachments"]:
            must(attachment["contentType"] == "application/vnd.microsoft.card.adaptive", "contentType")
            self._show(attachment["content"])
        return Reply(status=202)

    def _show(self, card: dict[str, Any]) -> None:
        if problem := self._problem(card):
            self.unseen.append(problem)
        else:
            self.shown.append(card)

    def _problem(self, card: dict[str, Any]) -> str:
        # What they count is larger than what was sent: 24,453 bytes were counted as 28,897; beyond ASCII as escapes.
        if len(json.dumps(card)) * 28_897 / 24_453 > 28_672:
            return "too large"
        if card.get("type") != "AdaptiveCard" or card.get("version") not in ("1.2", "1.3", "1.4", "1.5"):
            return "not a card"
        elements = [*card["body"], *(item for one in card["body"] for item in one.get("items", []))]
        if not all(self._is_element(element) for element in elements):
            return "element"
        actions = card.get("actions", [])
        is_linked = all(one["type"] == "Action.OpenUrl" and one["url"].startswith("http") for one in actions)
        return "" if is_linked else "action"

    def _is_element(self, element: dict[str, Any]) -> bool:
        if element["type"] == "RichTextBlock":
            return all(run["type"] == "TextRun" and isinstance(run["text"], str) for run in element["inlines"])
        if element["type"] == "TextBlock":
            return isinstance(element.get("text"), str)
        return bool(element["type"] == "Container")


class FeishuReceiver(Receiver):
    """A custom bot: its own kind of signature, one hour, 20 KB, keyword; all told in the body's code."""

    def __init__(self, token: str, *, secret: str = "", keyword: str = "", now: Now = time.time) -> None:
        super().__init__()
        self.token, self.secret, self.keyword, self.now = token, secret, keyword, now
        self.shown: list[dict[str, Any]] = []

    def malformed(self, why: str) -> Reply:
        return Reply(status=400, body={"code": 9499, "msg": f"Bad Request: {why}", "data": {}})

    def judge(self, request: Request) -> Reply:
        if request.path != f"/open-apis/bot/v2/hook/{self.token}":
            return self._no(19001, "param invalid: incoming webhook access token invalid")
        if len(request.body) > 20 * 1024:
            return self._no(9499, "request body is too large")
        document = request.json()
        if self.secret and not self._is_signed(document):
            return self._no(19021, "sign match fail or timestamp is not within one hour from current time")
        if self.keyword and self.keyword not in json.dumps(document, ensure_ascii=False):
            return self._no(19024, "Key Words Not Found")
        self._card(document)
        self.shown.append(document)
        return Reply(body={"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": "success"})

    def _no(self, code: int, why: str) -> Reply:
        self.refusals.append(f"{code} {why}")
        return Reply(body={"code": code, "msg": why, "data": {}})

    def _is_signed(self, document: dict[str, Any]) -> bool:
        stamp = str(document.get("timestamp", ""))
        if not stamp.isdigit() or abs(int(stamp) - self.now()) > WINDOW_SECONDS:
            return False
        digest = hmac.new(f"{stamp}\n{self.secret}".encode(), b"", hashlib.sha256).digest()
        return hmac.compare_digest(base64.b64encode(digest).decode(), str(document.get("sign", "")))

    def _card(self, document: dict[str, Any]) -> None:
        must(document["msg_type"] in ("interactive", "text"), "msg_type")
        if document["msg_type"] == "text":
            must(document["content"]["text"], "text")
            return
        card = document["card"]
        must(card["header"]["title"]["tag"] == "plain_text" and card["header"]["title"]["content"], "title")
        for element in card["elements"]:
            must(element["tag"] in ("div", "action"), "element")
            if element["tag"] == "div":
                must(element["text"]["tag"] in ("plain_text", "lark_md") and element["text"]["content"], "text")
            else:
                must(element["actions"] and all(one["url"].startswith("http") for one in element["actions"]), "button")


class DingTalkReceiver(Receiver):
    """A custom robot: signature in the address, encoded once; one hour; 20,000 bytes; errcode in the body."""

    def __init__(self, token: str, *, secret: str = "", keyword: str = "", now: Now = time.time) -> None:
        super().__init__()
        self.token, self.secret, self.keyword, self.now = token, secret, keyword, now
        self.shown: list[dict[str, Any]] = []
        self.called: list[str] = []

    def malformed(self, why: str) -> Reply:
        return Reply(body={"errcode": 400102, "errmsg": why})

    def judge(self, request: Request) -> Reply:
        query = request.query
        if request.path != "/robot/send" or query.get("access_token") != self.token:
            return self._no(300001, "token is not exist")
        if len(request.body) > 20_000:
            return self._no(460101, "message too long, exceed 20000 bytes")
        if self.secret and not self._is_signed(query):
            return self._no(310000, "sign not match")
        document = request.json()
        if self.keyword and self.keyword not in json.dumps(document, ensure_ascii=False):
            return self._no(310000, "keywords not in content")
        must(document["msgtype"] == "markdown", "msgtype")
        must(document["markdown"]["title"] and document["markdown"]["text"], "markdown needs title and text")
        called = document.get("at", {}).get("atMobiles", [])
        self.called += [one for one in called if f"@{one}" in document["markdown"]["text"]]
        self.shown.append(document)
        return Reply(body={"errcode": 0, "errmsg": "ok"})

    def _no(self, code: int, why: str) -> Reply:
        self.refusals.append(f"{code} {why}")
        return Reply(body={"errcode": code, "errmsg": why})

    def _is_signed(self, query: dict[str, str]) -> bool:
        stamp = query.get("timestamp", "")
        if not stamp.isdigit() or abs(int(stamp) / 1000 - self.now()) > WINDOW_SECONDS:
            return False
        digest = hmac.new(self.secret.encode(), f"{stamp}\n{self.secret}".encode(), hashlib.sha256).digest()
        return hmac.compare_digest(base64.b64encode(digest).decode(), query.get("sign", ""))


class WeComReceiver(Receiver):
    """A group's robot: sizes in bytes, errcode in the body; 20 a minute when `counts_rate`."""

    def __init__(self, key: str, *, counts_rate: bool = False) -> None:
        super().__init__()
        self.key = key
        self.counts_rate = counts_rate
        self.shown: list[dict[str, Any]] = []

    def malformed(self, why: str) -> Reply:
        return Reply(body={"errcode": 40008, "errmsg": f"invalid message type: {why}"})

    def judge(self, request: Request) -> Reply:
        if request.path != "/cgi-bin/webhook/send" or request.query.get("key") != self.key:
            return self._no(93000, "invalid webhook url")
        document = request.json()
        kind = document["msgtype"]
        must(kind in ("text", "markdown", "markdown_v2"), "msgtype")
        content = document[kind]["content"]
        limit = 2048 if kind == "text" else 4096
        if not content or len(content.encode()) > limit:
            return self._no(40058, f"{kind}.content exceed max length {limit}")
        if self.counts_rate and len(self.shown) >= 20:
            return self._no(45009, "api freq out of limit")
        self.shown.append(document)
        return Reply(body={"errcode": 0, "errmsg": "ok"})

    def _no(self, code: int, why: str) -> Reply:
        self.refusals.append(f"{code} {why}")
        return Reply(body={"errcode": code, "errmsg": why})


class NtfyReceiver(Receiver):
    """A server of ntfy: `standing` is what a phone shows, one entry a sequence from 2.16 on, one a message before."""

    def __init__(self, *, token: str = "", version: tuple[int, int] = (2, 16)) -> None:
        super().__init__()
        self.token, self.version = token, version
        self.standing: dict[str, dict[str, Any]] = {}
        self.attachments = 0
        self._numbers = itertools.count(1)

    def malformed(self, why: str) -> Reply:
        return Reply(status=400, body={"code": 40024, "http": 400, "error": f"invalid request: {why}"})

    def judge(self, request: Request) -> Reply:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            raise Refused(Reply(status=403, body={"code": 40301, "http": 403, "error": "forbidden"}))
        must(request.path in ("", "/"), "JSON is published to the root")
        document = request.json()
        must(re.fullmatch(r"[-_A-Za-z0-9]{1,64}", document["topic"]), "topic")
        must(document.get("priority", 3) in (1, 2, 3, 4, 5), "priority")
        actions = document.get("actions", [])
        must(len(actions) <= 3, "too many actions")
        must(
            all(one["action"] == "view" and one["label"] and one["url"].startswith("http") for one in actions), "action"
        )
        must(all(isinstance(tag, str) for tag in document.get("tags", [])), "tags")
        self.attachments += len(document["message"].encode()) > 4096
        number = f"msg{next(self._numbers):09d}"
        told = {"id": number, "time": int(time.time()), "event": "message", **document}
        sequence = told.pop("sequence_id", None)
        if sequence is not None and self.version >= (2, 16):
            must(re.fullmatch(r"[-_A-Za-z0-9]{1,64}", sequence), "sequence_id")
            told["sequence_id"] = sequence
        self.standing[told.get("sequence_id", number)] = told
        return Reply(body=told)
