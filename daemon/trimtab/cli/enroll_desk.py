"""Where `trimtab enroll` works: by the API, or with --settings beside the daemon, on its database."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from trimtab.cli.client import Client, daemon_options
from trimtab.cli.exits import Exit
from trimtab.errors import ClientError, EnrolmentRefused
from trimtab.show.api_types_enrolment import EnrolledNodes, EnrolmentDone, Joins, enrolled_rows, join_row

if TYPE_CHECKING:
    from trimtab.clock import Clock
    from trimtab.enrolment import Registrar


class Desk(Protocol):
    """What the verbs ask for."""

    def invite(self, nodes: Sequence[str], *, lasts_seconds: float | None, again: bool, reason: str) -> Joins:
        """New join tokens."""
        ...

    def nodes(self) -> EnrolledNodes:
        """Which node has what."""
        ...

    def revoke(self, node: str, *, reason: str) -> EnrolmentDone:
        """A node comes in no more."""
        ...

    def rotate(self, node: str, *, reason: str) -> EnrolmentDone:
        """A node makes a new credential."""
        ...


class ByApi:
    """Asks the daemon."""

    def __init__(self, client: Client) -> None:
        """By this client."""
        self._client = client

    def invite(self, nodes: Sequence[str], *, lasts_seconds: float | None, again: bool, reason: str) -> Joins:
        """New join tokens."""
        lasts = {"lasts_seconds": lasts_seconds} if lasts_seconds else {}
        body = {"nodes": list(nodes), "again": again, "reason": reason, **lasts}
        return self._client.decoded(self._client.post_raw("/api/v1/enrolment", body), Joins)

    def nodes(self) -> EnrolledNodes:
        """Which node has what."""
        return self._client.get("/api/v1/enrolment", EnrolledNodes)

    def revoke(self, node: str, *, reason: str) -> EnrolmentDone:
        """A node comes in no more."""
        return self._done("revoke", node, reason)

    def rotate(self, node: str, *, reason: str) -> EnrolmentDone:
        """A node makes a new credential."""
        return self._done("rotate", node, reason)

    def _done(self, what: str, node: str, reason: str) -> EnrolmentDone:
        raw = self._client.post_raw(f"/api/v1/enrolment/{what}", {"node": node, "reason": reason})
        return self._client.decoded(raw, EnrolmentDone)


class Beside:
    """Works on the daemon's database; a daemon that runs takes it over within half a second."""

    def __init__(self, registrar: Registrar, *, agent_urls: tuple[str, ...], clock: Clock) -> None:
        """By the daemon's own rules."""
        self._registrar = registrar
        self._agent_urls = agent_urls
        self._clock = clock
        self._who = f"{_login()} (beside the daemon)"

    def invite(self, nodes: Sequence[str], *, lasts_seconds: float | None, again: bool, reason: str) -> Joins:
        """New join tokens."""
        made = self._registrar.invite(nodes, by=self._who, lasts_seconds=lasts_seconds, is_again=again, why=reason)
        return Joins(tokens=tuple(join_row(one) for one in made), agent_urls=self._agent_urls)

    def nodes(self) -> EnrolledNodes:
        """Which node has what."""
        facts = self._registrar.facts
        return EnrolledNodes(nodes=enrolled_rows(facts.credentials(), facts.join_tokens(), self._clock.now()))

    def revoke(self, node: str, *, reason: str) -> EnrolmentDone:
        """A node comes in no more."""
        return EnrolmentDone(sentence=self._registrar.revoke(node, by=self._who, why=reason))

    def rotate(self, node: str, *, reason: str) -> EnrolmentDone:
        """A node makes a new credential."""
        return EnrolmentDone(sentence=self._registrar.rotate(node, by=self._who, why=reason))


def desk_options(verb: Callable[..., None]) -> Callable[..., Any]:
    """The options that all verbs share, and --settings; the verb is handed a Desk and whether JSON is asked for."""

    def by_api(client: Client, *, settings_file: None, **given: Any) -> None:  # noqa: ANN401, ARG001 - the verb's own
        verb(desk=ByApi(client), **given)

    by_api.__name__, by_api.__doc__ = verb.__name__, verb.__doc__
    by_api.__click_params__ = getattr(verb, "__click_params__", [])  # type: ignore[attr-defined]
    asks = daemon_options(_beside_option(by_api))

    def run(*, settings_file: Path | None, **given: Any) -> None:  # noqa: ANN401 - the verb's own
        if settings_file is None:
            asks(settings_file=None, **given)
            return
        for name in ("url", "token", "token_file", "ca_file"):
            del given[name]
        try:
            with _beside(settings_file) as desk:
                verb(desk=desk, **given)
        except EnrolmentRefused as no:
            click.echo(f"trimtab: {no}", err=True)
            raise click.exceptions.Exit(Exit.REFUSED) from no
        except ClientError as error:
            click.echo(f"trimtab: {error}", err=True)
            raise click.exceptions.Exit(Exit.USAGE) from error

    run.__name__, run.__doc__ = asks.__name__, asks.__doc__
    run.__click_params__ = asks.__click_params__  # type: ignore[attr-defined]
    run.asks_the_daemon = True  # type: ignore[attr-defined]
    return run


_beside_option = click.option(
    "--settings",
    "settings_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The daemon's settings file: work beside it, on its database, whether it runs or not.",
)


@contextmanager
def _beside(settings_file: Path) -> Iterator[Desk]:
    from trimtab import logs  # noqa: PLC0415 - the daemon's half, for --settings alone
    from trimtab.admission import agent_urls  # noqa: PLC0415
    from trimtab.certificates import authority_of  # noqa: PLC0415
    from trimtab.clock import SystemClock  # noqa: PLC0415
    from trimtab.enrolment import Registrar  # noqa: PLC0415
    from trimtab.settings import DaemonSettings, load  # noqa: PLC0415
    from trimtab.settings.secrets import database_url  # noqa: PLC0415
    from trimtab.store.database import open_database  # noqa: PLC0415
    from trimtab.store.enrolment import EnrolmentFacts  # noqa: PLC0415

    settings, clock = load(settings_file, DaemonSettings), SystemClock()
    logs.setup(level="warning")  # an audit line is for the log, and standard output is the verb's own
    state = Path(settings.state_directory)
    database = open_database(database_url(settings.store), state_directory=state, is_left_as_it_is=True)
    try:
        facts = EnrolmentFacts(database, cluster=settings.cluster)
        registrar = Registrar(facts, settings.enrolment, clock=clock, authority=authority_of(settings))
        yield Beside(registrar, agent_urls=agent_urls(settings), clock=clock)
    finally:
        database.close()


def _login() -> str:
    """The login name, for the audit line; the host's own word."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        return f"uid-{os.getuid()}"
