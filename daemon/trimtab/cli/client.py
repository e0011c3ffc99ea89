"""The verbs' way to the daemon: finds it, asks it, and turns every failure into a sentence that says what to do."""

from __future__ import annotations

import getpass
import inspect
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from trimtab.errors import ClientError
from trimtab.outbound import OutboundError, session
from trimtab.show.keys import client_file

T = TypeVar("T")

TIMEOUT_SECONDS = 15.0

EXIT_CODES = """\b
Exit codes: 0 done; 1 the daemon says no (its sentence is printed), or doctor found
something; 2 the daemon could not be asked, or the command line is wrong.
"""


DAEMONS_OWN = Path("/var/lib/trimtab/client.toml")
"""What a daemon with the default state directory leaves for whoever may read it there."""


class DaemonSaysNo(ClientError):
    """The daemon answered, and its answer is no."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the daemon is, and which setting said so."""

    url: str
    token: str
    ca_file: str
    said_by: str


def find(*, url: str | None, token: str | None, ca_file: str | None) -> Place:
    """The daemon's address and token: options and environment first, then the client file. Raises ClientError."""
    path = next((one for one in (client_file(), DAEMONS_OWN) if os.access(one, os.R_OK)), client_file())
    kept = {} if url and token else _read(path)
    found_url, found_token = url or kept.get("url"), token or kept.get("token")
    if not found_url:
        raise ClientError(
            f"No daemon is known here: neither {path} nor {DAEMONS_OWN} can be read. Start `trimtab daemon` or "
            "`trimtab demo`, or give --url and --token."
        )
    if not found_token:
        raise ClientError("No token: give --token or TRIMTAB_TOKEN (the daemon keeps it in operator.token).")
    said_by = "--url" if url else str(path)
    return Place(url=found_url.rstrip("/"), token=found_token, ca_file=ca_file or "", said_by=said_by)


def _read(path: Path) -> Mapping[str, str]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ClientError(f"{path}: {error}. Delete it, and the daemon writes it anew when it starts.") from error
    return {key: value for key, value in table.items() if isinstance(value, str)}


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

    def _send(self, method: str, path: str, **what: Any) -> bytes:  # noqa: ANN401 - handed on to requests as it is
        try:
            answer = self._session.request(method, self.place.url + path, allow_redirects=False, **what)
        except OutboundError as error:
            raise ClientError(self._unreachable(error)) from error
        if answer.status_code == 200:
            return answer.content
        sentence = self._sentence(answer.content, answer.status_code)
        if answer.status_code == 401:
            where = self.place.said_by
            raise ClientError(f"The daemon at {self.place.url} does not take this token (address from {where}).")
        raise DaemonSaysNo(sentence)

    def _unreachable(self, error: Exception) -> str:
        if "CERTIFICATE" in str(error).upper():
            return f"The certificate of {self.place.url} is not trusted here. Give --ca-file FILE with its CA."
        return (
            f"The daemon at {self.place.url} does not answer. Is it running? `trimtab doctor` looks further. "
            f"(The address is from {self.place.said_by}.)"
        )

    def _sentence(self, body: bytes, status: int) -> str:
        try:
            return str(msgspec.json.decode(body)["error"])
        except (msgspec.DecodeError, KeyError, TypeError):
            return f"{self.place.url} answered {status}, and not as trimtab does. Is another program on this port?"

    def _decoded(self, raw: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.DecodeError as error:
            raise ClientError(
                f"{self.place.url} answered in a way that this version does not read: {error}. Are the verbs and the "
                "daemon of the same version?"
            ) from error


def daemon_options(
    verb: Callable[..., None] | None = None, *, when_out_of_reach: Callable[..., str] | None = None
) -> Callable[..., Any]:
    """The options that all verbs share; the verb is handed a Client and whether JSON is asked for.

    `when_out_of_reach` is handed the verb's other options and says what to do where the daemon cannot be asked.
    """
    if verb is None:
        return lambda one: daemon_options(one, when_out_of_reach=when_out_of_reach)

    def run(url: str | None, token: str | None, ca_file: str | None, *, is_json: bool, **given: Any) -> None:  # noqa: ANN401
        try:
            verb(client=Client(find(url=url, token=token, ca_file=ca_file)), is_json=is_json, **given)
        except DaemonSaysNo as no:
            click.echo(f"trimtab: {no}", err=True)
            raise click.exceptions.Exit(1) from no
        except ClientError as error:
            click.echo(f"trimtab: {error}", err=True)
            if when_out_of_reach is not None:
                click.echo(when_out_of_reach(**given), err=True)
            raise click.exceptions.Exit(2) from error

    run.__name__, run.__doc__ = verb.__name__, f"{inspect.cleandoc(verb.__doc__ or '')}\n\n{EXIT_CODES}"
    run.__click_params__ = getattr(verb, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--json", "is_json", is_flag=True, help="The same data as JSON."),
        click.option("--ca-file", envvar="TRIMTAB_CA_FILE", help="CA certificate, where the daemon speaks TLS."),
        click.option("--token", envvar="TRIMTAB_TOKEN", help="Operator's token [TRIMTAB_TOKEN, else the client file]."),
        click.option("--url", envvar="TRIMTAB_URL", help="The daemon's address [TRIMTAB_URL, else the client file]."),
    ):
        run = option(run)
    return run


def say_json(raw: bytes) -> None:
    """Print an answer's JSON, indented."""
    click.echo(msgspec.json.format(raw, indent=2))


def _who() -> str:
    """The login name, for the audit line; the host's own word, not proof."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid-{os.getuid()}"
