"""A registrar on a real database with a clock that is moved, and nodes that make their keys."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fakes.clock import FakeClock

from trimtab.enrolment import Registrar
from trimtab.model.enrolment import Admission, Invitation, JoinAsked
from trimtab.settings import EnrolmentSettings
from trimtab.ship.enrolled import Enrolled
from trimtab.ship.join_token import digest_of, secret_of
from trimtab.ship.tokens import new_token
from trimtab.store.database import Database
from trimtab.store.enrolment import EnrolmentFacts
from trimtab.store.history import History

CLUSTER = "hall-a"
BY = "anna"


@dataclass(frozen=True, slots=True)
class Key:
    """What a node makes for itself."""

    token: str

    @property
    def sha256(self) -> str:
        return digest_of(self.token)


def a_key() -> Key:
    return Key(new_token())


class Office:
    """One cluster's enrolment: the registrar, and as many daemons' views of it as a test asks for."""

    def __init__(self, database: Database, *, cluster: str = CLUSTER, days: float = 90.0) -> None:
        self.clock = FakeClock()
        self.database = database
        self.facts = EnrolmentFacts(database, cluster=cluster)
        self.registrar = Registrar(self.facts, EnrolmentSettings(credential_days=days), clock=self.clock)
        self.history = History(database, cluster=cluster)

    def daemon(self) -> Enrolled:
        """A daemon that begins now."""
        return Enrolled(self.facts, clock=self.clock, first_used=self.registrar.first_used)

    def invite(self, *nodes: str, **more: object) -> tuple[Invitation, ...]:
        return self.registrar.invite(nodes, by=BY, **more)  # type: ignore[arg-type]

    def join(self, token: str, node: str, key: Key, **more: str) -> Admission:
        return self.registrar.join(asked(node, key, token=token, **more))

    def renew(self, held: Key, node: str, key: Key) -> Admission:
        return self.registrar.renew(held.sha256, asked(node, key))

    def enrolled(self, node: str) -> Key:
        """A node that has joined and not come in yet."""
        key = a_key()
        self.join(self.invite(node)[0].token, node, key)
        return key

    def audit(self) -> list[tuple[str, str]]:
        return [(line.who, line.what) for line in self.history.audit_lines(self.clock.now().replace(year=2020))]


def asked(node: str, key: Key, *, token: str = "", peer: str = "192.0.2.7") -> JoinAsked:
    return JoinAsked(token_sha256=digest_of(secret_of(token)), node=node, cluster=CLUSTER, sha256=key.sha256, peer=peer)
