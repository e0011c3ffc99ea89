"""What log lines carry so that the journal finds them."""

from __future__ import annotations

from structlog.testing import capture_logs
from tests.builders import a_finding

from trimtab.journaling import log_drill


def test_a_drill_is_found_as_what_it_plays_and_says_that_it_is_one() -> None:
    finding = a_finding(id=31, node="gpu-07", facts={"label": "XID 79"}).finding
    with capture_logs() as lines:
        log_drill("I4", finding)
    [line] = lines
    assert line["event"].startswith("drill")
    assert {name: line[name] for name in ("incident", "xid", "node")} == {
        "incident": "I4",
        "xid": "79",
        "node": "gpu-07",
    }
