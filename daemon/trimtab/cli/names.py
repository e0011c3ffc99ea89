"""Names for the shell's completion: asked of the daemon with little patience, and silent when anything is amiss."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from trimtab.cli.place import Asked, find
from trimtab.errors import ClientError
from trimtab.outbound import OutboundError, session
from trimtab.show.api_types_people import Names

PATIENCE_SECONDS = 1.0
"""Somebody has pressed Tab and waits."""


def known(kind: str, begins: str, options: Mapping[str, str | None]) -> Sequence[tuple[str, str]]:
    """Names of a kind that begin so, each with a few words; none where the daemon does not answer at once."""
    given = {name: options.get(name) or os.environ.get(f"TRIMTAB_{name.upper()}") for name in options}
    try:
        place = find(
            Asked(
                url=given.get("url"),
                token=given.get("token"),
                token_file=given.get("token_file"),
                ca_file=given.get("ca_file"),
            )
        )
        with session(timeout_seconds=PATIENCE_SECONDS, ca_file=place.ca_file or None, token=place.token) as asking:
            answer = asking.get(f"{place.url}/api/v1/names", params={"kind": kind, "begins": begins})
            found = msgspec.json.decode(answer.content, type=Names) if answer.status_code == 200 else Names(names=())
    except (ClientError, OutboundError, OSError, msgspec.DecodeError):
        return ()
    return [(one.name, one.about) for one in found.names]
