"""What a database's error means to the person who runs trimtab: one sentence with the place and the fix."""

from __future__ import annotations

from trimtab.handshakes import Keys, sentence_of_text

_TLS_KEYS = Keys(address="store.url", ca="sslrootcert in store.url", certificate="sslcert and sslkey in store.url")
_SQLITE = {
    "SQLITE_BUSY": "another process keeps it locked. Is a second trimtab daemon running on it? Stop one of the two.",
    "SQLITE_LOCKED": "another process keeps it locked. Is a second trimtab daemon running on it? Stop one of the two.",
    "SQLITE_CORRUPT": "the file is damaged. {mend}",
    "SQLITE_NOTADB": "the file is damaged, or no SQLite database. {mend}",
    "SQLITE_FULL": "the disk is full. Make room, or keep less (store.journal_days); agents keep their reports so long.",
    "SQLITE_READONLY": "it cannot be written. Give the daemon's user the right to write the file and its directory.",
    "SQLITE_CANTOPEN": "it cannot be opened. Give the daemon's user the right to write the file and its directory.",
    "SQLITE_PERM": "it cannot be opened. Give the daemon's user the right to write the file and its directory.",
    "SQLITE_IOERR": "the disk failed to read or write it. Look at the kernel log for its errors.",
}
_MEND = (
    "Stop the daemon, move the file and its -wal and -shm neighbours aside, and restore a backup or start with a new "
    "one; agents send again what was not acknowledged."
)

_AWAY = "the database is out of reach. Check that it runs and that store.url is right; it is tried again."

# By SQLSTATE, or its class (first two characters).
_POSTGRESQL = {
    "08": "the connection broke. It is tried again.",
    "28": "it does not let this user in. Check user and password in store.url (or PGPASSWORD) and pg_hba.conf.",
    "3D": "there is no such database. Create it: createdb -E UTF8 NAME.",
    "25006": "it is a read-only standby. Point store.url at the primary.",
    "42501": "this user may not do that. Grant it: GRANT ALL ON SCHEMA public TO the daemon's user.",
    "42P01": "a table is missing: was it dropped under the running daemon? Restart the daemon to make it anew.",
    "53100": "the server's disk is full. Make room; agents keep their reports so long.",
    "53300": "it has no connection left. Raise max_connections, or stop what holds them.",
    "53": "it has run out of memory, disk or connections.",
    "55P03": "a lock was not to be had. Another program works on trimtab's tables.",
    "57P": "the server is stopping or starting. It is tried again.",
}


def sentence_of(error: Exception, *, place: str, password: object = None) -> str:
    """One sentence: place, what is wrong, what to do; the driver's own words at the end. Never the password."""
    cause = getattr(error, "orig", None) or error
    words = " ".join(str(cause).split()) or type(cause).__name__
    if password:
        words = words.replace(str(password), "***")
    return f"{place}: {_meaning(cause)} ({words})"


def is_away(error: Exception) -> bool:
    """Whether PostgreSQL is out of reach, starting or full of connections: nothing that a setting would mend."""
    cause = getattr(error, "orig", None) or error
    if getattr(cause, "sqlite_errorname", None) is not None:
        return False
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return str(state)[:2] == "08" or str(state)[:3] in ("57P", "533")
    return _without_state(str(cause)) == _AWAY


def _meaning(cause: object) -> str:
    name = getattr(cause, "sqlite_errorname", None)
    if name is not None:
        family = "_".join(str(name).split("_")[:2])
        return _SQLITE.get(family, "SQLite refused.").format(mend=_MEND)
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        known = (_POSTGRESQL.get(str(state)[:length]) for length in (5, 3, 2))
        return next((text for text in known if text), "PostgreSQL refused.")
    return _without_state(str(cause))


def _without_state(words: str) -> str:
    # libpq reports a failed connection as text alone.
    tls = sentence_of_text(words, host="PostgreSQL", keys=_TLS_KEYS)
    if tls is not None:
        return tls
    if "password authentication" in words or "no pg_hba.conf entry" in words or "no password supplied" in words:
        return _POSTGRESQL["28"]
    if "does not exist" in words and "database" in words:
        return _POSTGRESQL["3D"]
    return _AWAY
