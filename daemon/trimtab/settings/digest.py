"""The weekly digest: who gets it, and when."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from trimtab.settings.shape import Section

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class DigestSettings(Section, frozen=True, kw_only=True):
    """What the fleet lost in a week, why, and what the moves should give: sent once a week, made any time on demand."""

    targets: tuple[str, ...] = ()
    """Names of on-call targets (`oncall.targets.NAME`) that get it; mail gets all of it, others the figures. Empty =
    none is sent; `trimtab digest` makes one all the same."""
    weekday: Weekday = "monday"
    """Day on which it is sent: before the week is planned."""
    hour: Annotated[int, Meta(ge=0, le=23)] = 7
    """Hour of that day, in `timezone`."""
    timezone: str = "UTC"
    """Zone of the hour, and of the days in the digest (`Europe/Berlin`)."""
    days: Annotated[int, Meta(ge=1, le=31)] = 7
    """How far it looks back."""
    locale: Literal["en", "zh-CN"] = "en"
    """Its language where the target has none of its own."""
