"""Sends what the spool holds: the live report first, then the backlog, oldest first, at a polite rate."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import structlog

from trimtab.clock import Clock
from trimtab.errors import SettingsError
from trimtab.loop import moving
from trimtab.outbound import is_loopback
from trimtab.settings import AgentSettings, read_token
from trimtab.ship.peer import Answer, Peer, Verdict
from trimtab.ship.spool import Spool, Waiting
from trimtab.ship.wire import join
from trimtab.trust import Trust, TrustFiles

log = structlog.get_logger()

BATCH_REPORTS_MAX = 100
BATCH_BYTES_MAX = 2 * 1024 * 1024
"""Before compression; within what a daemon accepts by default."""
BURST_SECONDS_MAX = 10.0
"""Replay that was not used (a slow beat, a wait) is not made up for beyond this."""
SMALLER_SECONDS = 600.0
"""So long batches stay below what a daemon called too large: it may have been told to take more meanwhile."""
COME_BACK_SECONDS = 45.0
"""So long an agent stays with a daemon that is not the first of its list before it asks the first again."""
LIVE_SENDS_MAX = 2
"""The one kept in memory during a disk fault, and the newest on disk."""


TOKEN_ENVIRONMENT = "TRIMTAB_NODE_TOKEN"


class Keys(Protocol):
    """This node's own credential, which comes when the node has joined and changes when it is renewed."""

    @property
    def token(self) -> str:
        """Empty before the join."""
        ...

    @property
    def ca_file(self) -> str:
        """Whom to trust; empty = the system's CAs."""
        ...

    @property
    def client_file(self) -> str:
        """Client certificate with its key; empty where there is none."""
        ...

    @property
    def trouble(self) -> str:
        """Why there is none yet."""
        ...

    def was_taken(self) -> None:
        """The daemon has acknowledged reports that came with it."""
        ...

    def was_refused(self) -> None:
        """The daemon does not take it: it may be ended, or unknown there."""
        ...

    def ask_renewal(self) -> None:
        """The daemon asks for a new one."""
        ...


def sender_of(settings: AgentSettings, *, spool: Spool, clock: Clock, keys: Keys | None = None) -> Sender:
    """The sender that an agent's settings describe; `keys` where the node was enrolled, or will be. SettingsError."""
    return Sender(
        spool=spool,
        urls=settings.daemon_urls,
        token=read_token(settings.token_file, environment_name=TOKEN_ENVIRONMENT),
        token_file=settings.token_file,
        ca_file=settings.ca_file,
        client_certificate_file=settings.client_certificate_file,
        client_key_file=settings.client_key_file,
        allow_plaintext=settings.allow_plaintext,
        replay_reports_per_second=settings.replay_reports_per_second,
        clock=clock,
        keys=keys,
    )


@dataclass(slots=True)
class SenderCounts:
    """Counts over the life of the process; the agent's exposition reads them."""

    sent_live_total: int = 0
    sent_backlog_total: int = 0
    failures_total: int = 0
    put_off_total: int = 0
    """Times that a daemon asked to come again later (429)."""
    set_aside_total: int = 0


class Sender:
    """Carries reports from one spool to the first daemon that takes them."""

    def __init__(
        self,
        *,
        spool: Spool,
        urls: Sequence[str],
        token: str | None,
        clock: Clock,
        token_file: str = "",
        ca_file: str = "",
        client_certificate_file: str = "",
        client_key_file: str = "",
        allow_plaintext: bool = False,
        replay_reports_per_second: float = 20.0,
        jitter: random.Random | None = None,
        keys: Keys | None = None,
    ) -> None:
        """Prepare sessions; nothing is sent yet. Raises SettingsError with the fix.

        A `token_file` is read again when it changes: a service account's token is renewed every hour.
        """
        for url in urls:
            check_url(url, allow_plaintext=allow_plaintext)
        if urls and not token and keys is None:
            raise SettingsError(
                "token_file is not set, nor is join_token_file: a daemon takes reports only from nodes that it knows. "
                "Ask its operator for a join token (`trimtab enroll NODE`), then run `trimtab join`."
            )
        self.counts = SenderCounts()
        self.trouble = ""
        """Why reports do not flow at present; empty while they do."""
        self._trouble_status = 0
        self._said_trouble = ""
        self._spool = spool
        self._clock = clock
        self._rate = replay_reports_per_second
        self._batch_bytes_max = BATCH_BYTES_MAX
        self._smaller_until_seconds = 0.0
        self._allowance = 0.0
        self._allowed_at_seconds = clock.monotonic_seconds()
        spread = self._spread = jitter or random.Random()
        self._stays_with: Peer | None = None
        self._comes_back_at_seconds = 0.0
        self._token, self._token_file = token, token_file
        self._keys = keys
        self.trust = Trust(
            TrustFiles(ca_file=ca_file, certificate_file=client_certificate_file, key_file=client_key_file)
        )
        """Whom the daemons' certificates must be signed by, and what is shown to them."""
        self._given = self.trust.files
        self._peers = [Peer(url, token=token or "", trust=self.trust, clock=clock, jitter=spread) for url in urls]

    def tick(self) -> str:
        """Send the live report and as much backlog as the rate allows; says what came of it."""
        if not self._peers:
            return f"no daemon_urls are set; {self._spool.waiting} reports are kept in the spool"
        self._renew_token()
        if not self._token:
            said = self._keys.trouble if self._keys is not None else ""
            return f"not enrolled; {self._spool.waiting} reports are kept in the spool: {said}"
        live = self.send_live()
        waiting_before = self._spool.waiting
        sent = self.send_backlog()
        return self._sentence(live=live, sent=sent, waiting_before=waiting_before)

    def _renew_token(self) -> None:
        """Take the file's token where it is another one; a file that cannot be read leaves the one in use."""
        if self._keys is not None:
            self._take_keys(self._keys)
        if not self._token_file:
            return
        try:
            token = read_token(self._token_file, environment_name=TOKEN_ENVIRONMENT)
        except SettingsError as error:
            self.trouble = str(error)
            return
        if token and token != self._token:
            self._token = token
            for peer in self._peers:
                peer.use(token)

    def _take_keys(self, keys: Keys) -> None:
        if not keys.token or keys.token == self._token:
            return
        self._token = keys.token
        given = self._given  # as set by an operator; what an earlier credential brought is over
        own = TrustFiles(ca_file=keys.ca_file, certificate_file=given.certificate_file or keys.client_file,
                         key_file=given.key_file)  # fmt: skip
        self.trust = Trust(own)
        for peer in self._peers:
            peer.trust(self.trust)
            peer.use(keys.token)

    def close(self) -> None:
        """Hang up; what waits stays in the spool."""
        for peer in self._peers:
            peer.close()

    def send_live(self) -> int:
        """Send the newest report if it still waits; returns how many were acknowledged."""
        sent = 0
        for _ in range(LIVE_SENDS_MAX):
            live = self._spool.live()
            if live is None or not self._deliver([live], is_backlog=False):
                break
            sent += 1
        self.counts.sent_live_total += sent
        return sent

    def send_backlog(self) -> int:
        """Send older reports, oldest first, as many as the rate allows now; returns how many were acknowledged."""
        self._allow()
        sent = 0
        while self._allowance >= 1 and any(not peer.backlog_due_in_seconds for peer in self._peers):
            reports_max = min(BATCH_REPORTS_MAX, int(self._allowance))
            batch = self._spool.backlog(reports_max=reports_max, bytes_max=self._bytes_max())
            if not batch:
                break
            self._allowance -= len(batch)
            delivered = self._deliver(batch, is_backlog=True)
            sent += delivered
            if delivered < len(batch):
                break
        self.counts.sent_backlog_total += sent
        return sent

    def _bytes_max(self) -> int:
        """Before compression: what the next batch may hold."""
        if self._clock.monotonic_seconds() >= self._smaller_until_seconds:
            self._batch_bytes_max = BATCH_BYTES_MAX
        return self._batch_bytes_max

    def _learn(self, batch: list[Waiting]) -> None:
        """It was too large for the daemon, or for a proxy: batches stay smaller for a while.

        Else each batch would be halved anew down to what fits, and a backlog of large reports take twice its requests.
        """
        half_bytes = max(sum(len(waiting.encoded) for waiting in batch) // 2, 1)
        self._batch_bytes_max = min(self._batch_bytes_max, half_bytes)
        self._smaller_until_seconds = self._clock.monotonic_seconds() + SMALLER_SECONDS

    def _allow(self) -> None:
        now = self._clock.monotonic_seconds()
        elapsed = min(now - self._allowed_at_seconds, BURST_SECONDS_MAX)
        self._allowed_at_seconds = now
        self._allowance = min(self._allowance + elapsed * self._rate, BURST_SECONDS_MAX * self._rate)

    def _deliver(self, batch: list[Waiting], *, is_backlog: bool) -> int:
        """Send one batch; returns how many reports left the line for the daemon's database."""
        answer = self._send(batch, is_backlog=is_backlog)
        if answer.verdict is Verdict.REFUSED:
            return self._deliver_apart(batch, answer, is_backlog=is_backlog)
        if answer.verdict is Verdict.LATER:
            return 0
        delivered = [waiting for waiting in batch if waiting.sequence in answer.acknowledged]
        self._spool.acknowledge(delivered)
        return len(delivered)

    def _deliver_apart(self, batch: list[Waiting], answer: Answer, *, is_backlog: bool) -> int:
        # One bad report must not take its neighbours with it: halves are tried until it stands alone.
        if len(batch) == 1:
            self.counts.set_aside_total += 1
            log.warning("the daemon refused a report for good; it is set aside", why=answer.sentence)
            self._spool.set_aside(batch[0], status=answer.status, sentence=answer.sentence)
            return 0
        if answer.status == 413:
            self._learn(batch)
        half = len(batch) // 2
        return sum(self._deliver(part, is_backlog=is_backlog) for part in (batch[:half], batch[half:]))

    def _send(self, batch: list[Waiting], *, is_backlog: bool) -> Answer:
        """Ask each daemon in order until one takes the batch or refuses it for good."""
        body = join([waiting.encoded for waiting in batch])
        answer = Answer(verdict=Verdict.LATER)
        for peer in self._in_order():
            if peer.backlog_due_in_seconds if is_backlog else peer.due_in_seconds:
                continue
            # Daemons that take a connection and never answer are waited for one by one: that is no hang of ours.
            moving(f"sending to {peer.url}")
            answer = peer.post(body, backlog_reports=len(batch) if is_backlog else 0)
            if answer.verdict is not Verdict.LATER:
                self._stay_with(peer)
                break
            self.counts.put_off_total += answer.status == 429
            self.counts.failures_total += answer.status != 429
        if not (is_backlog and answer.status == 429):
            self._note(answer)
        return answer

    def _in_order(self) -> list[Peer]:
        """Whoever took the last reports first, then the list; now and then the list alone, to come back to its head.

        Of two daemons one stands by, and would be asked in vain with each report where it is the first of the list.
        """
        stayed, now = self._stays_with, self._clock.monotonic_seconds()
        if stayed is None or now >= self._comes_back_at_seconds:
            self._stays_with = None
            return self._peers
        return [stayed, *(peer for peer in self._peers if peer is not stayed)]

    def _stay_with(self, peer: Peer) -> None:
        if peer is not self._stays_with:
            wait_seconds = COME_BACK_SECONDS * self._spread.uniform(0.75, 1.25)
            self._stays_with, self._comes_back_at_seconds = peer, self._clock.monotonic_seconds() + wait_seconds

    def _note(self, answer: Answer) -> None:
        self._tell_keys(answer)
        if answer.verdict is not Verdict.LATER:
            if self.trouble:
                log.info("reports flow again")
            self.trouble = ""
        elif answer.sentence:
            # The words may differ at each try (another peer, another port); the kind of answer is the state.
            is_another = answer.status != self._trouble_status
            # Said twice in a row and never logged: what it was at first is over, and this is what it is now.
            if not self.trouble or is_another or (answer.sentence == self.trouble != self._said_trouble):
                self._said_trouble = answer.sentence
                log.warning("reports do not flow; they are kept", why=answer.sentence)
            self.trouble, self._trouble_status = answer.sentence, answer.status

    def _tell_keys(self, answer: Answer) -> None:
        if self._keys is None:
            return
        if answer.verdict is Verdict.TAKEN and self._token == self._keys.token:
            self._keys.was_taken()
        if self._token != self._keys.token:
            return  # the answer was to what it had before
        if answer.status == 401:
            self._keys.was_refused()
        elif answer.is_renewal_asked:
            self._keys.ask_renewal()

    def _sentence(self, *, live: int, sent: int, waiting_before: int) -> str:
        waiting = self._spool.waiting
        parts = [f"sent {live} live, {sent} of {waiting_before} backlog; {waiting} waiting"]
        if self.trouble:
            wait_seconds = min(peer.due_in_seconds for peer in self._peers)
            parts.append(f"next try in {wait_seconds:.1f} s: {self.trouble}")
        elif waiting_before and (put_off := min(peer.backlog_due_in_seconds for peer in self._peers)):
            parts.append(f"the backlog waits its turn for {put_off:.1f} s")
        if self._spool.trouble:
            parts.append(self._spool.trouble)
        return "; ".join(parts)


def check_url(url: str, *, allow_plaintext: bool) -> None:
    """Whether reports and tokens may go there. Raises SettingsError with the fix."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise SettingsError(f"daemon_urls: {url!r} is no URL: {error}.") from error
    if parts.scheme not in ("http", "https") or not host or parts.username:
        raise SettingsError(f"daemon_urls: {url!r} is not like https://HOST:9741.")
    if parts.scheme == "http" and not allow_plaintext and not is_loopback(host):
        raise SettingsError(
            f"daemon_urls: {url} would carry this node's token in the clear. Use https:// (and ca_file if the CA is "
            "your own), or set allow_plaintext = true if the network is trusted."
        )
