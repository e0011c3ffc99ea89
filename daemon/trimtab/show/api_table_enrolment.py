"""The routes of enrolment, a part of the table."""

from __future__ import annotations

from trimtab.show import api_enrolment as does
from trimtab.show import api_types_enrolment as types
from trimtab.show.api_routes import Route, Scope

_TAGS = ("enrolment",)

# fmt: off
ENROLMENT_ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/api/v1/enrolment", handler=does.nodes, response=types.EnrolledNodes, scope=Scope.ADMIN,
          errors=(409, 503), tags=_TAGS, summary="Which nodes are enrolled, by whom, until when, and who was invited"),
    Route(method="POST", path="/api/v1/enrolment", handler=does.invite, response=types.Joins, body=types.AskJoin,
          scope=Scope.ADMIN, errors=(400, 409, 413, 415, 422, 503), tags=_TAGS, body_bytes_max=2 * 1024 * 1024,
          summary="One join token a node, used once; each is told this once"),
    Route(method="POST", path="/api/v1/enrolment/revoke", handler=does.revoke, response=types.EnrolmentDone,
          body=types.AboutNode, scope=Scope.ADMIN, errors=(400, 404, 409, 413, 415, 422, 503), tags=_TAGS,
          summary="Refuse a node's reports from now on, and withdraw its join token"),
    Route(method="POST", path="/api/v1/enrolment/rotate", handler=does.rotate, response=types.EnrolmentDone,
          body=types.AboutNode, scope=Scope.ADMIN, errors=(400, 404, 409, 413, 415, 422, 503), tags=_TAGS,
          summary="Have a node's agent make a new credential after its next report"),
)
# fmt: on
