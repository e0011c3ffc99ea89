"""Asks job owners over a webhook: one POST a question, held open until the owner answers or the deadline is there.

The body is JSON: `id`, `command`, `cluster`, `workload`, `sentence`, `reason`, `deadline`. The answer is JSON too:
`{"answer": "yes"}`, `{"answer": "no", "said": "..."}` or `{"answer": "not_before", "until": "2026-12-01T18:00:00Z"}`.
What cannot be read is a no. A hook that cannot be reached or answers 5xx did not take the question: it is asked again
under the same `id`, at most every 30 s, until the deadline; silence is then a no.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec
import structlog
from msgspec import Struct

from trimtab import outbound
from trimtab.clock import Clock, iso
from trimtab.handshakes import Keys, sentence_of
from trimtab.issue.owners import Question
from trimtab.model.standing import Answer, OwnerAnswer
from trimtab.settings import KubernetesSettings

log = structlog.get_logger()

KEYS = Keys(address="kubernetes.ask_url")
ANSWER_BYTES_MAX = 64 * 1024
AGAIN_SECONDS = 30.0
AT_ONCE_MAX = 32
"""Questions that wait for their answers at one time; the others wait for a later beat."""
CONNECT_SECONDS = 5.0
SAID_CHARACTERS_MAX = 500
PORTS = {"http": 80, "https": 443}


class _Body(Struct, frozen=True, kw_only=True):
    """What a hook answers."""

    answer: Answer
    until: datetime | None = None
    said: str = ""


class HttpAsker:
    """Asks each question on a thread of its own; safe to call from the issuer's beat alone."""

    def __init__(self, settings: KubernetesSettings, clock: Clock, *, token: str | None = None) -> None:
        """`token` goes to the site's own hook only, never to a job's."""
        self.seconds_max = settings.ask_seconds_max
        self._settings = settings
        self._clock = clock
        self._token = token
        self._lock = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}
        self._replies: dict[str, OwnerAnswer] = {}
        self._again_at: dict[str, float] = {}

    def can_ask(self, url: str | None) -> bool:
        """Whether there is a hook for this job: its own where that is allowed, else the site's."""
        return self._hook(url) is not None

    def ask(self, question: Question) -> None:
        """Begin to ask, unless it is being asked, was tried a moment ago, or too many are being asked."""
        now = self._clock.monotonic_seconds()
        with self._lock:
            self._threads = {key: one for key, one in self._threads.items() if one.is_alive()}
            is_busy = question.id in self._threads or question.id in self._replies
            if is_busy or len(self._threads) >= AT_ONCE_MAX or now < self._again_at.get(question.id, now):
                return
            self._again_at[question.id] = now + AGAIN_SECONDS
            thread = threading.Thread(target=self._ask, args=(question,), name=f"ask {question.command}", daemon=True)
            self._threads[question.id] = thread
        thread.start()

    def reply(self, question_id: str) -> OwnerAnswer | None:
        """What came back, once: an answer, or with `answer` None why there is none yet."""
        with self._lock:
            return self._replies.pop(question_id, None)

    def _hook(self, url: str | None) -> str | None:
        if url and any(is_under(url, prefix) for prefix in self._settings.ask_url_prefixes if prefix):
            return url
        return self._settings.ask_url or None

    def _ask(self, question: Question) -> None:
        try:
            reply = self._sent(question)
        except outbound.OutboundError as error:
            url = self._hook(question.url) or ""
            reply = self._nothing(question, sentence_of(error, url=url, keys=KEYS) or type(error).__name__)
        log.info("owner asked", command=question.command, workload=question.workload, said=reply.said or reply.answer)
        with self._lock:
            self._replies[question.id] = reply

    def _sent(self, question: Question) -> OwnerAnswer:
        url = self._hook(question.url) or ""
        left = (question.deadline - self._clock.now()).total_seconds()
        read_seconds = max(self._clock.wall_seconds(left), 0.1)
        token = self._token if url == self._settings.ask_url else None
        with (
            outbound.session(timeout_seconds=CONNECT_SECONDS, token=token) as session,
            session.post(
                url,
                data=msgspec.json.encode(_body_of(question)),
                headers={"Content-Type": "application/json"},
                timeout=(CONNECT_SECONDS, read_seconds),
                allow_redirects=False,
                stream=True,
            ) as answer,
        ):
            if answer.status_code >= 500:
                return self._nothing(question, f"answered {answer.status_code}")
            if answer.status_code != 200:
                return self._answer(question, Answer.NO, f"the hook answered {answer.status_code}")
            body = answer.raw.read(ANSWER_BYTES_MAX + 1, decode_content=True)
        return self._read(question, body)

    def _read(self, question: Question, body: bytes) -> OwnerAnswer:
        try:
            if len(body) > ANSWER_BYTES_MAX:
                return self._answer(question, Answer.NO, f"the hook's answer is longer than {ANSWER_BYTES_MAX} bytes")
            read = msgspec.json.decode(body, type=_Body)
        except msgspec.MsgspecError as error:
            return self._answer(question, Answer.NO, f"the hook's answer cannot be read: {error}")
        if read.answer is Answer.NOT_BEFORE and (read.until is None or read.until.tzinfo is None):
            return self._answer(question, Answer.NO, "the hook answered not_before without an `until` with its zone")
        said = " ".join(read.said.split())[:SAID_CHARACTERS_MAX]
        return self._answer(question, read.answer, said, until=read.until)

    def _answer(self, question: Question, answer: Answer, said: str, *, until: datetime | None = None) -> OwnerAnswer:
        now = self._clock.now()
        return OwnerAnswer(
            asked_at=now,
            deadline=question.deadline,
            answer=answer,
            answered_at=now,
            not_before=until if answer is Answer.NOT_BEFORE else None,
            said=said,
        )

    def _nothing(self, question: Question, said: str) -> OwnerAnswer:
        return OwnerAnswer(asked_at=self._clock.now(), deadline=question.deadline, said=said)


def is_under(url: str, prefix: str) -> bool:
    """Whether `url` has the prefix's scheme, host and port, and its path begins with the prefix's. Doubt is a no."""
    try:
        at, allowed = urlsplit(url), urlsplit(prefix)
        is_same_place = _place_of(at) == _place_of(allowed)
    except ValueError:  # a port that is no number, a broken IPv6 address
        return False
    if not is_same_place or not at.hostname or "@" in at.netloc or _is_devious(url, at.path):
        return False
    folder = allowed.path.rstrip("/") + "/"
    return at.path == allowed.path or at.path.startswith(folder)


def _place_of(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


def _is_devious(url: str, path: str) -> bool:
    """Whether a server could take it for another place than its text shows: `..`, a backslash, a control character."""
    plain = unquote(path)
    return ".." in plain.split("/") or "\\" in unquote(url) or not url.isprintable() or " " in url


def _body_of(question: Question) -> Mapping[str, Any]:
    return {
        "id": question.id,
        "command": question.command,
        "cluster": question.cluster,
        "workload": question.workload,
        "sentence": question.sentence,
        "reason": question.reason,
        "deadline": iso(question.deadline),
    }
