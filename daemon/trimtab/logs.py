"""Logging: structlog to stderr, JSON under systemd, readable on a terminal. Secrets are never logged."""

from __future__ import annotations

import logging
import os
import sys

import structlog


def setup(*, level: str = "info", as_json: bool | None = None) -> None:
    """Configure structlog once per process; JSON when journald is listening or stderr is no terminal."""
    if as_json is None:
        as_json = "JOURNAL_STREAM" in os.environ or not sys.stderr.isatty()
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,  # a cached logger outlives a later setup, and the tests' capture
    )
