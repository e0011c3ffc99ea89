"""An agent's membership of its cluster: joins once by a join token, renews by itself, and says why where it cannot."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from trimtab.clock import Clock, iso
from trimtab.errors import SettingsError
from trimtab.handshakes import OF_OUR_CERTIFICATE, trouble_of
from trimtab.model.enrolment import Admission, NoEntry
from trimtab.ship.admission import Entry, NotAdmitted, ask, daemon_ca
from trimtab.ship.join_token import digest_of, fingerprint_in, is_join_token, secret_of
from trimtab.ship.keyring import RENEWAL, Kept, Keyring, Pending
from trimtab.trust import TrustFiles

log = structlog.get_logger()

BACKOFF_SECONDS_MIN = 1.0
BACKOFF_SECONDS_MAX = 60.0
_DOUBLINGS_MAX = 8
REFUSED_SECONDS = 300.0
"""So slowly a refusal is asked about again: whoever put it right need not come back to each node."""
RENEW_FROM, RENEW_SPREAD = 0.6, 0.15
"""Of a credential's life: agents that joined together renew at moments of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where an agent joins, as whom, and whom it trusts."""

    urls: tuple[str, ...]
    node: str
    cluster: str
    """Empty = whichever the daemon watches."""
    ca_file: str = ""
    certificate_file: str = ""
    """A client certificate of the site's own, in place of the one that comes with the credential."""
    key_file: str = ""


@dataclass(slots=True)
class MemberCounts:
    """Counts over the life of the process; the agent's exposition reads them."""

    joined_total: int = 0
    renewed_total: int = 0


class Membership:
    """One agent's credential, from the join to each renewal. `tick` runs on one thread."""

    def __init__(
        self,
        keyring: Keyring,
        where: Whereabouts,
        *,
        clock: Clock,
        join_token: Callable[[], str | None],
        used_up: Callable[[], None] = lambda: None,
        jitter: random.Random | None = None,
    ) -> None:
        """`join_token` reads the file (or environment) anew at each call, or raises SettingsError.

        `used_up` is called once the credential is on disk: the token is worth nothing any more.
        """
        self.counts = MemberCounts()
        self.refusals_total: Counter[str] = Counter()
        self.trouble = "" if keyring.kept is not None else "it has not joined yet"
        """Why this node is not let in, or not renewed; empty while all is well."""
        self._keyring = keyring
        self._where = where
        self._clock = clock
        self._join_token = join_token
        self._used_up = used_up
        self._jitter = jitter or random.Random()
        self._failures = 0
        self._due_at_seconds = clock.monotonic_seconds()
        self._tried = ""
        """Hash of the join token that was tried last."""
        self._is_renewal_asked = False
        self._got_at_seconds: float | None = None
        """When the last credential came, in this process (monotonic)."""
        keyring.mend()

    # --- what the sender asks

    @property
    def token(self) -> str:
        """What reports are sent with; empty before the join."""
        return self._keyring.kept.token if self._keyring.kept is not None else ""

    @property
    def ca_file(self) -> str:
        """Whom to trust: as set, else as told at the join."""
        return self._where.ca_file or self._keyring.ca_file

    @property
    def client_file(self) -> str:
        """This node's client certificate with its key; empty where it has none."""
        return self._keyring.client_file

    @property
    def kept(self) -> Kept | None:
        """The credential, as far as there is one."""
        return self._keyring.kept

    def was_taken(self) -> None:
        """The daemon has acknowledged a report that came with the newest credential."""
        self._keyring.forget_previous()

    def was_refused(self) -> None:
        """The daemon does not take the credential: asking for a new one says why, or mends it.

        Not again and again: what is refused for another reason (its client certificate) is no better with the next.
        """
        got = self._got_at_seconds
        if got is None or self._clock.monotonic_seconds() - got > REFUSED_SECONDS:
            self._is_renewal_asked = True

    def ask_renewal(self) -> None:
        """The daemon asked for a new credential."""
        self._is_renewal_asked = True

    def join_now(self, token: str) -> Kept:
        """Join with this token, unless it is the one that the credential came of. Raises NotAdmitted, SettingsError."""
        kept = self._keyring.kept
        if kept is None or kept.join_sha256 != digest_of(secret_of(token)):
            self._join(token)
        assert self._keyring.kept is not None
        return self._keyring.kept

    # --- the beat

    def tick(self) -> str:
        """Join, renew, or nothing; says how it stands."""
        try:
            token = self._new_join_token()
        except SettingsError as error:
            self._note(str(error), "join_token")
            return self._sentence()
        is_new = token is not None and digest_of(secret_of(token)) != self._tried
        if not is_new and self._clock.monotonic_seconds() < self._due_at_seconds:
            return self._sentence()
        if token is not None:
            self._tried = digest_of(secret_of(token))
            is_refused = self._attempt(lambda: self._join(token))
            # A token that is good for nothing (an old one that lies there yet) keeps nobody from renewing what is good.
            if is_refused and self._wants_renewal():
                self._attempt(self._renew)
        elif self._wants_renewal():
            self._attempt(self._renew)
        elif self._keyring.kept is None:
            self._note("there is no join token: put one into join_token_file (`trimtab enroll NODE`)", "no_token")
        return self._sentence()

    def _attempt(self, do: Callable[[], None]) -> bool:
        """Whether the daemon said a no that asking again does not change: it keeps nothing of what it was told then."""
        try:
            do()
        except NotAdmitted as no:
            self._note(str(no), no.reason or "out_of_reach")
            self._later(no)
            return no.is_final
        except SettingsError as error:
            self._note(str(error), "disk")
            self._later(NotAdmitted(str(error)))
        else:
            self._failures, self._is_renewal_asked = 0, False
            self._due_at_seconds = self._got_at_seconds = self._clock.monotonic_seconds()
            self.trouble = ""
            kept = self._keyring.kept
            if kept is not None:
                log.info("this node has a new credential", node=kept.node, until=iso(kept.expires_at))
        return False

    def _later(self, no: NotAdmitted) -> None:
        if no.is_final:
            seconds = REFUSED_SECONDS
        else:
            doubled = BACKOFF_SECONDS_MIN * 2.0 ** min(self._failures, _DOUBLINGS_MAX)
            seconds = max(min(doubled, BACKOFF_SECONDS_MAX), no.retry_after_seconds)
        self._failures += 1
        self._due_at_seconds = self._clock.monotonic_seconds() + seconds * self._jitter.uniform(0.75, 1.25)

    def _note(self, trouble: str, reason: str) -> None:
        self.refusals_total[reason] += 1
        if trouble != self.trouble:
            is_in = self._keyring.kept is not None
            said = "this node's credential is not renewed" if is_in else "this node is not let in; its reports are kept"
            log.warning(said, why=trouble, reason=reason)
            self._keyring.say(trouble)
        self.trouble = trouble

    def _sentence(self) -> str:
        kept = self._keyring.kept
        how = f"enrolled as {kept.node} until {iso(kept.expires_at)}" if kept is not None else "not enrolled"
        return f"{how}: {self.trouble}" if self.trouble else how

    # --- joining

    def _new_join_token(self) -> str | None:
        """A join token that was not used up here. Raises SettingsError."""
        token = self._join_token()
        if not token:
            return None
        kept = self._keyring.kept
        if kept is not None and kept.join_sha256 == digest_of(secret_of(token)):
            return None
        if not is_join_token(token):
            raise SettingsError(
                "join_token_file holds no join token: one begins with trimtab_join_ and stands alone on its line"
            )
        return token

    def _join(self, token: str) -> None:
        secret, fingerprint = secret_of(token), fingerprint_in(token)
        purpose = digest_of(secret)
        pending = self._keyring.begin(purpose, node=self._where.node, is_certified=bool(fingerprint))

        def enter(url: str) -> Admission:
            ca_pem = daemon_ca(url, fingerprint) if fingerprint and url.startswith("https:") else ""
            ca_file = self._where.ca_file or self._keyring.note_ca(ca_pem)
            return ask(url, "/v1/enroll", self._entry(pending), token=secret, ca_file=ca_file)

        admission = self._anywhere(enter)
        self._keep(admission, pending, join_sha256=purpose)
        self._used_up()
        self.counts.joined_total += 1

    # --- renewing

    def _wants_renewal(self) -> bool:
        kept = self._keyring.kept
        return kept is not None and (self._is_renewal_asked or self._is_renewal_due(kept))

    def _is_renewal_due(self, kept: Kept) -> bool:
        if self._keyring.pending is not None and self._keyring.pending.purpose == RENEWAL:
            return True  # begun before we were killed
        spread = int(digest_of(kept.token)[:8], 16) / 0xFFFFFFFF
        lives = timedelta(seconds=kept.lasts_seconds * (RENEW_FROM + RENEW_SPREAD * spread))
        return self._clock.now() >= kept.received_at + lives

    def _renew(self) -> None:
        kept = self._keyring.kept
        assert kept is not None
        pending = self._keyring.begin(RENEWAL, node=kept.node, is_certified=bool(kept.certificate_pem))
        admission = self._anywhere(lambda url: self._renewed(url, kept, pending))
        self._keep(admission, pending, join_sha256=kept.join_sha256)
        self.counts.renewed_total += 1

    def _renewed(self, url: str, kept: Kept, pending: Pending) -> Admission:
        """By what we have; where that is over, by what the daemon may have heard of already, or by what was before."""
        first: NotAdmitted | None = None
        for token in (kept.token, pending.token, kept.previous_token):
            if not token:
                continue
            try:
                return self._ask_anew(url, pending, token=token)
            except NotAdmitted as no:
                first = first or no
                if no.status != 401 and no.reason != NoEntry.EXPIRED:
                    break
        assert first is not None
        raise first

    def _ask_anew(self, url: str, pending: Pending, *, token: str) -> Admission:
        """With the client certificate; without it where the daemon's TLS does not like that one any more."""
        where, entry = self._where, self._entry(pending)
        certificate_file = where.certificate_file or self.client_file
        if certificate_file and url.startswith("https:"):
            shown = TrustFiles(ca_file=self.ca_file, certificate_file=certificate_file, key_file=where.key_file)
            try:
                return ask(url, "/v1/renew", entry, token=token, ca_file=self.ca_file, shown=shown)
            except NotAdmitted as no:
                if no.status or trouble_of(no, is_tls=True) not in OF_OUR_CERTIFICATE:
                    raise
        return ask(url, "/v1/renew", entry, token=token, ca_file=self.ca_file)

    # --- parts

    def _entry(self, pending: Pending) -> Entry:
        return Entry(
            node=self._where.node,
            cluster=self._where.cluster,
            sha256=digest_of(pending.token),
            csr_pem=pending.csr_pem,
        )

    def _anywhere(self, enter: Callable[[str], Admission]) -> Admission:
        """By the first daemon that says yes or no; one that cannot be asked now is passed over. Raises NotAdmitted."""
        last = NotAdmitted("no daemon_urls are set: there is nobody to join", reason="no_urls", is_final=True)
        for url in self._where.urls:
            try:
                return enter(url)
            except NotAdmitted as no:
                last = no
                if no.is_final:
                    break
        raise last

    def _keep(self, admission: Admission, pending: Pending, *, join_sha256: str) -> None:
        before = self._keyring.kept
        self._keyring.keep(
            Kept(
                node=admission.node,
                cluster=admission.cluster,
                token=pending.token,
                join_sha256=join_sha256,
                received_at=self._clock.now(),
                expires_at=admission.expires_at,
                lasts_seconds=admission.lasts_seconds,
                urls=self._where.urls,
                ca_pem=admission.ca_pem,
                certificate_pem=admission.certificate_pem,
                key_pem=pending.key_pem if admission.certificate_pem else "",
                previous_token=before.token if before is not None else "",
            )
        )
