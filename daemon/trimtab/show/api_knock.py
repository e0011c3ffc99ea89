"""From a request to who asks: what it brings, whether they may, and the session's cookie."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from trimtab.errors import TrimtabError
from trimtab.model.people import Role
from trimtab.show.api_routes import ApiError, Scope
from trimtab.show.auth import CSRF_HEADER, Caller, Door, Knock, cookie_name
from trimtab.show.refusals import Answer

SAFE_METHODS = ("GET", "HEAD")
_OTHER_SITES = ("cross-site", "same-site")
"""What a browser says in Sec-Fetch-Site of a request that another origin's page makes."""
SIGN_IN = "Sign in at the page with your token or by a link from `trimtab link`; programs send a token as Bearer."


def knock_of(request: Request) -> Knock:
    """What the request says who it is from."""
    headers = request.headers
    sessions = _sessions(request)
    return Knock(
        peer=request.client.host if request.client else "",
        authorization=headers.get("authorization"),
        session=next(iter(sessions)) if len(sessions) == 1 else None,
        is_doubtful=len(sessions) > 1,
        said_who=headers.get("x-trimtab-who"),
        headers=headers.getlist,
    )


def _sessions(request: Request) -> set[str]:
    """The sessions that the cookies name. Two mean that another site of our domain set one (a tossed cookie).

    Over TLS only a `__Host-` cookie counts, which no other site can set.
    """
    host, headers = request.headers.get("host"), request.headers
    is_tls = request.url.scheme == "https" or headers.get("x-forwarded-proto", "").lower() == "https"
    name = cookie_name(host, is_tls=is_tls)
    pairs = (pair.partition("=") for line in headers.getlist("cookie") for pair in line.split(";"))
    return {value.strip() for key, _, value in pairs if key.strip() == name and value.strip()}


def authenticate(door: Door, scope: Scope, request: Request) -> Caller:
    """Who calls; ApiError 401 or 403, TooManyAttempts, StoreError. May ask the store: call it on a worker thread."""
    if scope is Scope.OPEN:
        return Caller(who="anybody", has_token=False)
    knock = knock_of(request)
    if scope is Scope.METRICS:
        if not door.may_read_metrics(knock, host=request.headers.get("host")):
            raise ApiError(401, "Send the metrics token or a person's as Bearer; without one, only this host may read.")
        return Caller(who="a reader of metrics", has_token=True)
    caller = door.caller(knock)
    if caller is None:
        raise ApiError(401, SIGN_IN)
    needed = scope.needed
    if needed is not None:
        _check_role(door, caller, needed, request)
    if request.method not in SAFE_METHODS:
        check_origin(door, caller, request)
    else:
        check_reader(door, caller, request)
    return caller


def _check_role(door: Door, caller: Caller, needed: Role, request: Request) -> None:
    if caller.role is not None and caller.role.covers(needed):
        return
    has = f"{caller.who} has the role {caller.role}" if caller.role else f"{caller.who} has none (people.proxy_roles)"
    sentence = f"This needs the role {needed}; {has}. Nothing was done."
    door.refusals.tell(Answer.ROLE, who=caller.who, what=f"refused {request.method} {request.url.path}", why=sentence)
    raise ApiError(403, sentence)


def check_origin(door: Door, caller: Caller, request: Request) -> None:
    """An act must come from our own page, or from a program with its own token. ApiError 403."""
    headers = request.headers
    origin = headers.get("origin")
    if caller.has_token and origin is None:
        return
    if not door.is_same_origin(origin=origin, host=headers.get("host")):
        sentence = "The request comes from another page than ours (Origin does not match); nothing was done."
    elif not caller.has_token and not door.is_page(caller, headers.get(CSRF_HEADER)):
        sentence = f"The request lacks the page's own {CSRF_HEADER} (GET /api/v1/me tells it); nothing was done."
    else:
        return
    door.refusals.tell(
        Answer.OTHER_PAGE, who=caller.who, what=f"refused {request.method} {request.url.path}", why=sentence
    )
    raise ApiError(403, sentence)


def check_reader(door: Door, caller: Caller, request: Request) -> None:
    """What a browser reads by its session it reads for our page: no other page opens a stream. ApiError 403."""
    headers = request.headers
    if caller.has_token or headers.get("sec-fetch-mode") == "navigate":
        return
    origin = headers.get("origin")
    is_other = origin is not None and not door.is_same_origin(origin=origin, host=headers.get("host"))
    if not is_other and headers.get("sec-fetch-site", "") not in _OTHER_SITES:
        return
    sentence = "The request comes from another page than ours; nothing was told."
    door.refusals.tell(
        Answer.OTHER_PAGE, who=caller.who, what=f"refused {request.method} {request.url.path}", why=sentence
    )
    raise ApiError(403, sentence)


def is_welcome(door: Door, knock: Knock) -> bool:
    """Whether a reader of the stream may read on; doubt ends the stream, and the reader asks anew."""
    try:
        caller = door.caller(knock)
    except TrimtabError:
        return False
    return caller is not None and caller.role is not None and caller.role.covers(Role.VIEWER)


def keep_session(answer: Response, secret: str, *, door: Door, request: Request) -> None:
    """Give the browser its session, or with an empty secret take it away."""
    is_tls = _is_tls(door, request)
    answer.set_cookie(
        cookie_name(request.headers.get("host"), is_tls=is_tls),
        secret,
        max_age=int(door.session_seconds) if secret else 0,
        path="/",
        secure=is_tls,
        httponly=True,
        samesite="strict",
    )


def _is_tls(door: Door, request: Request) -> bool:
    if request.url.scheme == "https" or door.public_url.startswith("https://"):
        return True
    peer = request.client.host if request.client else ""
    return door.proxies.is_listed(peer) and request.headers.get("x-forwarded-proto", "").lower() == "https"
