"""What the API takes and gives of digests."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from trimtab.show.api_types import SinceSeconds
from trimtab.show.api_types_history import Moment


class DigestQuery(Struct, frozen=True, kw_only=True):
    """Which stretch: two moments, or so long back from the second (else from now)."""

    since: Moment = ""
    until: Moment = ""
    since_seconds: SinceSeconds = 7 * 86400.0


class DigestTextQuery(DigestQuery, frozen=True, kw_only=True):
    """The same, in which form and language."""

    format: Literal["html", "markdown"] = "html"
    locale: Literal["en", "zh-CN"] = "en"


class DigestText(Struct, frozen=True, kw_only=True):
    """A digest in words."""

    format: str
    locale: str
    text: str
