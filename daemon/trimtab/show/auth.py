"""Who may come in: tokens, listed proxies, sessions, one-time links, and the Host and Origin checks.

Knows nothing of HTTP libraries: headers come in as plain values. Used by the API and the daemon's root.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from trimtab.clock import Clock
from trimtab.model.command import AuditLine
from trimtab.model.people import PersonSession, Role, SignedInBy
from trimtab.show.attempts import Attempts, TooManyAttempts
from trimtab.show.passes import TOKEN_PREFIX, Passes, Register, digest
from trimtab.show.proxied import Forged, Proxies
from trimtab.show.refusals import Answer, Refusals

_WRONG = "a token that is wrong, revoked or run out"
_WHO = re.compile(r"[^\w.@-]+")
CSRF_HEADER = "X-Trimtab-CSRF"
"""What a page sends along with each act: the token that GET /api/v1/me told it."""

Headers = Callable[[str], Sequence[str]]
"""All values of a header, as they came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: as audited, what they may do, and whether they came with a token of their own.

    Whoever comes without one (the page's cookie, a proxy's word) must prove for each act that it is the page that asks:
    `csrf` is what they prove it with.
    """

    who: str
    has_token: bool
    role: Role | None = None
    by: SignedInBy = SignedInBy.TOKEN
    csrf: str = ""
    session: PersonSession | None = None
    token_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Knock:
    """What of a request says who it is from; `peer` is the other end of the connection, never a header's word."""

    peer: str = ""
    authorization: str | None = None
    session: str | None = None
    is_doubtful: bool = False
    """Two sessions came: none of them is believed."""
    said_who: str | None = None
    headers: Headers = lambda _: ()


@dataclass(slots=True)
class _Attempt:
    """One attempt to get in, and why it was wrong."""

    why: str = ""

    def failed(self, why: str) -> None:
        self.why = why


class Door:
    """Knows who comes in, by token, listed proxy or session, and what is refused; each no is told to the audit."""

    def __init__(
        self,
        *,
        token: str,
        clock: Clock,
        register: Register,
        audit: Callable[[AuditLine], None],
        audit_clock: Clock | None = None,
        listen_host: str = "127.0.0.1",
        public_url: str = "",
        session_seconds: float = 12 * 3600.0,
        metrics_token: str | None = None,
        proxies: Proxies | None = None,
        failures_per_peer_per_minute: int = 10,
        failures_per_minute: int = 300,
    ) -> None:
        """`clock` must be a real one: a simulated clock would end links and sessions early."""
        self.public_url = public_url.rstrip("/")
        self.passes = Passes(register=register, clock=clock, audit_clock=audit_clock, session_seconds=session_seconds)
        self.proxies = proxies or Proxies()
        self._attempts = Attempts(
            clock=clock, per_peer_per_minute=failures_per_peer_per_minute, per_minute=failures_per_minute
        )
        stamp = audit_clock or clock
        self.refusals = Refusals(
            clock=clock, write=lambda who, what, why: audit(AuditLine(at=stamp.now(), who=who, what=what, why=why))
        )
        self._token = digest(token)
        # Bound to the operator's token, so that pages that are open go on working over a restart.
        self._csrf_key = hashlib.sha256(b"csrf:" + token.encode()).digest()
        self._metrics_token = digest(metrics_token) if metrics_token else None
        self._listen_host = listen_host.strip("[]").lower()
        self._public_host = (urlsplit(self.public_url).hostname or "").lower()

    def use_metrics_token(self, token: str | None) -> None:
        """Another token for /metrics and /sd; None = this host alone."""
        self._metrics_token = digest(token) if token else None

    # --- signing in and out

    @property
    def session_seconds(self) -> float:
        """How long a session lasts."""
        return self.passes.session_seconds

    def new_link(self, *, who: str = "operator", role: Role = Role.OPERATOR, token_id: int | None = None) -> str:
        """A secret that opens the page once, within ten minutes, as `who`; used at `/open/{secret}`.

        `token_id` is the token that asked for it: revoked, the link and what it opened are over too.
        """
        return self.passes.new_link(who=who, role=role, token_id=token_id)

    def redeem(self, secret: str, *, peer: str = "", former: str | None = None) -> str | None:
        """A session for a link's secret, which is used up by it; None when it is unknown. Raises TooManyAttempts.

        `former` is the session that the browser still had: it ends.
        """
        with self._attempt(peer) as attempt:
            link = self.passes.use_link(secret)
            if link is None:
                attempt.failed("a link that is unknown, used or too old")
                return None
            if former is not None:
                self.sign_out(former)
            _, secret = self.passes.open_session(
                who=link.who, role=link.role, by=SignedInBy.LINK, token_id=link.token_id, peer=peer
            )
        self.refusals.count(Answer.SIGNED_IN)
        return secret

    def sign_in(self, token: str, *, peer: str = "", former: str | None = None) -> tuple[Caller, str] | None:
        """Who a token is of, and a session for them; None when it is wrong. Raises TooManyAttempts.

        `former` is the session that the browser still had: it ends.
        """
        with self._attempt(peer) as attempt:
            caller = self._person(token.strip(), said_who=None)
            if caller is None or caller.role is None or caller.role is Role.WEBHOOK:
                attempt.failed(_WRONG if caller is None else "a webhook's token")
                return None
            if former is not None:
                self.sign_out(former)
            session, secret = self.passes.open_session(
                who=caller.who, role=caller.role, by=SignedInBy.TOKEN, token_id=caller.token_id, peer=peer
            )
        self.refusals.count(Answer.SIGNED_IN)
        return self._of_session(session), secret

    def sign_out(self, secret: str) -> bool:
        """End a session; False where it was none."""
        session = self.passes.session(secret)
        return session is not None and self.passes.end_session(session.id, by=session.who, what="signed out")

    # --- who asks

    def caller(self, knock: Knock) -> Caller | None:
        """Who the request is from; None when nothing that it brings is good. Raises TooManyAttempts.

        `said_who` is the name that a verb gives for the audit line: a claim by whoever holds the operator's token.
        """
        proxied, bearer = self._by_proxy(knock), _bearer(knock.authorization)
        if knock.is_doubtful:
            why = "two session cookies came; another site of this domain may have set one. Sign in anew."
            self.refusals.tell(Answer.TWO_SESSIONS, who=f"peer {self.peer(knock)}", what="ignored sessions", why=why)
        # A proxy may hand on a bearer of its own kind: that says nothing here, its word about the person does.
        if bearer and (proxied is None or self._is_ours(bearer)):
            return self._by_token(bearer, knock)
        return proxied or self._by_session(knock.session)

    def is_page(self, caller: Caller, csrf: str | None) -> bool:
        """Whether the act of a caller without a token comes with what only our page knows; constant time."""
        return bool(caller.csrf) and hmac.compare_digest(caller.csrf.encode(), (csrf or "").encode())

    def may_read_metrics(self, knock: Knock, *, host: str | None) -> bool:
        """/metrics: with its own token, a person's, or without any on loopback where none is set."""
        bearer = _bearer(knock.authorization)
        if self._metrics_token and hmac.compare_digest(digest(bearer), self._metrics_token):
            return True
        if bearer:
            caller = self._by_token(bearer, knock)
            if caller is not None and caller.role is not None and caller.role.covers(Role.VIEWER):
                return True
        # Behind a proxy every caller looks local; what a proxy adds to the request tells.
        is_forwarded = any(knock.headers(name) for name in ("Forwarded", "X-Forwarded-For"))
        is_near = not is_forwarded and _is_loopback(knock.peer) and _is_loopback(self._listen_host)
        return self._metrics_token is None and is_near and _is_loopback(_host_name(host))

    def _is_ours(self, secret: str) -> bool:
        return secret.startswith(TOKEN_PREFIX) or hmac.compare_digest(digest(secret), self._token)

    def _by_token(self, secret: str, knock: Knock) -> Caller | None:
        """Known tokens are not held up by a neighbour's wrong ones; an unknown one is looked at only so often."""
        if hmac.compare_digest(digest(secret), self._token) or self.passes.is_known_token(secret):
            found = self._person(secret, said_who=knock.said_who)
            if found is not None:
                return found
        with self._attempt(self.peer(knock)) as attempt:
            found = self._person(secret, said_who=knock.said_who)
            if found is None:
                attempt.failed(_WRONG)
        return found

    def _person(self, secret: str, *, said_who: str | None) -> Caller | None:
        if hmac.compare_digest(digest(secret), self._token):
            name = _WHO.sub("", said_who or "")[:64]
            return Caller(who=f"operator:{name}" if name else "operator", has_token=True, role=Role.ADMIN)
        token = self.passes.token(secret)
        return None if token is None else Caller(who=token.name, has_token=True, role=token.role, token_id=token.id)

    def _by_proxy(self, knock: Knock) -> Caller | None:
        found = self.proxies.who(knock.peer, knock.headers)
        if isinstance(found, Forged):
            self.refusals.tell(
                Answer.FORGED_HEADERS, who=f"peer {knock.peer}", what="ignored a proxy's headers", why=found.why
            )
            return None
        if found is None:
            return None
        who = f"{found.name} (proxy)"
        csrf = self._csrf(f"proxy:{found.name}")
        return Caller(who=who, has_token=False, role=found.role, by=SignedInBy.PROXY, csrf=csrf)

    def _by_session(self, secret: str | None) -> Caller | None:
        session = self.passes.session(secret) if secret else None
        return None if session is None else self._of_session(session)

    def _of_session(self, session: PersonSession) -> Caller:
        return Caller(
            who=f"{session.who} (page)",
            has_token=False,
            role=session.role,
            by=session.by,
            csrf=self._csrf(f"session:{session.sha256}"),
            session=session,
            token_id=session.token_id,
        )

    def _csrf(self, about: str) -> str:
        return hmac.new(self._csrf_key, about.encode(), hashlib.sha256).hexdigest()

    def peer(self, knock: Knock) -> str:
        """Whose attempts count: the peer, or where that is a listed proxy, whom it speaks for."""
        return self.proxies.client(knock.peer, knock.headers)

    @contextmanager
    def _attempt(self, peer: str) -> Iterator[_Attempt]:
        """Counts against the peer until it turns out right, or that nobody can say (StoreError)."""
        try:
            self._attempts.begin(peer)
        except TooManyAttempts as error:
            self.refusals.tell(Answer.HELD_UP, who=f"peer {peer}", what="held up sign-ins", why=str(error))
            raise
        attempt = _Attempt()
        try:
            yield attempt
        finally:
            if attempt.why:
                self.refusals.tell(Answer.WRONG, who=f"peer {peer}", what="refused to sign in", why=attempt.why)
            else:
                self._attempts.was_right(peer)

    # --- where the request comes from

    def is_host_known(self, host: str | None) -> bool:
        """Whether the Host header names us: a page that rebinds its own name to our address ends here."""
        name = _host_name(host)
        if _is_loopback(name) or name in (self._listen_host, self._public_host):
            return bool(name)
        # On a wildcard address any literal address may be ours; a literal cannot be rebound.
        return self._listen_host in ("", "0.0.0.0", "::") and _is_address(name)

    def is_same_origin(self, *, origin: str | None, host: str | None) -> bool:
        """Whether the Origin header is this very page's."""
        if not origin:
            return False
        if self.public_url and origin.rstrip("/") == self.public_url:
            return True
        return urlsplit(origin).netloc.lower() == (host or "").lower()


def cookie_name(host: str | None, *, is_tls: bool = False) -> str:
    """The session cookie's name: with the port, since browsers share cookies between the ports of one host.

    Over TLS with the prefix by which a browser lets no other site of the domain set it.
    """
    port = (host or "").rpartition(":")[2]
    prefix = "__Host-" if is_tls else ""
    return f"{prefix}trimtab_session_{port}" if port.isdigit() else f"{prefix}trimtab_session"


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _host_name(host: str | None) -> str:
    """The name of a Host header, without its port."""
    try:
        return (urlsplit(f"//{host or ''}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)
