"""The daemon as people meet it: the demo asks and approves over the same HTTP API as everybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from trimtab.errors import ClientError
from trimtab.model.board import Board, CommandRow
from trimtab.model.command import CommandState
from trimtab.outbound import OutboundError, session
from trimtab.show.keys import client_file, write_client_file
from trimtab.sim.writes import LASTING

T = TypeVar("T")
_TIMEOUT_SECONDS = 5.0
_WHO = "demo"


@dataclass(frozen=True, slots=True)
class _Link:
    url: str


@dataclass(frozen=True, slots=True)
class _Commands:
    recommendations: tuple[CommandRow, ...]


@dataclass(frozen=True, slots=True)
class _No:
    error: str = ""


class People:
    """Asks one daemon with the operator's token, which it reads anew whenever it has none."""

    def __init__(self, url: str, token_file: Path) -> None:
        """Nothing is asked yet."""
        self._url, self._token_file = url, token_file
        self._session = session(timeout_seconds=_TIMEOUT_SECONDS)
        self._session.headers["X-Trimtab-Who"] = _WHO

    def board(self) -> Board:
        """The board. Raises ClientError while the daemon is down."""
        return self._ask("GET", "/api/v1/board", Board)

    def commands(self) -> tuple[CommandRow, ...]:
        """Every command there was. Raises ClientError."""
        return self._ask("GET", "/api/v1/recommendations?state=all", _Commands).recommendations

    def approve(self, row: CommandRow) -> CommandRow:
        """Agree to a recommendation as it stands. Raises ClientError with the daemon's sentence."""
        body = {"fingerprint": row.fingerprint}
        return self._ask("POST", f"/api/v1/recommendations/{row.command.id}/approve", CommandRow, body)

    def new_link(self) -> str:
        """An address of the page that works once. Raises ClientError."""
        return self._ask("POST", "/api/v1/links", _Link, {}).url

    def token(self) -> str:
        """The operator's token. Raises ClientError until the daemon has made it."""
        try:
            return self._token_file.read_text(encoding="ascii").strip()
        except OSError as error:
            raise ClientError(f"{self._token_file}: {error.strerror}. The daemon writes it when it starts.") from error

    def close(self) -> None:
        """Hang up."""
        self._session.close()

    def _ask(self, method: str, path: str, kind: type[T], body: Mapping[str, object] | None = None) -> T:
        headers = {"Authorization": f"Bearer {self.token()}", "Content-Type": "application/json"}
        data = None if body is None else msgspec.json.encode(body)
        try:
            answer = self._session.request(method, self._url + path, data=data, headers=headers, allow_redirects=False)
        except OutboundError as error:
            raise ClientError(f"The daemon at {self._url} does not answer: {type(error).__name__}.") from error
        if answer.status_code != 200:
            raise ClientError(_sentence(answer.content, answer.status_code))
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.MsgspecError as error:
            raise ClientError(f"{self._url}{path}: {error}") from error


def _sentence(content: bytes, status: int) -> str:
    try:
        said = msgspec.json.decode(content, type=_No).error
    except msgspec.MsgspecError:
        said = ""
    return said or f"The daemon answered {status}."


def count_states(rows: tuple[CommandRow, ...]) -> dict[str, int]:
    """How many commands stand where."""
    return dict(Counter(row.command.state.value for row in rows))


def left_behind(held: Mapping[str, list[str]], rows: tuple[CommandRow, ...]) -> tuple[str, ...]:
    """What our marks hold on the scheduler though no command stands for it; empty is as it must be."""
    by_mark = {row.command.mark: row.command.state for row in rows}
    left = []
    for mark, things in held.items():
        state = by_mark.get(mark)
        if state is not None and not state.is_over:
            continue
        is_settled = state is CommandState.SETTLED
        left += [f"{mark}: {thing}" for thing in things if not (is_settled and thing.endswith(LASTING))]
    return tuple(left)


class ClientFile:
    """The verbs' pointer to this demo; what stood there before is put back at the end."""

    def __init__(self) -> None:
        """Remember what is there."""
        self._path = client_file()
        self._before = self._path.read_bytes() if self._path.exists() else None
        self._is_written = False

    def write(self, *, url: str, token: str) -> None:
        """Point the verbs here."""
        write_client_file(self._path, url=url, token=token)
        self._is_written = True

    def restore(self) -> None:
        """As it was."""
        if self._before is None:
            self._path.unlink(missing_ok=True)
        elif self._is_written:
            part = self._path.with_name(f"{self._path.name}.before")
            part.touch(mode=0o600)
            part.write_bytes(self._before)
            part.replace(self._path)
