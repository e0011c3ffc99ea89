"""What must hold before a daemon begins, as far as its settings alone can tell; the clock and the ring they ask for."""

from __future__ import annotations

from datetime import UTC, datetime

from trimtab.clock import Clock, ScaledClock, SystemClock
from trimtab.detect.detector import catalogue
from trimtab.detect.series import SERIES_METRICS
from trimtab.errors import SettingsError
from trimtab.plan.planner import RULE_NAMES
from trimtab.settings import DaemonSettings, SimulatedSettings, pair_trouble
from trimtab.store.ring import Ring

RING_INTERVAL_SECONDS = 10.0
"""The ring's slots: an agent's default interval. Reports that come faster overwrite each other in their slot."""


def check_settings(settings: DaemonSettings) -> None:
    """Settings that do not go together, which a type cannot say. Raises SettingsError."""
    # A misspelt rule would keep the daemon's own mode, which may be a bolder one.
    unknown = sorted(set(settings.issue.rules) - set(RULE_NAMES))
    if unknown:
        raise SettingsError(f"issue.rules: there is no rule {unknown[0]!r}. The rules are {', '.join(RULE_NAMES)}.")
    trouble = pair_trouble(settings.pair, store_url=settings.store.url)
    if trouble is not None:
        raise SettingsError(trouble)


def clock_of(simulated: SimulatedSettings | None) -> Clock:
    """The real one, or the demo's. Raises SettingsError."""
    if simulated is None or not simulated.anchor:
        return SystemClock()
    try:
        anchor = datetime.fromisoformat(simulated.anchor)
    except ValueError as error:
        raise SettingsError(f"simulated.anchor: {simulated.anchor!r} is no ISO moment with its zone.") from error
    return ScaledClock(anchor=anchor.astimezone(UTC), speed=simulated.speed)


def ring_of(settings: DaemonSettings) -> Ring:
    """An empty ring that holds as much as the detectors look back on."""
    detectors = catalogue(settings.detect, spares_kept=settings.plan.spares_kept)
    return Ring(
        cluster=settings.cluster,
        span_seconds=max(detector.span_seconds for detector in detectors),
        interval_seconds=RING_INTERVAL_SECONDS,
        metrics=SERIES_METRICS,
    )
