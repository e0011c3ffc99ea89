"""Which daemon of a cluster is the active one: PostgreSQL's advisory lock elects it, a term number fences its writes.

The lock belongs to a connection of its own and is free as soon as that is dead. Whoever has it raises the term; every
write of the active daemon reads the term in its own transaction, so that one which was frozen or cut off writes nothing
more, whatever it believes. What leaves the database (moves, letters) is begun only while the lock was confirmed a
moment ago, and the next daemon waits as long before it begins any.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection

from trimtab.clock import Clock, from_unix_ms
from trimtab.errors import StoreError, Superseded
from trimtab.model.command import AuditLine
from trimtab.store import schema
from trimtab.store.database import Database
from trimtab.store.election_session import Session, session_name
from trimtab.store.standing import write_lines
from trimtab.store.tables_pair import daemons, leadership
from trimtab.store.text import clean

log = structlog.get_logger()

GONE_SECONDS = 30.0
"""A daemon that has said nothing for so long is no standby, and its row goes."""


class Phase(Enum):
    """Where a daemon stands."""

    STANDS_BY = "stands by"
    WON = "takes over"
    """It has the lock and adopts what is stored; nothing is written in its term yet."""
    ACTIVE = "active"
    LOST = "lost"
    """Another took over: this process ends, or starts anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """This process, as the other daemon and people are told of it."""

    cluster: str
    name: str
    url: str
    version: str
    instance: str = field(default_factory=lambda: secrets.token_hex(6))
    """A name that no other start has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who was elected last."""

    term: int
    instance: str
    name: str
    url: str
    since: datetime
    takeovers: int
    has_ended: bool
    """It gave the office back in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was last seen in the database; None and 0 while nothing is known."""

    holder: Holder | None = None
    standbys: int = 0
    """Daemons that stand by and live."""
    looked_at_seconds: float | None = None
    """When the database was last asked and answered (monotonic)."""


class Election:
    """One daemon's part in it. `tick` from one thread; everything else from any."""

    def __init__(self, url: str, me: Me, *, clock: Clock, trust_seconds: float, silent_seconds: float) -> None:
        """`clock` must be real. Nothing is asked yet. Raises StoreError for an address that is none."""
        self.me = me
        self.phase = Phase.STANDS_BY
        self.term: int | None = None
        self.why_lost = ""
        self.sight = Sight()
        self._session = Session(url, cluster=me.cluster, instance=me.instance)
        self._clock = clock
        self._trust_seconds = trust_seconds
        self._silent_seconds = silent_seconds
        self._confirmed_at: float | None = None
        self._acts_from: float | None = None
        self._won_at = 0.0
        self._seen: tuple[tuple[int, int], float] | None = None
        self._guard = threading.Lock()

    # --- what others ask

    def why_not_act(self) -> str | None:
        """Why nothing that leaves the database may begin at this moment, as the end of a sentence; None = it may."""
        now, confirmed_at, acts_from = self._clock.monotonic_seconds(), self._confirmed_at, self._acts_from
        if self.phase is not Phase.ACTIVE or confirmed_at is None or acts_from is None:
            return "another daemon is the active one" if self.phase is not Phase.WON else "it is taking over"
        if now - confirmed_at > self._trust_seconds:
            return f"the database has not confirmed for {now - confirmed_at:.1f} s that this daemon is the active one"
        if now < acts_from:
            return f"the daemon before this one may still act for another {acts_from - now:.1f} s"
        return None

    def is_elected(self) -> bool:
        """Whether the Kubernetes Lease is this daemon's to take: it is active, and the database said so just now."""
        confirmed_at = self._confirmed_at
        is_fresh = confirmed_at is not None and self._clock.monotonic_seconds() - confirmed_at <= self._trust_seconds
        return self.phase is Phase.ACTIVE and is_fresh

    def fence(self, connection: Connection) -> None:
        """First in every transaction that writes: whose term it is, held still until it ends. Raises Superseded."""
        asked = sa.select(leadership.c.term, leadership.c.name).where(leadership.c.cluster == self.me.cluster)
        row = connection.execute(asked.with_for_update(read=True)).one_or_none()
        if row is None or row.term != self.term:
            whose = f"{row.name} is the active daemon in term {row.term}" if row else "the term is gone"
            self.lose(f"{whose}; this daemon's was {self.term}")
            raise Superseded(f"Nothing was written: {self.why_lost}.")

    def lose(self, why: str) -> None:
        """From now on this daemon does nothing more; whoever runs it ends it."""
        with self._guard:
            if self.phase is Phase.LOST:
                return
            self.phase, self.why_lost = Phase.LOST, why
        log.error("this daemon is no longer the active one", said=why, term=self.term, instance=self.me.instance)

    # --- one beat

    def tick(self) -> str:
        """Say that this daemon lives, look who is active, take the lock where it is free. Raises StoreError."""
        if self.phase is Phase.LOST:
            return self.why_lost
        asked_at = self._clock.monotonic_seconds()
        with self._session.open() as connection:
            if self.phase is Phase.STANDS_BY:
                return self._stand_by(connection, asked_at)
            return self._confirm(connection, asked_at)

    def _stand_by(self, connection: Connection, asked_at: float) -> str:
        has_tables = self._session.has_tables(connection)
        schema.refuse_newer(self._session.place, connection)
        if has_tables:
            self._beat(connection, is_active=False)
            self._look(connection, asked_at)
        if self._session.try_lock(connection):
            with self._guard:
                self.phase, self._won_at = Phase.WON, self._clock.monotonic_seconds()
            log.info("the lock is ours: this daemon takes over", name=self.me.name, instance=self.me.instance)
            if has_tables:
                self._beat(connection, is_active=True)
            return "takes over"
        if has_tables:
            self._put_out_the_silent(connection, asked_at)
        holder = self.sight.holder
        return f"stands by; {holder.name} is active" if holder is not None else "stands by; another daemon is active"

    def _confirm(self, connection: Connection, asked_at: float) -> str:
        """Is the lock still ours? A new connection after a restart of PostgreSQL takes it again, in the same term."""
        if not self._session.has_lock and not self._take_again(connection):
            return self.why_lost
        if not self._session.has_tables(connection):
            return "takes over"  # the tables are being made
        self._beat(connection, is_active=True)
        self._look(connection, asked_at)
        holder = self.sight.holder
        if self.term is not None and (holder is None or holder.term != self.term):
            self.lose(f"{holder.name} took over in term {holder.term}" if holder else "the term is gone")
            return self.why_lost
        self._confirmed_at = asked_at
        return f"active in term {self.term}" if self.term is not None else "takes over"

    def _take_again(self, connection: Connection) -> bool:
        if self.phase is Phase.WON:
            self.lose("the connection that held the lock broke while this daemon took over")
            return False
        if self._session.try_lock(connection):
            log.info("the lock is ours again, in the same term", term=self.term)
            return True
        if self._session.end_own_holder(connection):
            raise StoreError("An earlier connection of this daemon still held the lock; it is ended.")
        self.lose("the connection that held the lock broke, and another daemon has the lock now")
        return False

    def _put_out_the_silent(self, connection: Connection, asked_at: float) -> None:
        """End the session of an active daemon that is silent: frozen, or its network cut where nobody noticed.

        `asked_at` is of before the look: had this process been frozen itself, it looks once more before it judges.
        """
        pid = self._session.holder_pid(connection)
        here = (daemons.c.cluster == self.me.cluster, daemons.c.backend_pid == pid)
        beat = connection.execute(sa.select(daemons.c.beat).where(*here)).scalar_one_or_none() if pid else None
        if pid is None or beat is None:
            self._seen = None
            return
        if self._seen is None or self._seen[0] != (pid, beat):
            self._seen = ((pid, beat), self._clock.monotonic_seconds())
            return
        silent_seconds = asked_at - self._seen[1]
        if silent_seconds > self._silent_seconds:
            ended = sa.select(sa.func.pg_terminate_backend(sa.cast(daemons.c.backend_pid, sa.Integer)))
            connection.execute(ended.where(*here, daemons.c.beat == beat)).all()
            name = self.sight.holder.name if self.sight.holder else "the active daemon"
            seconds = round(silent_seconds, 1)
            log.warning("the active daemon is silent and is put out", name=name, silent_seconds=seconds)

    def _beat(self, connection: Connection, *, is_active: bool) -> None:
        row = {
            "name": clean(self.me.name),
            "url": clean(self.me.url),
            "version": self.me.version,
            "is_active": is_active,
            "backend_pid": self._session.pid,
            "seen_at_ms": _SERVER_MS,
        }
        is_mine = (daemons.c.cluster == self.me.cluster, daemons.c.instance == self.me.instance)
        update = sa.update(daemons).where(*is_mine).values(**row, beat=daemons.c.beat + 1)
        if connection.execute(update).rowcount == 0:
            old = daemons.c.seen_at_ms < _SERVER_MS - int(GONE_SECONDS * 1000)
            connection.execute(sa.delete(daemons).where(daemons.c.cluster == self.me.cluster, old))
            mine = {"cluster": self.me.cluster, "instance": self.me.instance, "beat": 1}
            connection.execute(sa.insert(daemons).values(**mine, **row))

    def _look(self, connection: Connection, asked_at: float) -> None:
        fresh = daemons.c.seen_at_ms > _SERVER_MS - int(self._silent_seconds * 1000)
        standing_by = (daemons.c.cluster == self.me.cluster, sa.not_(daemons.c.is_active), fresh)
        standbys = connection.execute(sa.select(sa.func.count()).select_from(daemons).where(*standing_by)).scalar_one()
        self.sight = Sight(holder=self._holder(connection), standbys=int(standbys), looked_at_seconds=asked_at)

    def _holder(self, connection: Connection) -> Holder | None:
        asked = sa.select(leadership).where(leadership.c.cluster == self.me.cluster)
        row = connection.execute(asked).one_or_none()
        return _holder_of(row) if row is not None else None

    # --- in and out of office

    def enter(self, database: Database, *, at: datetime) -> int:
        """Begin a term of one's own, with its audit line; the writes of the term before have ended then.

        Raises StoreError; Superseded where the lock was lost meanwhile.
        """
        before = self._before(database)
        if before is not None:
            # A frozen daemon may be in the middle of a transaction, and hold the row that is to be written.
            self._session.end_sessions_of(database, session_name(before.instance))
        with database.write() as connection:
            if not self._session.is_held_by_us(connection):
                self.lose("the lock was lost while this daemon took over")
                raise Superseded(f"Nothing was written: {self.why_lost}.")
            term = self._raise_term(connection, at)
            mine = self._holder(connection)
        self.sight = replace(self.sight, holder=mine)  # whoever asks in this moment hears of us, not of the one before
        acts_from = self._won_at if before is None or before.has_ended else self._won_at + self._trust_seconds
        with self._guard:
            if self.phase is Phase.WON:
                self.term, self._acts_from, self.phase = term, acts_from, Phase.ACTIVE
        if self.phase is Phase.ACTIVE:
            database.fence(self.fence, term=term)
        log.info("this daemon is the active one", term=term, name=self.me.name, instance=self.me.instance)
        return term

    def _before(self, database: Database) -> Holder | None:
        with database.read() as connection:
            return self._holder(connection)

    def _raise_term(self, connection: Connection, at: datetime) -> int:
        connection.execute(sa.text("SET LOCAL lock_timeout = '15s'"))
        is_here = leadership.c.cluster == self.me.cluster
        was = connection.execute(sa.select(leadership).where(is_here).with_for_update()).one_or_none()
        term, is_other = (was.term + 1 if was else 1), was is not None and was.name != clean(self.me.name)
        row = {
            "term": term,
            "instance": self.me.instance,
            "name": clean(self.me.name),
            "url": clean(self.me.url),
            "version": self.me.version,
            "since_ms": _SERVER_MS,
            "ended_at_ms": None,
            "takeovers": (was.takeovers if was else 0) + is_other,
        }
        if was is None:
            connection.execute(sa.insert(leadership).values(cluster=self.me.cluster, **row))
        else:
            connection.execute(sa.update(leadership).where(is_here).values(**row))
        how = "ended" if was is not None and was.ended_at_ms else "fell silent"
        why = f"after {was.name}, which {how} (term {was.term})" if was is not None else ""
        line = AuditLine(at=at, who=f"trimtab on {self.me.name}", what=f"active daemon, term {term}", why=why)
        write_lines(connection, self.me.cluster, [line], term=term)
        return int(term)

    def leave(self, *, is_in_order: bool = True) -> None:
        """Give the office back, so that the next daemon need not wait; where it is in order, nothing is under way."""
        try:
            if self.phase is Phase.ACTIVE and is_in_order:
                with self._session.open() as connection:
                    mine = (leadership.c.cluster == self.me.cluster, leadership.c.term == self.term)
                    connection.execute(sa.update(leadership).where(*mine).values(ended_at_ms=_SERVER_MS))
            with self._session.open() as connection:
                if self._session.has_tables(connection):
                    mine = (daemons.c.cluster == self.me.cluster, daemons.c.instance == self.me.instance)
                    connection.execute(sa.delete(daemons).where(*mine))
        except StoreError as error:
            log.warning("the office could not be given back; it is free once the connection is gone", why=str(error))
        self.close()

    def close(self) -> None:
        """Hang up: the lock is free then."""
        self._session.close()


_SERVER_MS = sa.cast(sa.func.extract("epoch", sa.func.clock_timestamp()) * 1000, sa.BigInteger)
"""The server's clock: no host's own says who lives."""


def _holder_of(row: sa.Row) -> Holder:  # type: ignore[type-arg]
    return Holder(
        term=row.term,
        instance=row.instance,
        name=row.name,
        url=row.url,
        since=from_unix_ms(row.since_ms),
        takeovers=row.takeovers,
        has_ended=row.ended_at_ms is not None,
    )
