"""Enrolment for the daemon and beside it: gives join tokens, admits nodes, renews, revokes. Each change is audited."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from trimtab.clock import Clock, iso
from trimtab.errors import EnrolmentRefused
from trimtab.model.command import AuditLine
from trimtab.model.enrolment import (
    Admission,
    Ended,
    Invitation,
    JoinAsked,
    JoinToken,
    NodeCredential,
    NoEntry,
    Refused,
    is_older,
    why_no_name,
    why_not_good,
    why_not_join,
)
from trimtab.pki import Authority, CertificateError
from trimtab.settings import EnrolmentSettings
from trimtab.ship.join_token import JOIN_PREFIX, digest_of, with_fingerprint
from trimtab.store.enrolment import EnrolmentBook, EnrolmentFacts

NODES_MAX = 20_000
"""Of one call; more are no list that somebody wrote."""
NAMED_MAX = 5
"""Names in a sentence; of more their number."""
RENEW_SECONDS_MIN = 10.0
"""A credential is not renewed by a second key sooner than this: an agent that loses its keys fills no table."""
FIRST_USES_AT_ONCE = 100
"""A change may hold up the reports' own commit; a fleet that joins in one minute is many small ones."""
_SECRET_BYTES = 32
F = TypeVar("F", JoinToken, NodeCredential)


class Registrar:
    """Knows who may join, and keeps what they were given. Safe to call from several threads."""

    def __init__(
        self,
        facts: EnrolmentFacts,
        settings: EnrolmentSettings,
        *,
        clock: Clock,
        audit_clock: Clock | None = None,
        authority: Authority | None = None,
    ) -> None:
        """`clock` must be a real one, as nodes' days are; audit lines are stamped by `audit_clock`."""
        self.facts = facts
        self._settings = settings
        self._clock = clock
        self._audit_clock = audit_clock or clock
        self._authority = authority

    @property
    def ca_pem(self) -> str:
        """The certificate of the daemon's own CA; empty where it has none."""
        return self._authority.certificate_pem.decode() if self._authority is not None else ""

    # --- the operator's side

    def invite(
        self,
        nodes: Sequence[str],
        *,
        by: str,
        lasts_seconds: float | None = None,
        is_again: bool = False,
        why: str = "",
    ) -> tuple[Invitation, ...]:
        """One join token a node, told this once; all or none. Raises EnrolmentRefused, StoreError."""
        names = tuple(dict.fromkeys(nodes))
        _check_names(names)
        now = self._clock.now()
        expires_at = now + timedelta(seconds=lasts_seconds or self._settings.join_seconds)
        fingerprint = self._authority.fingerprint if self._authority is not None else ""
        made: list[Invitation] = []
        with self.facts.changing() as book:
            _check_not_enrolled(book, names, now, is_again=is_again)
            for node in names:
                book.withdraw_tokens(node, by=by, at=now)
                secret = JOIN_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
                book.add_token(
                    JoinToken(
                        id=0,
                        node=node,
                        sha256=digest_of(secret),
                        created_at=now,
                        created_by=by,
                        expires_at=expires_at,
                        is_again=is_again,
                        why=why,
                    )
                )
                token = with_fingerprint(secret, fingerprint)
                made.append(Invitation(node=node, token=token, expires_at=expires_at, is_again=is_again))
                said = (
                    f"{node}, until {iso(expires_at)}" + (", again" if is_again else "") + (f": {why}" if why else "")
                )
                book.tell(self._line(by, "gave a join token", said))
        return tuple(made)

    def revoke(self, node: str, *, by: str, why: str = "") -> str:
        """Let a node in no more, and no join token of it either; says what ended. Raises EnrolmentRefused."""
        now = self._clock.now()
        with self.facts.changing() as book:
            ending = book.credentials(node)
            withdrawn = book.withdraw_tokens(node, by=by, at=now)
            good = [one for one in ending if one.is_good(now)]
            if not good and not withdrawn:
                raise EnrolmentRefused(_not_enrolled(node), status=404)
            for one in ending:
                book.end(one, how=Ended.REVOKED, by=by, why=why, at=now)
            book.tell(self._line(by, "revoked a node's credential", node + (f": {why}" if why else "")))
        said = [f"{node} is revoked: its reports are refused within a second." if good else f"{node} was not enrolled."]
        return " ".join(said + (["Its join token is withdrawn."] if withdrawn else []))

    def rotate(self, node: str, *, by: str, why: str = "") -> str:
        """Let the agent of a node make a new credential at its next report. Raises EnrolmentRefused."""
        now = self._clock.now()
        with self.facts.changing() as book:
            good = [one for one in book.credentials(node) if one.is_good(now)]
            if not good:
                raise EnrolmentRefused(_not_enrolled(node), status=404)
            for one in good:
                book.ask_rotation(one, now)
            book.tell(self._line(by, "asked for a new credential", node + (f": {why}" if why else "")))
        return f"The agent of {node} makes a new credential after its next report; the old one ends when that is used."

    # --- the node's side

    def join(self, asked: JoinAsked) -> Admission:
        """Enrol a node; asked again with the same token and key, the same answer. EnrolmentRefused, StoreError."""
        now = self._clock.now()
        with self.facts.changing() as book:
            token, known = _same(book.token(asked.token_sha256), asked.token_sha256), book.credential(asked.sha256)
            if token is not None and known is not None and token.used_by == asked.sha256 and token.node == asked.node:
                # The answer was lost, or the node was: it is enrolled, however long ago its token ran out.
                return self._admission(known, now)
            no = why_not_join(token, asked, book.credentials(token.node) if token is not None else (), now)
            if no is not None:
                raise _refusal(no)
            assert token is not None
            _check_key(book, asked.sha256, known)
            made = book.add_credential(
                NodeCredential(
                    id=0,
                    node=token.node,
                    sha256=asked.sha256,
                    join_id=token.id,
                    enrolled_by=token.created_by,
                    given_at=now,
                    expires_at=now + timedelta(days=self._settings.credential_days),
                    certificate_pem=self._certificate(asked.csr_pem, token.node),
                )
            )
            book.use_token(token, by=asked.sha256, peer=asked.peer, at=now)
            said = f"{token.node}, from {asked.peer or 'an unknown address'}, by {token.created_by}'s join token"
            book.tell(self._line(f"node {token.node}", "enrolled", said + (", again" if token.is_again else "")))
        return self._admission(made, now)

    def renew(self, held_sha256: str, asked: JoinAsked) -> Admission:
        """A new credential for a good one; the old one is good until the new one was used. Raises EnrolmentRefused."""
        now = self._clock.now()
        with self.facts.changing() as book:
            held = self._renewable(_same(book.credential(held_sha256), held_sha256), asked, now)
            known = book.credential(asked.sha256)
            if known is not None and known.node == held.node and known.join_id == held.join_id:
                return self._admission(known, now)
            _check_key(book, asked.sha256, known)
            self._end_unused(book, held, now)
            made = book.add_credential(
                NodeCredential(
                    id=0,
                    node=held.node,
                    sha256=asked.sha256,
                    join_id=held.join_id,
                    enrolled_by=held.enrolled_by,
                    given_at=now,
                    expires_at=now + timedelta(days=self._settings.credential_days),
                    renewals=held.renewals + 1,
                    certificate_pem=self._certificate(asked.csr_pem, held.node),
                )
            )
            said = f"{held.node}, from {asked.peer or 'an unknown address'}, for the {made.renewals}. time"
            book.tell(self._line(f"node {held.node}", "renewed its credential", said))
        return self._admission(made, now)

    def first_used(self, sha256s: Sequence[str]) -> None:
        """These credentials have come in for the first time: what each node had before ends. Raises StoreError."""
        for begin in range(0, len(sha256s), FIRST_USES_AT_ONCE):
            self._first_used(sha256s[begin : begin + FIRST_USES_AT_ONCE])

    def _first_used(self, sha256s: Sequence[str]) -> None:
        now = self._clock.now()
        with self.facts.changing() as book:
            for sha256 in sha256s:
                used = book.credential(sha256)
                if used is None or used.first_used_at is not None or used.ended_at is not None:
                    continue
                book.first_used(used, now)
                for other in book.credentials(used.node):
                    if is_older(other, used):
                        book.end(other, how=Ended.REPLACED, by=f"node {used.node}", why="", at=now)

    def prune(self) -> str:
        """Forget what was over long ago. Raises StoreError."""
        gone = self.facts.prune(self._clock.now() - timedelta(days=self._settings.keep_days))
        return f"{gone} join tokens and credentials that were over for {self._settings.keep_days:g} days are forgotten"

    # --- parts

    def _renewable(self, held: NodeCredential | None, asked: JoinAsked, now: datetime) -> NodeCredential:
        if held is None:
            sentence = "The daemon knows no such credential. Enrol the node: `trimtab enroll NODE`."
            raise _refusal(Refused(NoEntry.UNKNOWN, sentence))
        no = why_not_good(held, now)
        if no is None and held.node != asked.node:
            sentence = f"This credential is of node {held.node}, and the one that asks is {asked.node}."
            no = Refused(NoEntry.OTHER_NODE, sentence)
        if no is not None:
            raise _refusal(no)
        return held

    def _end_unused(self, book: EnrolmentBook, held: NodeCredential, now: datetime) -> None:
        """Earlier renewals that never came in: their keys are lost, or somebody else's."""
        for one in book.credentials(held.node):
            if one.join_id != held.join_id or one.id <= held.id or one.first_used_at is not None:
                continue
            age_seconds = (now - one.given_at).total_seconds()
            if 0 <= age_seconds < RENEW_SECONDS_MIN:
                sentence = f"This credential of {held.node} was renewed {age_seconds:.0f} s ago by another key."
                raise _refusal(Refused(NoEntry.TOO_SOON, sentence))
            book.end(one, how=Ended.REPLACED, by=f"node {held.node}", why="renewed again before it was used", at=now)

    def _certificate(self, csr_pem: str, node: str) -> str:
        if self._authority is None or not csr_pem:
            return ""
        try:
            return self._authority.sign_node(csr_pem.encode(), node=node, days=self._settings.credential_days).decode()
        except CertificateError as error:
            raise EnrolmentRefused(f"csr: {error}.", status=422) from error

    def _admission(self, credential: NodeCredential, now: datetime) -> Admission:
        no = why_not_good(credential, now)
        if no is not None:
            raise _refusal(no)
        return Admission(
            node=credential.node,
            cluster=self.facts.cluster,
            expires_at=credential.expires_at,
            lasts_seconds=(credential.expires_at - now).total_seconds(),
            certificate_pem=credential.certificate_pem,
            ca_pem=self.ca_pem,
        )

    def _line(self, who: str, what: str, why: str) -> AuditLine:
        return AuditLine(at=self._audit_clock.now(), who=who, what=what, why=why)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise EnrolmentRefused("Name at least one node.", status=422)
    if len(names) > NODES_MAX:
        raise EnrolmentRefused(f"{len(names)} nodes are more than {NODES_MAX} at once.", status=422)
    for node in names:
        if wrong := why_no_name(node):
            raise EnrolmentRefused(wrong, status=422)


def _check_not_enrolled(book: EnrolmentBook, names: Sequence[str], now: datetime, *, is_again: bool) -> None:
    if is_again:
        return
    enrolled = [node for node in names if any(one.is_good(now) for one in book.credentials(node))]
    if not enrolled:
        return
    more = len(enrolled) - NAMED_MAX
    named = ", ".join(enrolled[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    raise EnrolmentRefused(
        f"{named} {'is' if len(enrolled) == 1 else 'are'} enrolled already; no token was made. If that is what you "
        "want, add --again: each old credential is good until the new one is used.",
        status=409,
    )


def _check_key(book: EnrolmentBook, sha256: str, known: NodeCredential | None) -> None:
    if known is not None or book.is_known_elsewhere(sha256):
        raise _refusal(Refused(NoEntry.USED, "This key was used before; the agent makes a new one by itself."))


def _same(found: F | None, sha256: str) -> F | None:
    """What was found, if it is what was asked for: compared whole, in constant time, whatever the index did."""
    return found if found is not None and hmac.compare_digest(found.sha256, sha256) else None


def _not_enrolled(node: str) -> str:
    return (
        f"{node} is not enrolled and has no join token. A token that was made by `trimtab token node` is revoked by "
        f"`trimtab token node {node} --revoke`."
    )


def _refusal(no: Refused) -> EnrolmentRefused:
    return EnrolmentRefused(no.sentence, status=no.status, reason=no.reason.value)
