"""What silences match: by our own reading, held to what a real Alertmanager says of the same silences and alerts."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from tests.fakes.clock import START

from trimtab.model.alerts import Matcher, Silence
from trimtab.settings import AlertmanagerSettings
from trimtab.show.alertmanager.client import Peer
from trimtab.show.alertmanager.matching import compiled, matches

LABELS = [
    {"alertname": "TrimtabDeviceFault", "cluster": "hall-a", "node": "gpu-07", "gpu": "GPU-1", "incident": "a"},
    {"alertname": "TrimtabNodeSilent", "cluster": "hall-a", "node": "gpu-08", "incident": "b"},
    {"alertname": "TrimtabHungJob", "cluster": "hall-a", "workload": "research/llama-70b", "incident": "c"},
    {"alertname": "TrimtabHotspot", "cluster": "hall-a", "node": "GPU-07", "queue": "Zug-Ä", "incident": "d"},
    {"alertname": "TrimtabHotspot", "cluster": "hall-a", "node": "gpu-070", "queue": "a,b", "incident": "e"},
]
MATCHERS = [
    (Matcher(name="node", value="gpu-07"),),
    (Matcher(name="node", value="gpu-07", is_equal=False),),
    (Matcher(name="node", value="gpu-0.", is_regex=True),),
    (Matcher(name="node", value="gpu-0", is_regex=True), Matcher(name="cluster", value="hall-a")),
    (Matcher(name="node", value="gpu-07|gpu-08", is_regex=True),),
    (Matcher(name="node", value="gpu-0[78]", is_regex=True, is_equal=False),),
    (Matcher(name="gpu", value=""), Matcher(name="cluster", value="hall-a")),
    (Matcher(name="gpu", value=".+", is_regex=True),),
    (Matcher(name="gpu", value=".+", is_regex=True, is_equal=False),),
    (Matcher(name="gpu", value=".*", is_regex=True), Matcher(name="node", value="gpu-08")),
    (Matcher(name="node", value="(?i)gpu-07", is_regex=True),),
    (Matcher(name="node", value=r"gpu-\d{2}", is_regex=True),),
    (Matcher(name="node", value=r"gpu-\d{2,}$", is_regex=True),),
    (Matcher(name="queue", value=r"Zug-\w", is_regex=True),),
    (Matcher(name="queue", value="Zug-.", is_regex=True),),
    (Matcher(name="queue", value=r"\p{Lu}ug-\p{L}", is_regex=True),),
    (Matcher(name="node", value="gpu(?i)-07", is_regex=True),),
    (Matcher(name="node", value="[[:alpha:]]+-07", is_regex=True),),
    (Matcher(name="node", value=r"\Qgpu-07\E", is_regex=True),),
    (Matcher(name="node", value="gpu-0{,1}7", is_regex=True),),
    (Matcher(name="node", value="(gpu|-|0|7)+", is_regex=True),),
    (Matcher(name="workload", value="research/.*", is_regex=True), Matcher(name="node", value="")),
    (Matcher(name="alertname", value="Trimtab.*"), Matcher(name="node", value="gpu-07")),
    (Matcher(name="queue", value="a,b"),),
    (Matcher(name="node", value="^gpu-07$", is_regex=True),),
    (Matcher(name="absent", value="x", is_equal=False),),
]


def a_silence(*matchers: Matcher, **changes) -> Silence:
    values = {"id": "s1", "matchers": matchers, "starts_at": START, "ends_at": START + timedelta(hours=1), **changes}
    return Silence(**values)


def test_our_reading_is_alertmanagers_wherever_we_dare_to_read(am) -> None:
    """26 silences over 5 alerts: what we say is what it says; what we cannot tell is left to it, and is little."""
    now = datetime.now(UTC)
    peer = Peer(am.url, AlertmanagerSettings(urls=(am.url,)))
    starts, ends = now.isoformat(), (now + timedelta(hours=1)).isoformat()
    am.post([{"labels": labels, "endsAt": ends} for labels in LABELS])
    undecided = 0
    for matchers in MATCHERS:
        silence = a_silence(*matchers, id="", starts_at=now, ends_at=now + timedelta(hours=1), comment="x")
        made = peer.set_silence(silence)
        theirs = _silenced(peer, made)
        for labels in LABELS:
            ours = matches(silence, labels)
            undecided += ours is None
            assert ours in (None, labels["incident"] in theirs), f"{silence.matchers} {labels} {starts}"
        peer.end_silence(made)
    assert undecided == 6 * len(LABELS)


def _silenced(peer: Peer, silence_id: str) -> set[str]:
    deadline = time.monotonic() + 30
    while silence_id not in {one.id for one in peer.silences()}:
        assert time.monotonic() < deadline
    return {alert.labels["incident"] for alert in peer.alerts() if silence_id in alert.status.silencedBy}


def test_a_lone_negative_matcher_mutes_all_else() -> None:
    silence = a_silence(Matcher(name="node", value="n1", is_equal=False))
    told = [matches(silence, labels) for labels in ({"node": "n1"}, {"node": "n2"}, {"alertname": "x"})]
    assert told == [False, True, True]


def test_no_matchers_is_unknown_and_never_everything() -> None:
    assert matches(a_silence(), {"node": "n1"}) is None


def test_one_condition_that_surely_fails_decides_whatever_the_others_are() -> None:
    silence = a_silence(Matcher(name="node", value=r"\p{L}+", is_regex=True), Matcher(name="cluster", value="hall-b"))
    assert matches(silence, {"node": "x", "cluster": "hall-a"}) is False


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}+",
        "gpu(?i)x",
        "[[:digit:]]",
        "a{,3}",
        r"\Qx\E",
        r"a\z",
        "(a+)+b",
        "(a|b)*c",
        ".*a.*b.*c.*d",
        "(?i)ä",
        "x" * 1001,
        "[a&&b]",
    ],
)
def test_a_pattern_that_python_may_read_otherwise_or_slowly_is_left_to_alertmanager(pattern: str) -> None:
    assert compiled(pattern) is None


def test_a_costly_value_takes_no_time_and_is_unknown() -> None:
    silence = a_silence(Matcher(name="node", value="a*a*a*b", is_regex=True))
    assert matches(silence, {"node": "a" * 5000}) is None
    began = time.process_time()
    assert matches(silence, {"node": "a" * 200}) is False
    assert time.process_time() - began < 2.0
