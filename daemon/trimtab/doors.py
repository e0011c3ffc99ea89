"""The daemon's doors: who may come in by the people's listener, and how either listener is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trimtab.clock import Clock, SystemClock
from trimtab.listener import Listener, split_listen
from trimtab.model.command import AuditLine
from trimtab.seat import Seat
from trimtab.settings import IngestSettings, PeopleSettings, read_token
from trimtab.show.auth import Door
from trimtab.show.keys import operator_token
from trimtab.show.proxied import proxies_of
from trimtab.show.refusals import Answer
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


def listener_of(
    app: Any,  # noqa: ANN401 - ASGI
    name: str,
    section: PeopleSettings | IngestSettings,
    door: Door | None = None,
    *,
    find_door: Callable[[], Door | None] = lambda: None,
    seat: Seat | None = None,
) -> Listener:
    """A listener as its section says, bound and not started; the door counts what is no HTTP. Raises SettingsError.

    `find_door`: for a port that is open before there is a door. `seat`: has the port open already.
    """
    if seat is not None and door is not None:
        return seat.listener(app, name, door)

    def tell(peer: str, why: str) -> None:
        known = door or find_door()
        if known is None:
            return
        what = f"refused a request to the {name} listener"
        known.refusals.note(Answer.BROKEN, who=f"peer {peer}", what=what, why=why)

    return Listener(
        app,
        name=name,
        listen=section.listen,
        certificate_file=section.certificate_file,
        key_file=section.key_file,
        client_ca_file=section.client_ca_file if isinstance(section, IngestSettings) else "",
        allow_plaintext=section.allow_plaintext,
        tell=tell,
        connections_max=section.connections_max,
    )


def tells_of_reports(door: Door) -> Callable[[int, str, str], None]:
    """What the ingest listener calls at each refusal: its status, the peer, the sentence. May write to the store."""

    def tell(status: int, peer: str, why: str) -> None:
        refusals, who, what = door.refusals, f"peer {peer}", "refused reports"
        if status in (401, 403):
            refusals.tell(Answer.STRANGER if status == 401 else Answer.OTHER_NODE, who=who, what=what, why=why)
        else:
            refusals.note(Answer.UNFIT, who=who, what=what, why=why)

    return tell
