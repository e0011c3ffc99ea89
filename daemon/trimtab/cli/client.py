"""The verbs' way to the daemon: finds it, asks it, and turns every failure into a sentence that says what to do."""

from __future__ import annotations

import getpass
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

import click
import msgspec

from trimtab.cli.exits import Exit, help_text
from trimtab.cli.place import Asked, OutOfReach, Place, find
from trimtab.cli.tame import tame
from trimtab.cli.trouble import sentence_of
from trimtab.cli.values import Span
from trimtab.cli.watching import watch
from trimtab.errors import ClientError
from trimtab.outbound import OutboundError, session

T = TypeVar("T")

TIMEOUT_SECONDS = 15.0


class DaemonSaysNo(ClientError):
    """The daemon answered, and its answer is no."""


class Stream(Protocol):
    """As much of an answer that goes on as verbs use."""

    def iter_content(self, chunk_size: int | None) -> Iterable[bytes]:
        """Bytes as they come."""
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...


class Client:
    """Asks one daemon."""

    def __init__(self, place: Place) -> None:
        """Nothing is sent yet."""
        self.place = place
        self._session = session(timeout_seconds=TIMEOUT_SECONDS, ca_file=place.ca_file or None, token=place.token)
        self._session.headers["X-Trimtab-Who"] = _who()

    def get_raw(self, path: str, **query: object) -> bytes:
        """The JSON of a GET."""
        return self._send("GET", path, params={key: str(value) for key, value in query.items() if value is not None})

    def get(self, path: str, kind: type[T], **query: object) -> T:
        """The value of a GET."""
        return self._decoded(self.get_raw(path, **query), kind)

    def post_raw(self, path: str, body: Mapping[str, object]) -> bytes:
        """The JSON of a POST."""
        headers = {"Content-Type": "application/json"}
        return self._send("POST", path, data=msgspec.json.encode(body), headers=headers)

    def decoded(self, raw: bytes, kind: type[T]) -> T:
        """The value in an answer's JSON."""
        return self._decoded(raw, kind)

    def open_stream(self, path: str, *, silent_seconds: float) -> Stream:
        """An answer that goes on; dead after so long without a word. Read it by `chunks`, then close it."""
        answer: Stream = self._ask("GET", path, stream=True, timeout=(TIMEOUT_SECONDS, silent_seconds))
        return answer

    def chunks(self, answer: Stream) -> Iterator[bytes]:
        """What comes of a stream, as it comes. Raises OutOfReach when the line breaks."""
        try:
            yield from answer.iter_content(chunk_size=None)
        except (OutboundError, OSError) as error:
            raise OutOfReach(sentence_of(error, self.place)) from error

    def _send(self, method: str, path: str, **what: Any) -> bytes:  # noqa: ANN401 - handed on to requests as it is
        content: bytes = self._ask(method, path, **what).content
        return content

    def _ask(self, method: str, path: str, **what: Any) -> Any:  # noqa: ANN401 - requests' own answer
        try:
            answer = self._session.request(method, self.place.url + path, allow_redirects=False, **what)
            if answer.status_code == 200:
                return answer
            sentence = self._sentence(answer.content, answer.status_code)
        except (OutboundError, OSError) as error:
            raise OutOfReach(sentence_of(error, self.place)) from error
        if answer.status_code == 401:
            raise DaemonSaysNo(
                f"The daemon at {self.place.url} does not take this token (from {self.place.token_said_by}). "
                "It may have been revoked or have run out: ask an admin for another, then trimtab login."
            )
        raise OutOfReach(sentence) if answer.status_code >= 500 else DaemonSaysNo(sentence)

    def _sentence(self, body: bytes, status: int) -> str:
        try:
            return str(msgspec.json.decode(tame(body))["error"])
        except (msgspec.DecodeError, KeyError, TypeError):
            raise OutOfReach(
                f"{self.place.url} answered {status}, and not as trimtab does. Is another program on this port?"
            ) from None

    def _decoded(self, raw: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(tame(raw), type=kind)
        except msgspec.DecodeError as error:
            raise OutOfReach(
                f"{self.place.url} answered in a way that this version does not read: {error}. Are the verbs and the "
                "daemon of the same version?"
            ) from error


def asked_of(given: Mapping[str, str | None]) -> Asked:
    """What options and environment say; a token that an option gives is not disputed by one of the environment."""
    context = click.get_current_context(silent=True)

    def is_from_environment(name: str) -> bool:
        source = context.get_parameter_source(name) if context is not None else None
        return source is click.core.ParameterSource.ENVIRONMENT

    named = {name: value for name, value in given.items() if value}
    inherited = {name for name in named if is_from_environment(name)}
    tokens = {"token", "token_file"} & named.keys()
    if tokens - inherited:  # an option beats the environment
        for name in tokens & inherited:
            del named[name]
    return Asked(**named, from_environment=frozenset(inherited & named.keys()))


def daemon_options(
    verb: Callable[..., None] | None = None,
    *,
    when_out_of_reach: Callable[..., str] | None = None,
    is_watchable: bool = False,
) -> Callable[..., Any]:
    """The options that all verbs share; the verb is handed a Client and whether JSON is asked for.

    `when_out_of_reach` is handed the verb's other options and says what to do where the daemon cannot be asked.
    `is_watchable` adds --watch, which runs the verb again and again.
    """
    if verb is None:
        return lambda one: daemon_options(one, when_out_of_reach=when_out_of_reach, is_watchable=is_watchable)

    def run(*, is_json: bool, watch_every: float | None = None, **given: Any) -> None:  # noqa: ANN401
        asked = asked_of({name: given.pop(name) for name in ("url", "token", "token_file", "ca_file")})
        try:
            client = Client(find(asked))
            once = partial(verb, client=client, is_json=is_json, **given)
            once() if watch_every is None else watch(once, every_seconds=watch_every, is_json=is_json)
        except DaemonSaysNo as no:
            click.echo(f"trimtab: {no}", err=True)
            raise click.exceptions.Exit(Exit.REFUSED) from no
        except OutOfReach as error:
            click.echo(f"trimtab: {error}", err=True)
            if when_out_of_reach is not None:
                click.echo(when_out_of_reach(**given), err=True)
            raise click.exceptions.Exit(Exit.OUT_OF_REACH) from error
        except ClientError as error:
            click.echo(f"trimtab: {error}", err=True)
            raise click.exceptions.Exit(Exit.USAGE) from error

    name = verb.__name__.replace("_", "-")
    run.__name__, run.__doc__ = verb.__name__, f"{inspect.cleandoc(verb.__doc__ or '')}\n\n{help_text(name)}"
    run.__click_params__ = getattr(verb, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (*(_WATCH if is_watchable else ()), *_SHARED):
        run = option(run)
    run.asks_the_daemon = True  # type: ignore[attr-defined]
    return run


_SHARED = (
    click.option("--json", "is_json", is_flag=True, help="The same data as JSON."),
    click.option("--ca-file", envvar="TRIMTAB_CA_FILE", metavar="FILE",
                 help="CA certificate, where the daemon speaks TLS [TRIMTAB_CA_FILE]."),
    click.option("--token-file", envvar="TRIMTAB_TOKEN_FILE", metavar="FILE",
                 help="File with your token [TRIMTAB_TOKEN_FILE]."),
    click.option("--token", envvar="TRIMTAB_TOKEN", help="Your token itself; `ps` shows it to others [TRIMTAB_TOKEN]."),
    click.option("--url", envvar="TRIMTAB_URL", help="The daemon's address [TRIMTAB_URL, else the client file]."),
)  # fmt: skip
_WATCH = (
    click.option("--watch", "watch_every", is_flag=False, flag_value=2.0, type=Span(), metavar="[SPAN]",
                 help="Again every 2 s (or SPAN) until Ctrl-C; in a pipe only what changed."),
)  # fmt: skip


def say_json(raw: bytes) -> None:
    """Print an answer's JSON, indented."""
    click.echo(msgspec.json.format(raw, indent=2))


def _who() -> str:
    """The login name, for the audit line; the host's own word, not proof."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid-{os.getuid()}"
