"""One daemon as its sender sees it: a post, what the answer means, and when to ask again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

import msgspec

from trimtab.clock import Clock
from trimtab.outbound import OutboundError, retrust, session
from trimtab.ship.unreached import unreached
from trimtab.ship.wire import BACKLOG_HEADER, MSGPACK, SENT_AT_HEADER, ZSTD
from trimtab.trust import Trust

CONNECT_TIMEOUT_SECONDS = 3.05
ANSWER_TIMEOUT_SECONDS = 15.0
"""Longer than a daemon waits for its commit, so that it can say no before we give up."""
BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
RETRY_AFTER_SECONDS_MAX = 600.0
"""A larger Retry-After is some other server's, and would keep us silent."""
_DOUBLINGS_MAX = 10
_REFUSED = (400, 413, 422)
_OURS_ALONE = (400, 422)
"""Refusals that count only from a daemon; 413 is an answer of a proxy's as well, and smaller parts may pass it."""
_NOTHING_SAID = "."
_SENTENCE_CHARS_MAX = 300


class Verdict(Enum):
    """What an answer means for the reports that were sent."""

    TAKEN = "taken"
    REFUSED = "refused"
    """They will never be taken: set aside."""
    LATER = "later"
    """They stay in line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; `acknowledged` are the sequences that are in the daemon's database."""

    verdict: Verdict
    status: int = 0
    sentence: str = ""
    acknowledged: frozenset[int] = frozenset()
    retry_after_seconds: float = 0.0
    is_renewal_asked: bool = False
    """The daemon asks for a new credential of this node."""


class _Acknowledged(msgspec.Struct):
    acknowledged: list[int]
    renew: bool = False


class _Refusal(msgspec.Struct):
    error: str = ""


class Peer:
    """One of `daemon_urls`, with its own back-off."""

    def __init__(self, url: str, *, token: str, trust: Trust, clock: Clock, jitter: random.Random) -> None:
        """Prepare a session; nothing is sent yet."""
        self.url = url.rstrip("/") + "/v1/reports"
        self._trust = trust
        self._session = session(timeout_seconds=ANSWER_TIMEOUT_SECONDS, trust=trust, token=token)
        self._clock = clock
        self._jitter = jitter
        self._failures = 0
        self._due_at_seconds = self._backlog_due_at_seconds = clock.monotonic_seconds()

    def use(self, token: str) -> None:
        """Send with another token from now on, and at once."""
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._failures = 0
        self._due_at_seconds = self._clock.monotonic_seconds()

    def trust(self, trust: Trust) -> None:
        """Whom to trust, and what to show, from the next connection on."""
        self._trust = trust
        retrust(self._session, trust)

    @property
    def due_in_seconds(self) -> float:
        """Seconds until this daemon may be asked again."""
        return max(0.0, self._due_at_seconds - self._clock.monotonic_seconds())

    @property
    def is_due(self) -> bool:
        """Whether it may be asked now."""
        return self.due_in_seconds == 0.0

    @property
    def backlog_due_in_seconds(self) -> float:
        """Seconds until this daemon may be sent more of a backlog."""
        return max(self.due_in_seconds, self._backlog_due_at_seconds - self._clock.monotonic_seconds())

    def post(self, body: bytes, *, backlog_reports: int = 0) -> Answer:
        """Send one body and read the answer; keeps its own back-off.

        A daemon that has no room for a backlog has some for what is live: then only the backlog waits.
        """
        answer = self._post(body, backlog_reports)
        if answer.verdict is not Verdict.LATER:
            self._failures = 0
        elif answer.status == 429 and backlog_reports:
            seconds = max(answer.retry_after_seconds, BACKOFF_SECONDS_MIN) * self._jitter.uniform(1.0, 1.25)
            self._backlog_due_at_seconds = self._clock.monotonic_seconds() + seconds
        else:
            self._back_off(answer.retry_after_seconds)
        return answer

    def close(self) -> None:
        """Hang up."""
        self._session.close()

    def _post(self, body: bytes, backlog_reports: int) -> Answer:
        headers = {
            "Content-Type": MSGPACK,
            "Content-Encoding": ZSTD,
            SENT_AT_HEADER: self._clock.now().isoformat(),
            **({BACKLOG_HEADER: str(backlog_reports)} if backlog_reports else {}),
        }
        try:
            # Redirects are not followed: a POST would become a GET, and its answer no acknowledgement.
            response = self._session.post(
                self.url,
                data=body,
                headers=headers,
                timeout=(CONNECT_TIMEOUT_SECONDS, ANSWER_TIMEOUT_SECONDS),
                allow_redirects=False,
            )
        except OutboundError as error:
            return Answer(verdict=Verdict.LATER, sentence=self._out_of_reach(error))
        return self._read(response.status_code, response.content, response.headers.get("Retry-After", ""))

    def _out_of_reach(self, error: OutboundError) -> str:
        trust = self._trust
        return unreached(
            error, url=self.url, ca_file=trust.files.ca_file, is_shown=trust.is_shown, now=self._clock.now()
        )

    def _read(self, status: int, content: bytes, retry_after: str) -> Answer:
        if status == 200:
            return self._read_acknowledged(content)
        said = _said(content)
        sentence = f"{self.url} answered {status}{said}"
        if status in _OURS_ALONE and said == _NOTHING_SAID:
            # nginx says 400 to HTTP on a port of TLS: no word of a daemon's on our reports, and no ground to drop them.
            way = "" if self.url.startswith("https") else " If it speaks TLS, write https:// in daemon_urls."
            sentence += f" That is not as trimtab says it: another server or a proxy is there.{way}"
            return Answer(verdict=Verdict.LATER, status=status, sentence=sentence)
        if status in _REFUSED:
            return Answer(verdict=Verdict.REFUSED, status=status, sentence=sentence)
        seconds = min(float(retry_after), RETRY_AFTER_SECONDS_MAX) if retry_after.isdecimal() else 0.0
        return Answer(verdict=Verdict.LATER, status=status, sentence=sentence, retry_after_seconds=seconds)

    def _read_acknowledged(self, content: bytes) -> Answer:
        try:
            read = msgspec.json.decode(content, type=_Acknowledged)
        except msgspec.MsgspecError:
            sentence = f"{self.url} answered 200 and acknowledged nothing: is it a trimtab daemon?"
            return Answer(verdict=Verdict.LATER, status=200, sentence=sentence)
        acknowledged = frozenset(read.acknowledged)
        return Answer(verdict=Verdict.TAKEN, status=200, acknowledged=acknowledged, is_renewal_asked=read.renew)

    def _back_off(self, retry_after_seconds: float) -> None:
        doubled = BACKOFF_SECONDS_MIN * 2.0 ** min(self._failures, _DOUBLINGS_MAX)
        # Who says when to come again knows it: a daemon that stands by may be the active one a second later.
        seconds = retry_after_seconds or min(doubled, BACKOFF_SECONDS_MAX)
        self._failures += 1
        # A thousand agents that lost one daemon together must not come back together.
        spread = self._jitter.uniform(1.0, 1.25) if retry_after_seconds else self._jitter.uniform(0.5, 1.0)
        self._due_at_seconds = self._clock.monotonic_seconds() + seconds * spread


def _said(content: bytes) -> str:
    try:
        said = msgspec.json.decode(content, type=_Refusal).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = ""
    return f": {said[:_SENTENCE_CHARS_MAX]}" if said else _NOTHING_SAID
