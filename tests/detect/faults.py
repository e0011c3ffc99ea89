"""gpu-07 and its driver events, for the tests of device_fault."""

from __future__ import annotations

from tests.builders import a_window, an_xid
from tests.detect.views import at, readings

from trimtab.detect.device_fault import DeviceFault
from trimtab.model.advice import Finding
from trimtab.model.reading import Event
from trimtab.model.window import Window

NODE = "gpu-07"


def judge(window: Window) -> list[Finding]:
    return list(DeviceFault().detect(window))


def only(window: Window) -> Finding:
    (finding,) = judge(window)
    return finding


def live(*events: Event, found=None, seconds: float = 0.0, **changes) -> Window:
    """gpu-07 with eight GPUs, well unless said otherwise, and these events on it."""
    return a_window(
        {NODE: readings(NODE) if found is None else found},
        events=[(NODE, event) for event in events],
        at=at(seconds),
        **changes,
    )


def xid(code: int, seconds: float = 0.0, **changes) -> Event:
    return an_xid(code, node=NODE, at=at(seconds), **changes)
