"""The routes of on-call, as rows of the one table."""

from __future__ import annotations

from trimtab.show import api_oncall as does
from trimtab.show import api_types_oncall as types
from trimtab.show.api_routes import Route, Scope

_TAGS = ("on-call",)
_WRITES = (400, 404, 409, 413, 415, 422, 503)
_CALLBACKS = (400, 401, 413, 503)

# fmt: off
ONCALL_ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/api/v1/incidents", handler=does.incidents, response=types.Incidents,
          query=types.IncidentsQuery, scope=Scope.VIEWER, errors=(422, 503), tags=_TAGS,
          summary="What people were told is wrong, newest first"),
    Route(method="GET", path="/api/v1/incidents/{id}", handler=does.incident, response=types.IncidentStory,
          scope=Scope.VIEWER, errors=(404, 503), tags=_TAGS, summary="One incident and every message about it"),
    Route(method="POST", path="/api/v1/incidents/{id}/acknowledge", handler=does.acknowledge,
          response=types.IncidentStory, body=types.Acknowledgement, scope=Scope.OPERATOR, errors=_WRITES, tags=_TAGS,
          summary="Somebody has it: every target is told"),
    Route(method="POST", path="/api/v1/findings/{id}/acknowledge", handler=does.acknowledge_finding,
          response=types.IncidentStory, body=types.Acknowledgement, scope=Scope.OPERATOR, errors=_WRITES, tags=_TAGS,
          summary="The same, by the finding's id"),
    Route(method="GET", path="/api/v1/outbox", handler=does.outbox, response=types.OutboxLetters,
          query=types.OutboxQuery, scope=Scope.VIEWER, errors=(422, 503), tags=_TAGS,
          summary="Messages that are dead or wait, and how many there are"),
    Route(method="POST", path="/api/v1/outbox/{id}/resend", handler=does.resend, response=types.Resent,
          body=types.Acknowledgement, scope=Scope.OPERATOR, errors=_WRITES, tags=_TAGS,
          summary="Try a dead message again"),
    Route(method="GET", path="/api/v1/oncall", handler=does.oncall, response=types.OnCall, scope=Scope.VIEWER,
          errors=(503,), tags=_TAGS, summary="Who pages, and how each target does"),
    Route(method="POST", path="/api/v1/pager", handler=does.switch_pager, response=types.OnCall,
          body=types.PagerChoice, scope=Scope.OPERATOR, errors=_WRITES, tags=_TAGS,
          summary="Let somebody else page for what opens from now on"),
    Route(method="POST", path="/api/v1/drills", handler=does.drill, response=types.IncidentStory,
          body=types.DrillOrder, scope=Scope.OPERATOR, errors=_WRITES, tags=_TAGS,
          summary="A labelled synthetic fault the whole way to people"),
    Route(method="POST", path="/api/v1/drills/{id}/end", handler=does.end_drill, response=types.IncidentStory,
          body=types.Acknowledgement, scope=Scope.OPERATOR, errors=_WRITES, tags=_TAGS,
          summary="End a drill before its time"),
    Route(method="POST", path="/api/v1/callbacks/pagerduty", handler=does.pagerduty_callback,
          response=types.CallbackTaken, scope=Scope.OPEN, errors=_CALLBACKS, tags=_TAGS, is_raw=True,
          summary="PagerDuty's webhook v3, by its signature"),
    Route(method="POST", path="/api/v1/callbacks/slack", handler=does.slack_callback,
          response=types.CallbackTaken, scope=Scope.OPEN, errors=_CALLBACKS, tags=_TAGS, is_raw=True,
          summary="Slack's interactive call-back, by its signature"),
    Route(method="POST", path="/api/v1/callbacks/jsm", handler=does.jsm_callback,
          response=types.CallbackTaken, scope=Scope.WEBHOOK, errors=_CALLBACKS, tags=_TAGS, is_raw=True,
          summary="JSM's or Opsgenie's outgoing webhook, by a token of role webhook"),
    Route(method="POST", path="/api/v1/callbacks/webhook", handler=does.webhook_callback,
          response=types.CallbackTaken, scope=Scope.OPEN, errors=_CALLBACKS, tags=_TAGS, is_raw=True,
          summary="What the receiver of our own webhooks tells in turn, by its signature"),
    Route(method="GET", path="/api/v1/oncall/webhook-schema", handler=does.webhook_schema,
          response=types.WebhookSchema, scope=Scope.OPEN, tags=_TAGS,
          summary="JSON Schema of the body of our own webhooks"),
)
# fmt: on
