"""The one table of the API's routes, in the order of the documentation."""

from __future__ import annotations

from trimtab.model.advice import OpenFinding
from trimtab.model.alerts import Maintenance
from trimtab.model.board import Board, CommandRow, GpuHistory
from trimtab.model.digest import Digest
from trimtab.model.past import Ranks, Trends
from trimtab.show import api_alerts as around
from trimtab.show import api_digest as digests
from trimtab.show import api_fleet as fleet
from trimtab.show import api_handlers as does
from trimtab.show import api_history as then
from trimtab.show import api_people as who
from trimtab.show import api_types as types
from trimtab.show import api_types_alerts as alerts
from trimtab.show import api_types_digest as digest_types
from trimtab.show import api_types_history as past
from trimtab.show import api_types_people as people
from trimtab.show.alertmanager.webhook import Webhook
from trimtab.show.api_routes import Route, Scope
from trimtab.show.api_table_enrolment import ENROLMENT_ROUTES
from trimtab.show.api_table_oncall import ONCALL_ROUTES

_READ = Scope.VIEWER
_ACT = Scope.OPERATOR
_DECIDE = ("decisions",)
_PAST = ("history",)
_PEOPLE = ("people",)
_ALERTS = ("alerts",)


def _always(query: object) -> bool:  # noqa: ARG001 - one shape for all
    return True


def _is_past(query: past.BoardQuery) -> bool:
    return bool(query.at)


# fmt: off
ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/healthz", handler=does.health, response=types.Health, scope=Scope.OPEN,
          summary="Whether the daemon answers", tags=("daemon",)),
    Route(method="GET", path="/readyz", handler=does.ready, response=types.Health, scope=Scope.OPEN,
          summary="Whether it is the active daemon; one that stands by answers 503: for load balancers",
          tags=("daemon",)),
    Route(method="GET", path="/api/v1/board", handler=then.board, response=Board, query=past.BoardQuery, scope=_READ,
          errors=(404, 422, 503), is_slow=_is_past,
          summary="Everything on the start view, as of the last beat, or `at` a moment"),
    Route(method="GET", path="/api/v1/fleet/metrics", handler=fleet.fleet_metrics, response=fleet.FleetMetrics,
          scope=_READ, errors=(503,), summary="Metrics that the GPUs have now"),
    Route(method="GET", path="/api/v1/fleet/values", handler=fleet.fleet_values, response=fleet.FleetValues,
          query=fleet.FleetValuesQuery, scope=_READ, errors=(422, 503),
          summary="One metric of all GPUs, in the order of the board"),
    Route(method="GET", path="/api/v1/findings", handler=does.findings, response=types.Findings, scope=_READ,
          query=types.FindingsQuery, errors=(422, 503), summary="What is wrong, worst first; closed ones newest first"),
    Route(method="GET", path="/api/v1/findings/{id}", handler=does.finding, response=OpenFinding, scope=_READ,
          errors=(404,), summary="One finding with its evidence"),
    Route(method="GET", path="/api/v1/recommendations", handler=does.recommendations, response=types.Recommendations,
          query=types.RecommendationsQuery, scope=_READ, errors=(422, 503), summary="What to do"),
    Route(method="GET", path="/api/v1/recommendations/{id}", handler=does.recommendation, response=CommandRow,
          scope=_READ, errors=(404, 503), summary="One recommendation, as the ledger has it now"),
    Route(method="POST", path="/api/v1/recommendations/{id}/approve", handler=does.approve, response=CommandRow,
          body=types.Approval, scope=_ACT, errors=(400, 404, 409, 413, 415, 422, 503), tags=_DECIDE,
          summary="Agree to the exact writes of a fingerprint; the next beat acts"),
    Route(method="POST", path="/api/v1/recommendations/{id}/reject", handler=does.reject, response=CommandRow,
          body=types.Rejection, scope=_ACT, errors=(400, 404, 409, 413, 415, 422, 503), tags=_DECIDE,
          summary="Say no, with a reason that is kept"),
    Route(method="POST", path="/api/v1/recommendations/{id}/snooze", handler=does.snooze, response=CommandRow,
          body=types.Snooze, scope=_ACT, errors=(400, 404, 409, 413, 415, 422, 503), tags=_DECIDE,
          summary="Ask again later"),
    Route(method="POST", path="/api/v1/recommendations/{id}/undo", handler=does.undo, response=CommandRow,
          body=types.Undo, scope=_ACT, errors=(400, 404, 409, 413, 415, 422, 503), tags=_DECIDE,
          summary="Give back what the command holds or changed"),
    Route(method="POST", path="/api/v1/pause", handler=does.pause, response=types.Paused, body=types.Pause,
          scope=_ACT, errors=(400, 409, 413, 415, 422, 503), tags=_DECIDE,
          summary="Start nothing new; what has begun is finished or undone"),
    Route(method="POST", path="/api/v1/resume", handler=does.resume, response=types.Paused, body=types.Resume,
          scope=_ACT, errors=(400, 409, 413, 415, 422, 503), tags=_DECIDE,
          summary="Allow new commands again, or one rule that its breaker had stopped"),
    Route(method="POST", path="/api/v1/allow", handler=does.allow, response=types.Allowed, body=types.Allow,
          scope=_ACT, errors=(400, 409, 413, 415, 422, 503), tags=_DECIDE,
          summary="Lift the veto on a node that a person had opened"),
    Route(method="POST", path="/api/v1/release", handler=does.release_all, response=types.ReleaseAsked,
          body=types.ReleaseAll, scope=Scope.ADMIN, errors=(400, 409, 413, 415, 422, 503), tags=_DECIDE,
          summary="Give everything of this daemon back and stay paused; the board says how far it is"),
    Route(method="GET", path="/api/v1/history", handler=then.history, response=GpuHistory, query=past.HistoryQuery,
          scope=_READ, errors=(422, 503), is_slow=_always,
          tags=_PAST, summary="GPUs' series for charts, with a band of their peers"),
    Route(method="GET", path="/api/v1/trends", handler=then.trends, response=Trends, query=past.TrendsQuery,
          scope=_READ, errors=(404, 422, 503), is_slow=_always, tags=_PAST,
          summary="The strip's numbers over time, and what happened meanwhile"),
    Route(method="GET", path="/api/v1/jobs/{job}/ranks", handler=then.ranks, response=Ranks, query=past.RanksQuery,
          scope=_READ, errors=(404, 422, 503), is_slow=_always,
          tags=_PAST, summary="A job's ranks over time, side by side"),
    Route(method="GET", path="/api/v1/audit", handler=does.audit, response=types.Audit, query=types.AuditQuery,
          scope=_READ, errors=(422, 503), is_slow=_always, tags=("history",), summary="Who did what, why"),
    Route(method="GET", path="/api/v1/doctor", handler=does.doctor, response=types.Doctor, scope=_READ,
          tags=("daemon",), summary="Whether the daemon itself is well, each failure with its fix"),
    Route(method="POST", path="/api/v1/links", handler=who.link, response=types.Link, body=people.AskLink,
          scope=_READ, errors=(400, 413, 415, 422), tags=_PEOPLE,
          summary="A page address that works once, within ten minutes; for callers with a token"),
    Route(method="GET", path="/api/v1/names", handler=who.names, response=people.Names, query=people.NamesQuery,
          scope=_READ, errors=(422,), summary="Names that begin so, for completion and search"),
    Route(method="GET", path="/api/v1/me", handler=who.me, response=people.Me, scope=_READ, tags=_PEOPLE,
          summary="Who is signed in, what they may do, and what the page sends along with each act"),
    Route(method="POST", path="/api/v1/sign-in", handler=who.sign_in, response=people.Me, body=people.SignIn,
          scope=Scope.OPEN, errors=(400, 401, 413, 415, 422, 503), tags=_PEOPLE,
          summary="Give a token, get the page's session as a cookie"),
    Route(method="POST", path="/api/v1/sign-out", handler=who.sign_out, response=people.Ended, body=types.Nothing,
          scope=_READ, errors=(400, 409, 413, 415, 422, 503), tags=_PEOPLE, summary="End the session that asks"),
    Route(method="GET", path="/api/v1/tokens", handler=who.tokens, response=people.Tokens, scope=Scope.ADMIN,
          errors=(503,), tags=_PEOPLE, summary="All tokens that were ever given, without their secrets"),
    Route(method="POST", path="/api/v1/tokens", handler=who.give_token, response=people.TokenGiven,
          body=people.GiveToken, scope=Scope.ADMIN, errors=(400, 409, 413, 415, 422, 503), tags=_PEOPLE,
          summary="Give a person or a program a token; its secret is told this once"),
    Route(method="POST", path="/api/v1/tokens/{id}/revoke", handler=who.revoke_token, response=people.Ended,
          body=people.Revoke, scope=Scope.ADMIN, errors=(400, 404, 413, 415, 422, 503), tags=_PEOPLE,
          summary="Let a token open nothing any more; its sessions are over at once"),
    Route(method="GET", path="/api/v1/sessions", handler=who.sessions, response=people.Sessions, scope=_READ,
          errors=(503,), tags=_PEOPLE, summary="Who is signed in: an admin sees all, others their own"),
    Route(method="POST", path="/api/v1/sessions/{id}/end", handler=who.end_session, response=people.Ended,
          body=types.Nothing, scope=_READ, errors=(400, 404, 413, 415, 422, 503), tags=_PEOPLE,
          summary="End a session: one's own, or as admin anybody's"),
    Route(method="POST", path="/api/v1/webhooks/alertmanager", handler=around.hear, response=alerts.AlertsHeard,
          body=Webhook, scope=Scope.WEBHOOK, errors=(400, 409, 413, 415, 422, 503), tags=_ALERTS,
          body_bytes_max=around.WEBHOOK_BYTES_MAX, summary="Take other people's alerts in, as context"),
    Route(method="GET", path="/api/v1/alerts", handler=around.alerts, response=alerts.Alerts, query=alerts.AlertsQuery,
          scope=_READ, errors=(409, 422, 503), tags=_ALERTS, summary="Other people's alerts, the newest first"),
    Route(method="GET", path="/api/v1/quiet", handler=around.quiet, response=alerts.QuietNow, scope=_READ,
          errors=(409, 503), tags=_ALERTS, summary="Silences and maintenance windows that hold, and what they hush"),
    Route(method="GET", path="/api/v1/maintenance", handler=around.maintenance, response=alerts.MaintenanceWindows,
          scope=_READ, errors=(409, 503), tags=_ALERTS, summary="Maintenance windows"),
    Route(method="POST", path="/api/v1/maintenance", handler=around.add_maintenance, response=Maintenance,
          body=alerts.MaintenanceAsked, scope=_ACT, errors=(400, 409, 413, 415, 422, 503), tags=_ALERTS,
          summary="Let faults of a node, rack or queue page nobody for a while; evacuations go on"),
    Route(method="POST", path="/api/v1/maintenance/{id}/extend", handler=around.extend_maintenance,
          response=Maintenance, body=alerts.MaintenanceExtended, scope=_ACT,
          errors=(400, 404, 409, 413, 415, 422, 503), tags=_ALERTS, summary="Let a window end at another time"),
    Route(method="POST", path="/api/v1/maintenance/{id}/end", handler=around.end_maintenance, response=Maintenance,
          body=types.Nothing, scope=_ACT, errors=(400, 404, 409, 413, 415, 422, 503), tags=_ALERTS,
          summary="End a window now; what is still wrong pages"),
    Route(method="GET", path="/api/v1/digest", handler=digests.digest, response=Digest, query=digest_types.DigestQuery,
          scope=_READ, errors=(422, 503), is_slow=_always, tags=("history",),
          summary="What the fleet did, lost and gained in a stretch of time"),
    Route(method="GET", path="/api/v1/digest/text", handler=digests.digest_text, response=digest_types.DigestText,
          query=digest_types.DigestTextQuery, scope=_READ, errors=(422, 503), is_slow=_always, tags=("history",),
          summary="The same in words, as HTML or Markdown, in English or Chinese"),
    *ENROLMENT_ROUTES,
    *ONCALL_ROUTES,
)
# fmt: on
