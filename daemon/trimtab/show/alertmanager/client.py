"""Alertmanager's API v2 as far as it is used here: alerts, silences, status; an object a peer.

Every failure is one of two: not now (PeerDown), or never like this (PeerRefused); both name the peer without secrets.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from trimtab.errors import SettingsError, TrimtabError
from trimtab.handshakes import Keys, sentence_of
from trimtab.model.alerts import Matcher, Silence
from trimtab.outbound import WAITS_PER_EXCHANGE, Answer, OutboundError, exchange, is_loopback
from trimtab.settings.alertmanager import AlertmanagerSettings
from trimtab.settings.load import read_token

T = TypeVar("T")

KEYS = Keys(address="alertmanager.urls", ca="alertmanager.ca_file")
ANSWER_BYTES_MAX = 16 * 1024 * 1024
SENTENCE_CHARACTERS_MAX = 300


class PeerDown(TrimtabError):
    """It could not be asked, or could not answer; later it may."""


class PeerRefused(TrimtabError):
    """It answered no: the same request will always get it."""

    def __init__(self, sentence: str, *, status: int) -> None:
        """The sentence for people, and the HTTP status."""
        super().__init__(sentence)
        self.status = status


class _Matcher(msgspec.Struct):
    name: str
    value: str
    isRegex: bool = False  # noqa: N815 - Alertmanager's own names
    isEqual: bool = True  # noqa: N815


class _State(msgspec.Struct):
    state: str = ""
    silencedBy: tuple[str, ...] = ()  # noqa: N815


class _Silence(msgspec.Struct):
    id: str
    startsAt: datetime  # noqa: N815
    endsAt: datetime  # noqa: N815
    matchers: tuple[_Matcher, ...] | None = ()
    createdBy: str = ""  # noqa: N815
    comment: str = ""
    status: _State = msgspec.field(default_factory=_State)


class KnownAlert(msgspec.Struct):
    """An alert as Alertmanager lists it."""

    labels: dict[str, str]
    fingerprint: str = ""
    annotations: dict[str, str] = {}
    startsAt: datetime | None = None  # noqa: N815
    endsAt: datetime | None = None  # noqa: N815
    status: _State = msgspec.field(default_factory=_State)


class _Made(msgspec.Struct):
    silenceID: str  # noqa: N815


class Status(msgspec.Struct):
    """What an Alertmanager says of itself, as far as we ask."""

    uptime: datetime
    """Since when it runs."""
    versionInfo: dict[str, str] = {}  # noqa: N815


class Peer:
    """One Alertmanager; each request on a connection of its own, bounded in size and time."""

    def __init__(self, url: str, settings: AlertmanagerSettings) -> None:
        """Nothing is sent yet. Raises SettingsError."""
        self._url = check_url(url, settings)
        self.name = urlsplit(self._url).netloc
        """Host and port: what people and metrics call it."""
        self._settings = settings
        self._authorization = _authorization(settings)

    def post_alerts(self, alerts: Sequence[Mapping[str, object]]) -> None:
        """Give it alerts. Raises PeerDown or PeerRefused."""
        self._send("POST", "/api/v2/alerts", body=alerts)

    def status(self) -> Status:
        """Since when it runs, and its version."""
        return self._read("GET", "/api/v2/status", Status)

    def silences(self) -> tuple[Silence, ...]:
        """All silences that are not expired."""
        found = self._read("GET", "/api/v2/silences", list[_Silence])
        return tuple(
            Silence(
                id=one.id,
                matchers=tuple(
                    Matcher(name=each.name, value=each.value, is_regex=each.isRegex, is_equal=each.isEqual)
                    for each in one.matchers or ()
                ),
                starts_at=one.startsAt,
                ends_at=one.endsAt,
                created_by=one.createdBy,
                comment=one.comment,
            )
            for one in found
            if one.status.state != "expired"
        )

    def alerts(self, **labels: str) -> list[KnownAlert]:
        """The alerts that it knows with these labels, silenced and inhibited ones too.

        Without any: those that are about an incident of somebody's.
        """
        wanted = [f"{name}={msgspec.json.encode(value).decode()}" for name, value in labels.items()]
        wanted = wanted or ['incident!=""']
        return self._read("GET", "/api/v2/alerts", list[KnownAlert], params={"filter": wanted})

    def set_silence(self, silence: Silence) -> str:
        """Make a silence, or change the one of its id (same matchers keep the id); the id that it has now."""
        body: dict[str, object] = {
            "matchers": [
                {"name": one.name, "value": one.value, "isRegex": one.is_regex, "isEqual": one.is_equal}
                for one in silence.matchers
            ],
            "startsAt": silence.starts_at,
            "endsAt": silence.ends_at,
            "createdBy": silence.created_by,
            "comment": silence.comment,
        }
        if silence.id:
            body["id"] = silence.id
        return self._read("POST", "/api/v2/silences", _Made, body=body).silenceID

    def end_silence(self, silence_id: str) -> None:
        """Let a silence end now; one that is gone or over is fine."""
        try:
            self._send("DELETE", f"/api/v2/silence/{silence_id}")
        except PeerRefused as error:
            if error.status != 404:
                raise
        except PeerDown as error:
            if "already expired" not in str(error):  # which some versions answer with 500
                raise

    def _read(self, method: str, path: str, kind: type[T], **what: Any) -> T:  # noqa: ANN401 - handed on to _send
        content = self._send(method, path, **what)
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise PeerDown(f"{self.name} answered {path} in a way that is not Alertmanager's: {error}.") from error

    def _send(
        self, method: str, path: str, *, body: object = None, params: Mapping[str, list[str]] | None = None
    ) -> bytes:
        answer = self._request(method, path, body, params)
        if answer.status == 401:
            self._authorization = _authorization(self._settings)  # tokens change while we run
            answer = self._request(method, path, body, params)
        if 200 <= answer.status < 300:
            return answer.body
        sentence = f"{self.name} answered {path} with {answer.status}{_said(answer.body)}"
        # A redirect is no answer: the POST would become a GET. 401 and 403 end when somebody mends the credentials.
        if answer.status in (400, 404, 409, 413, 422):
            raise PeerRefused(sentence, status=answer.status)
        raise PeerDown(sentence)

    def _request(self, method: str, path: str, body: object, params: Mapping[str, list[str]] | None) -> Answer:
        headers = {"Accept": "application/json", **self._authorization}
        query = f"?{urlencode(params, doseq=True)}" if params else ""
        data = None
        try:
            if body is not None:
                data, headers["Content-Type"] = msgspec.json.encode(body), "application/json"
            return exchange(
                method,
                self._url + path + query,
                body=data,
                headers=headers,
                timeout_seconds=self._settings.timeout_seconds / WAITS_PER_EXCHANGE,
                ca_file=self._settings.ca_file or None,
                proxy_url=self._settings.proxy or None,
                answer_bytes_max=ANSWER_BYTES_MAX,
            )
        except OutboundError as error:
            ca_file = self._settings.ca_file
            said = sentence_of(error, url=self._url, keys=KEYS, ca_file=ca_file)
            raise PeerDown(said or f"{self.name} does not answer: {_why(error)}.") from error
        except (OSError, ValueError) as error:  # a CA file that is being replaced, say; a name that cannot be one
            raise PeerDown(f"{self.name} cannot be asked: {error}.") from error


def _authorization(settings: AlertmanagerSettings) -> dict[str, str]:
    """The header, with what the files hold now. Raises SettingsError."""
    if settings.token_file:
        return {"Authorization": f"Bearer {read_token(settings.token_file, environment_name='')}"}
    if settings.user:
        password = read_token(settings.password_file, environment_name="") or ""
        pair = base64.b64encode(f"{settings.user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}


def check_url(url: str, settings: AlertmanagerSettings) -> str:
    """The address without a slash at its end. Raises SettingsError that says what to write."""
    key = "alertmanager.urls"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise SettingsError(f"{key}: {url!r} is no URL: {error}.") from error
    if parts.username or parts.password:
        raise SettingsError(f"{key}: leave the password out of {parts.hostname}'s URL: set user and password_file.")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise SettingsError(f"{key}: {url!r} is not like http://alertmanager:9093.")
    has_secret = bool(settings.token_file or settings.user)
    if parts.scheme == "http" and has_secret and not settings.allow_plaintext and not is_loopback(host):
        raise SettingsError(
            f"{key}: {url} would carry the token or password in the clear. Use https://, or set "
            "alertmanager.allow_plaintext = true if the network is trusted."
        )
    return url.rstrip("/").removesuffix("/api/v2")


def _said(content: bytes) -> str:
    """What it says of it: a JSON text, or an object with `message`."""
    try:
        told = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "."
    text = told.get("message", "") if isinstance(told, dict) else told
    return f": {str(text)[:SENTENCE_CHARACTERS_MAX]}" if text else "."


def _why(error: Exception) -> str:
    """The innermost reason: requests wraps the one sentence that helps three times."""
    reason: BaseException = error
    while (inner := reason.__cause__ or (None if reason.__suppress_context__ else reason.__context__)) is not None:
        reason = inner
    return (str(reason) or type(reason).__name__).rstrip(".")
