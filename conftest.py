"""The skip policy: where TRIMTAB_FORBID_SKIPS is set, a skip other than `gpu` or `volcano` is a failure; and Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

ALLOWED_MARKS = ("gpu", "volcano")


def pytest_configure() -> None:
    """A run that a shell put into the background ignores Ctrl-C, and so would every program that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.skipped and _is_forbidden(item) and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: skips are forbidden here, and this one was skipped: {report.longrepr[2]}"
    return report


def _is_forbidden(item: pytest.Item) -> bool:
    is_allowed = any(item.get_closest_marker(mark) for mark in ALLOWED_MARKS)
    return bool(os.environ.get("TRIMTAB_FORBID_SKIPS")) and not is_allowed
