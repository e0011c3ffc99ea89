"""What a daemon with two Alertmanagers says of them."""

from __future__ import annotations

from tests.fakes.clock import START

from trimtab.show.alertmanager.facts import AlertingFacts, PeerState

ALERTING = AlertingFacts(
    peers=(
        PeerState(name="am-0:9093", posts_total={"taken": 12}, taken_at=START, version="0.31.1"),
        PeerState(name="am-1:9093", posts_total={"failed": 2, "taken": 10}, taken_at=START),
    ),
    pushed_open=2,
    silences=1,
    silence_reads_total={"read": 40},
    silences_read_at=START,
    windows=1,
    quiet_incidents=1,
    others_firing=3,
    others_total={"opened": 4, "ours": 2, "resolved": 1},
)
