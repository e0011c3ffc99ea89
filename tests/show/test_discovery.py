"""/sd: every agent that reports and can be reached, every exporter; who is left out is said with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import requests
from starlette.applications import Starlette
from tests.builders import CLUSTER, a_node, a_reading, a_report, a_snapshot, a_window
from tests.fakes.clock import FakeClock
from tests.fakes.people import NOW, TOKEN, FakeMemory, Served, a_board, listening, web_files

from trimtab.clock import SystemClock
from trimtab.errors import SettingsError
from trimtab.issue.verdicts import Verdicts
from trimtab.model.reading import Report
from trimtab.model.window import Window
from trimtab.settings import DaemonSettings, MetricsSettings, ScrapeTarget
from trimtab.ship.bounds import Unfit, fit
from trimtab.show.api import people_app
from trimtab.show.auth import Door
from trimtab.show.board import BoardBox
from trimtab.show.discovery import LOOPBACK, UNSAID, Discovery, Target, discover, discovery_checks
from trimtab.show.peers import Peers

PAGE = b"# TYPE trimtab_paused gauge\n" + b'trimtab_paused{cluster="hall-a"} 0.0\n' * 100


def a_fleet(**urls: str) -> Window:
    """Nodes by name (`gpu_00`) with what each says of its /metrics."""
    window = a_window({name.replace("_", "-"): [a_reading(name.replace("_", "-"), 0)] for name in urls}, at=NOW)
    nodes = {name: replace(now, metrics_url=urls[name.replace("-", "_")]) for name, now in window.nodes.items()}
    return replace(window, nodes=nodes)


def found(window: Window | None, **changes: object) -> Discovery:
    said = {"cluster": CLUSTER, "settings": MetricsSettings(), **changes}
    return discover(window, said.pop("board", None), **said)  # type: ignore[arg-type]


def test_an_agent_that_can_be_reached_is_a_target_with_labels_that_rename_nothing() -> None:
    window = a_fleet(gpu_00="https://gpu-00:9742/metrics")
    board = a_board(snapshot=a_snapshot([a_node("gpu-00", rack="r1")]), window=window)
    (target,) = found(window, board=board).targets
    assert target == Target(
        targets=("gpu-00:9742",),
        labels={
            "__scheme__": "https",
            "__metrics_path__": "/metrics",
            "__meta_trimtab_cluster": CLUSTER,
            "__meta_trimtab_node": "gpu-00",
            "__meta_trimtab_kind": "agent",
            "__meta_trimtab_rack": "r1",
        },
    )
    assert all(name.startswith("__") for name in target.labels)


def test_who_cannot_be_reached_is_left_out_with_the_reason_and_the_fix() -> None:
    window = a_fleet(
        gpu_00="http://127.0.0.1:9742/metrics", gpu_01="http://[::1]:9742/metrics", gpu_02="", gpu_03="http://x:y/",
        gpu_04="http://10.0.0.4:9742/metrics", gpu_05="ftp://gpu-05/",
    )  # fmt: skip
    said = found(window)
    assert [target.targets for target in said.targets] == [("10.0.0.4:9742",)]
    assert said.left_out == {LOOPBACK: ("gpu-00", "gpu-01"), UNSAID: ("gpu-02", "gpu-03", "gpu-05")}
    (check,) = discovery_checks(said)
    assert check.is_ok
    assert "gpu-00, gpu-01" in check.sentence
    assert "loopback" in check.sentence
    assert "metrics_listen" in check.fix


def test_on_one_host_loopback_is_a_target_where_the_settings_say_so() -> None:
    said = found(a_fleet(gpu_00="http://127.0.0.1:9742/metrics"), settings=MetricsSettings(is_loopback_listed=True))
    assert [target.targets for target in said.targets] == [("127.0.0.1:9742",)]
    assert said.left_out == {}


def test_many_are_named_by_their_first() -> None:
    said = found(a_fleet(**{f"gpu_{number:02}": "" for number in range(8)}))
    (check,) = discovery_checks(said)
    assert "gpu-04 and 3 more." in check.sentence
    assert "gpu-05" not in check.sentence


def test_a_silent_node_and_one_that_was_let_go_are_no_targets() -> None:
    window = a_fleet(gpu_00="http://gpu-00:9742/metrics", gpu_01="http://gpu-01:9742/metrics")
    window = replace(window, nodes={**window.nodes, "gpu-01": replace(window.nodes["gpu-01"], is_expected=False)})
    board = a_board(snapshot=None, window=window)
    silent = replace(board, nodes=tuple(replace(row, is_silent=row.name == "gpu-00") for row in board.nodes))
    assert found(window, board=silent).targets == ()


def test_exporters_are_listed_whether_they_answer_or_not() -> None:
    exporters = (
        ScrapeTarget(url="http://10.0.0.9:9400/metrics", node="gpu-09"),
        ScrapeTarget(url="http://e", node="x"),
    )
    window = a_fleet(gpu_09="http://10.0.0.9:9742/metrics")
    said = found(window, exporters=exporters)
    assert [(target.targets[0], target.labels["__meta_trimtab_kind"]) for target in said.targets] == [
        ("10.0.0.9:9400", "exporter"),
        ("e:80", "exporter"),
    ]
    assert said.agents == 0
    assert found(None, exporters=exporters).targets == said.targets


def test_before_the_first_judgement_nothing_is_listed_and_doctor_says_so() -> None:
    said = found(None)
    assert said == Discovery(is_known=False)
    (check,) = discovery_checks(said)
    assert (check.is_ok, "503 until the first judgement" in check.sentence) == (True, True)
    assert found(a_fleet()).is_known


def test_doctor_says_where_the_gpus_are_when_they_are_not_on_the_daemons_page() -> None:
    listed = found(a_fleet(gpu_00="http://gpu-00:9742/metrics"))
    said = next(iter(discovery_checks(listed, has_gpu_series=False)))
    assert (said.name, said.is_ok) == ("gpu series", True)
    assert "gpu_series = false" in said.sentence
    nobody = next(iter(discovery_checks(found(a_fleet(gpu_00="")), has_gpu_series=False)))
    assert not nobody.is_ok
    assert "gpu_series = true" in nobody.fix
    assert next(iter(discovery_checks(found(None), has_gpu_series=False))).is_ok
    assert [check.name for check in discovery_checks(listed)] == ["discovery"]


@contextmanager
def served(
    tmp_path: Path,
    *,
    allow_from: tuple[str, ...] = (),
    discovery: Callable[[], Discovery] | None = None,
    **door: object,
) -> Iterator[Served]:
    settings = DaemonSettings(cluster=CLUSTER, metrics=MetricsSettings(allow_from=allow_from))
    clock, box, memory = FakeClock(NOW), BoardBox(), FakeMemory()
    window = a_fleet(gpu_00="http://gpu-00:9742/metrics")

    def app(made: Door) -> Starlette:
        return people_app(
            settings=settings, box=box, decisions=Verdicts(ledger=memory, clock=clock, settings=settings),
            memory=memory, door=made, clock=clock, checks=tuple, exposition=lambda accept: (PAGE, "text/plain"),
            discovery=discovery or (lambda: found(window)), web_directory=web_files(tmp_path),
        )  # fmt: skip

    with listening(app, box=box, clock=clock, wall=SystemClock(), memory=memory, **door) as running:
        yield running


def test_sd_answers_what_http_sd_reads(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        answer = requests.get(running.url + "/sd", timeout=10)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()[0]["targets"] == ["gpu-00:9742"]


def test_before_the_first_judgement_sd_is_an_error_so_that_prometheus_keeps_its_targets(tmp_path: Path) -> None:
    with served(tmp_path, discovery=lambda: found(None)) as running:
        answer = requests.get(running.url + "/sd", timeout=10)
    assert answer.status_code == 503
    assert "just started" in answer.text


@pytest.mark.parametrize("path", ["/sd", "/metrics"])
def test_with_a_token_set_only_its_holders_and_listed_peers_read(path: str, tmp_path: Path) -> None:
    token = {"Authorization": f"Bearer {'m' * 43}"}
    wrong = {"Authorization": f"Bearer {'x' * 43}"}
    with served(tmp_path, metrics_token="m" * 43) as running:
        assert requests.get(running.url + path, timeout=10).status_code == 401
        assert requests.get(running.url + path, headers=wrong, timeout=10).status_code == 401
        assert requests.get(running.url + path, headers=token, timeout=10).status_code == 200
        person = requests.get(running.url + path, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=10)
        assert person.status_code == 200
    with served(tmp_path, metrics_token="m" * 43, allow_from=("10.9.0.0/16",)) as running:
        assert requests.get(running.url + path, timeout=10).status_code == 401
    with served(tmp_path, metrics_token="m" * 43, allow_from=("127.0.0.0/8",)) as running:
        assert requests.get(running.url + path, timeout=10).status_code == 200
        forwarded = requests.get(running.url + path, headers={"X-Forwarded-For": "127.0.0.1"}, timeout=10)
        assert forwarded.status_code == 401


def test_the_page_is_zipped_for_whoever_takes_it(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        plain = requests.get(running.url + "/metrics", headers={"Accept-Encoding": "identity"}, timeout=10)
        zipped = requests.get(running.url + "/metrics", headers={"Accept-Encoding": "gzip"}, timeout=10)
        refused = requests.get(running.url + "/metrics", headers={"Accept-Encoding": "gzip;q=0"}, timeout=10)
    assert plain.content == zipped.content == refused.content == PAGE
    assert "Content-Encoding" not in plain.headers
    assert "Content-Encoding" not in refused.headers
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert int(zipped.headers["Content-Length"]) < len(PAGE) // 4


def test_a_list_of_peers_is_addresses_and_networks() -> None:
    peers = Peers(("10.20.0.0/16", "192.0.2.7", "2001:db8::/32"), key="metrics.allow_from")
    assert "10.20.3.4" in peers
    assert "::ffff:10.20.3.4" in peers
    assert "[2001:db8::5]" in peers
    assert "192.0.2.8" not in peers
    assert "" not in peers
    assert "testclient" not in peers
    with pytest.raises(SettingsError, match=r"metrics\.allow_from.*10\.20\.0\.0/16"):
        Peers(("prometheus.example",), key="metrics.allow_from")


def test_what_an_agent_says_of_its_page_is_bounded_on_the_wire() -> None:
    good = a_report(metrics_url="http://gpu-00:9742/metrics")
    assert fit(good, "$") == good
    for url in ("http://gpu-00:9742/\nmetrics", "http://" + "x" * 300):
        with pytest.raises(Unfit, match=r"\.metrics_url"):
            fit(replace(good, metrics_url=url), "$")


def test_an_older_agent_says_nothing_of_its_page() -> None:
    told = msgspec.to_builtins(a_report())
    del told["metrics_url"]
    assert msgspec.convert(told, Report).metrics_url == ""
