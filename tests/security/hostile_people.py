"""Hostile requests to the people listener: in somebody else's name, from another page, signed by nobody, said twice."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable

from tests.security.hall import SECRETS, Hall
from tests.security.hostile import Came, Hostile, people

JSON = "Content-Type: application/json"
PAUSE = b'{"reason": "owned"}'
EVIL = "https://evil.example"


def _by_page(path: str, *lines: str, method: str = "POST", csrf: str = "", cookies: str = "") -> Callable[[Hall], Came]:
    """With an operator's session, as a browser that was lured would send it."""

    def fire(hall: Hall) -> Came:
        cookie, _ = hall.session("operator")
        proof = [f"X-Trimtab-CSRF: {csrf}"] if csrf else []
        body = PAUSE if method == "POST" else b""
        all_lines = (f"Cookie: {cookie}{cookies}", *([JSON] if body else []), *proof, *lines)
        return people(method, path, *all_lines, body=body)(hall)

    return fire


def _wrong_many_times(hall: Hall) -> Came:
    came = Came(0, "")
    for number in range(hall.failures_max + 2):
        came = people("GET", "/api/v1/me", f"Authorization: Bearer trimtab_guess{number}")(hall)
    return came


def _signed_pagerduty(secret: str, body: bytes) -> str:
    return "X-PagerDuty-Signature: v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _slack(hall: Hall, *, age_seconds: int, secret: str) -> Came:
    body, at = b"payload=%7B%22type%22%3A%22block_actions%22%7D", hall.unix_seconds() - age_seconds
    digest = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    lines = (f"X-Slack-Request-Timestamp: {at}", f"X-Slack-Signature: v0={digest}")
    return people("POST", "/api/v1/callbacks/slack", *lines, body=body)(hall)


_EVENT = json.dumps({"event": {"id": "E1", "event_type": "incident.resolved"}}).encode()
_DEEP_EVENT = b'{"x": ' + b"[" * 60_000
_DEEP = b'{"alerts": [], "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


def _row(name: str, group: str, sends: str, fire: object, *, status: int, says: str, **more: str) -> Hostile:
    meets = {200: "200, and no value", 401: "401", 403: "403, nothing done", 429: "429 with Retry-After"}.get(
        status, f"{status}, nothing done"
    )
    return Hostile(
        name=name, group=group, sends=sends, meets=meets, statuses=(status,), says=says, fire=fire, **more,  # type: ignore[arg-type]
    )  # fmt: skip


_OTHER_PAGE, _WRONG = "refused POST /api/v1/pause", "refused to sign in"
ROWS: tuple[Hostile, ...] = (
    _row("DNS rebinding", "other pages", "`Host: evil.example`, without a token",
         people("GET", "/", "Host: evil.example"), status=403, says="not one of mine",
         audit="refused GET under another name", answer="other_host"),
    _row("DNS rebinding with a session", "other pages", "`Host: evil.example:PORT` and the page's cookie",
         _by_page("/api/v1/pause", "Host: evil.example"), status=403, says="not one of mine",
         audit="refused POST under another name", answer="other_host"),
    _row("CSRF by a form", "other pages", "a POST with the page's cookie and another `Origin`",
         _by_page("/api/v1/pause", f"Origin: {EVIL}"), status=403, says="another page than ours", audit=_OTHER_PAGE,
         answer="other_page"),
    _row("CSRF without Origin", "other pages", "a POST with the page's cookie and no `Origin`",
         _by_page("/api/v1/pause"), status=403, says="another page than ours", audit=_OTHER_PAGE, answer="other_page"),
    _row("CSRF from a sandbox", "other pages", "`Origin: null`", _by_page("/api/v1/pause", "Origin: null"), status=403,
         says="another page than ours", audit=_OTHER_PAGE, answer="other_page"),
    _row("CSRF with a guessed proof", "other pages", "our `Origin`, an invented `X-Trimtab-CSRF`",
         lambda hall: _by_page("/api/v1/pause", f"Origin: {hall.url}", csrf="0" * 64)(hall), status=403,
         says="lacks the page's own", audit=_OTHER_PAGE, answer="other_page"),
    _row("event stream of another page", "other pages", "the stream with the page's cookie and another `Origin`",
         _by_page("/api/v1/events", f"Origin: {EVIL}", method="GET"), status=403, says="another page than ours",
         audit="refused GET /api/v1/events", answer="other_page"),
    _row("board by a neighbour's page", "other pages", "a read with the cookie, `Sec-Fetch-Site: same-site`",
         _by_page("/api/v1/board", "Sec-Fetch-Site: same-site", method="GET"), status=403,
         says="another page than ours", audit="refused GET /api/v1/board", answer="other_page"),
    _row("tossed cookie", "sessions", "two session cookies, one of them planted",
         lambda hall: _by_page("/api/v1/board", method="GET", cookies=f"; {hall.cookie_name}=planted")(hall),
         status=401, says="Sign in", audit="ignored sessions", answer="two_sessions"),
    _row("planted session", "sessions", "a session cookie that nobody was given",
         lambda hall: people("GET", "/api/v1/board", f"Cookie: {hall.cookie_name}={'p' * 43}")(hall), status=401,
         says="Sign in", told="401 alone: without a credential there is nobody to name"),
    _row("a link used twice", "sessions", "a one-time link that somebody has opened", lambda hall: hall.used_link(),
         status=403, says="used already", audit=_WRONG, answer="wrong"),
    _row("invented token", "others' credentials", "`Authorization: Bearer` of nobody",
         people("GET", "/api/v1/board", credential="invented"), status=401, says="Sign in", audit=_WRONG,
         answer="wrong"),
    _row("a node's token at the API", "others' credentials", "n1's token at the people listener",
         people("GET", "/api/v1/board", credential="node"), status=401, says="Sign in", audit=_WRONG, answer="wrong"),
    _row("revoked token", "others' credentials", "a token that was revoked",
         people("GET", "/api/v1/board", credential="revoked"), status=401, says="Sign in", audit=_WRONG,
         answer="wrong"),
    _row("forged proxy headers", "others' credentials", "`X-Forwarded-User: admin` from no listed proxy",
         people("GET", "/api/v1/board", "X-Forwarded-User: admin"), status=401, says="Sign in",
         audit="ignored a proxy's headers", answer="forged_headers"),
    _row("a viewer who decides", "scopes", "a viewer's POST to pause",
         people("POST", "/api/v1/pause", JSON, body=PAUSE, credential="viewer"), status=403, says="needs the role",
         audit=_OTHER_PAGE, answer="role"),
    _row("an operator who gives tokens", "scopes", "an operator's POST to tokens",
         people("POST", "/api/v1/tokens", JSON, body=b'{"name": "eve", "role": "admin"}', credential="operator"),
         status=403, says="needs the role", audit="refused POST /api/v1/tokens", answer="role"),
    _row("a webhook that reads", "scopes", "a webhook's token at the board",
         people("GET", "/api/v1/board", credential="webhook"), status=403, says="needs the role",
         audit="refused GET /api/v1/board", answer="role"),
    _row("metrics without a token", "scopes", "`GET /metrics`, a metrics token is set", people("GET", "/metrics"),
         status=401, says="metrics token", audit="refused GET /metrics", answer="unread"),
    _row("discovery without a token", "scopes", "`GET /sd`", people("GET", "/sd"), status=401, says="metrics token",
         audit="refused GET /sd", answer="unread"),
    _row("metrics through a proxy", "scopes", "`X-Forwarded-For: 127.0.0.1`",
         people("GET", "/metrics", "X-Forwarded-For: 127.0.0.1"), status=401, says="metrics token",
         audit="refused GET /metrics", answer="unread"),
    _row("forged PagerDuty call-back", "webhooks", "signed with another secret",
         people("POST", "/api/v1/callbacks/pagerduty", _signed_pagerduty("guess", _EVENT), body=_EVENT), status=401,
         says="not PagerDuty's", audit="refused a call-back in the name of PagerDuty", answer="unsigned"),
    _row("changed PagerDuty call-back", "webhooks", "signed, then another body",
         people("POST", "/api/v1/callbacks/pagerduty", _signed_pagerduty(SECRETS["pd.secrets"], _EVENT),
                body=_EVENT.replace(b"E1", b"E2")),
         status=401, says="not PagerDuty's", audit="refused a call-back in the name of PagerDuty", answer="unsigned"),
    _row("forged Slack call-back", "webhooks", "signed with another secret",
         lambda hall: _slack(hall, age_seconds=0, secret="guess"), status=401, says="not Slack's",
         audit="refused a call-back in the name of Slack", answer="unsigned"),
    _row("replayed Slack call-back", "webhooks", "rightly signed, six minutes ago",
         lambda hall: _slack(hall, age_seconds=360, secret=SECRETS["slack.secret"]), status=401, says="not Slack's",
         audit="refused a call-back in the name of Slack", answer="unsigned"),
    _row("forged webhook of ours", "webhooks", "`webhook-signature` of nobody's key",
         people("POST", "/api/v1/callbacks/webhook", "webhook-id: m1", "webhook-timestamp: 1",
                "webhook-signature: v1,x", body=b"{}"), status=401, says="not the receiver's",
         audit="refused a call-back in the name of the receiver", answer="unsigned"),
    _row("another program's JSM call-back", "webhooks", "a webhook's token that is not its target's",
         people("POST", "/api/v1/callbacks/jsm", body=b"{}", credential="webhook"), status=403,
         says="Call-backs of JSM", audit="refused a call-back in the name of JSM", answer="unsigned"),
    _row("a body of 65 KiB", "sizes", "65 KiB to a decision",
         people("POST", "/api/v1/pause", JSON, body=b'{"reason": "' + b"a" * 66000 + b'"}', credential="operator"),
         status=413, says="larger than", answer="unfit"),
    _row("a key twice", "bodies", "`reason` twice in one body",
         people("POST", "/api/v1/pause", JSON, body=b'{"reason": "a", "reason": "b"}', credential="operator"),
         status=400, says="says `reason` twice", answer="unfit"),
    _row("a form for JSON", "bodies", "`text/plain`, as a form of another page can send it",
         people("POST", "/api/v1/sign-in", "Content-Type: text/plain", body=b'{"token": "x"}'), status=415,
         says="application/json", answer="unfit"),
    _row("NaN in a decision", "bodies", "`\"seconds\": NaN`",
         people("POST", "/api/v1/recommendations/1/snooze", JSON, body=b'{"seconds": NaN}', credential="operator"),
         status=400, says="not JSON", answer="unfit"),
    _row("deep JSON in a delivery", "bodies", "400 kB of brackets in an alert's delivery",
         people("POST", "/api/v1/webhooks/alertmanager", JSON, body=_DEEP, credential="webhook"), status=400,
         says="not JSON", answer="unfit"),
    _row("deep JSON in a signed call-back", "bodies", "60 kB of brackets, rightly signed",
         people("POST", "/api/v1/callbacks/pagerduty", _signed_pagerduty(SECRETS["pd.secrets"], _DEEP_EVENT),
                body=_DEEP_EVENT), status=400, says="cannot be read", answer="unfit"),
    _row("a path's number of 5,000 digits", "bodies", "`GET /api/v1/findings/999…`",
         people("GET", "/api/v1/findings/" + "9" * 5000, credential="viewer"), status=404, says="nothing at",
         told="404 alone: it is no address of ours"),
    _row("SQL in an id", "queries", "`GET /api/v1/findings/1%20OR%201=1`",
         people("GET", "/api/v1/findings/1%20OR%201=1", credential="viewer"), status=404, says="nothing at",
         told="404 alone: it is no address of ours"),
    _row("SQL in a job's name", "queries", "`x' UNION SELECT …` as a job",
         people("GET", "/api/v1/jobs/x'%20UNION%20SELECT%20secret%20FROM%20person_tokens--/ranks", credential="viewer"),
         status=404, says="No job", told="404 alone: the text is a parameter, never a part of a statement"),
    _row("SQL in a query", "queries", "`state=open'; DROP TABLE findings--`",
         people("GET", "/api/v1/findings?state=open';%20DROP%20TABLE%20findings--", credential="viewer"), status=422,
         says="not right", told="422 alone: not one of the values that there are"),
    _row("PromQL in a metric's name", "queries", "`metric=up{x=\"y\"} or vector(1)`",
         people("GET", "/api/v1/fleet/values?metric=up%7Bx=%22y%22%7D%20or%20vector(1)", credential="viewer"),
         status=200, says="null", told="no value: metrics are looked up in a table, no query is made of them"),
    _row("guessing", "others' credentials", "wrong tokens until the bound", _wrong_many_times, status=429,
         says="Too many wrong attempts", audit="held up sign-ins", answer="held_up"),
)  # fmt: skip
