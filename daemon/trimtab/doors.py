"""The daemon's doors: who may come in by the people's listener, and how either listener is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trimtab.clock import Clock, SystemClock
from trimtab.listener import Listener, split_listen
from trimtab.model.command import AuditLine
from trimtab.settings import IngestSettings, PeopleSettings, read_token
from trimtab.show.auth import Door
from trimtab.show.keys import operator_token
from trimtab.show.proxied import proxies_of
from trimtab.store.history import History

TOKEN_FILE = "operator.token"


def people_door(
    people: PeopleSettings, *, state: Path, history: History, audit: Callable[[AuditLine], None], clock: Clock
) -> Door:
    """Tokens, sessions, links and proxies; makes the operator's token at the first start. Raises SettingsError."""
    host, _ = split_listen(people.listen, key="people.listen")
    return Door(
        token=operator_token(state / TOKEN_FILE),
        clock=SystemClock(),
        register=history,
        audit=audit,
        audit_clock=clock,
        proxies=proxies_of(people),
        failures_per_peer_per_minute=people.sign_in_failures_per_peer_per_minute,
        failures_per_minute=people.sign_in_failures_per_minute,
        listen_host=host,
        public_url=people.public_url,
        session_seconds=people.session_seconds,
        metrics_token=read_token(people.metrics_token_file, environment_name="TRIMTAB_METRICS_TOKEN"),
    )


def listener_of(app: Any, name: str, section: PeopleSettings | IngestSettings) -> Listener:  # noqa: ANN401 - ASGI
    """A listener as its section says, bound and not started. Raises SettingsError."""
    return Listener(
        app,
        name=name,
        listen=section.listen,
        certificate_file=section.certificate_file,
        key_file=section.key_file,
        allow_plaintext=section.allow_plaintext,
    )
