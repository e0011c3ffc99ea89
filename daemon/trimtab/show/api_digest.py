"""What the API does with digests: makes one of any stretch, as a value or in words."""

from __future__ import annotations

from trimtab.model.digest import Digest
from trimtab.show.api_history import span
from trimtab.show.api_routes import ApiError, Call, People
from trimtab.show.api_types_digest import DigestText
from trimtab.show.digest.desk import DigestDesk
from trimtab.show.digest.render import as_html, as_markdown


def digest(people: People, call: Call) -> Digest:
    """A digest as a value."""
    query = call.query
    since, until = span(call, query.since, query.until, query.since_seconds)
    return _desk(people).make(since=since, until=until, now=call.now)


def digest_text(people: People, call: Call) -> DigestText:
    """A digest in words."""
    query, zone = call.query, _desk(people).zone
    render = as_html if query.format == "html" else as_markdown
    text = render(digest(people, call), locale=query.locale, zone=zone)
    return DigestText(format=query.format, locale=query.locale, text=text)


def _desk(people: People) -> DigestDesk:
    if people.digests is None:
        raise ApiError(503, "This daemon keeps no history to make a digest from.")
    return people.digests
