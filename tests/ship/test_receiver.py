"""The listener for agents on a real port: who may say what, and what is said back."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
from backports import zstd as raw_zstd
from tests.builders import a_reading, a_report
from tests.fakes.clock import START, FakeClock
from tests.fakes.ingest import Ingest, ingest, until

from trimtab.errors import StoreError
from trimtab.outbound import session
from trimtab.ship.wire import SENT_AT_HEADER, encode_reports


def said(response: requests.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]


def test_reports_are_acknowledged_and_kept(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        response = daemon.post([a_report(sequence=7), a_report(sequence=8)], token=daemon.a_token())
        assert (response.status_code, response.json()) == (200, {"acknowledged": [7, 8]})
        assert [delivery.report for delivery in daemon.deliveries] == [a_report(sequence=7), a_report(sequence=8)]
        assert daemon.counts.requests_total == {200: 1}
        assert daemon.counts.reports_total == 2


def test_json_is_taken(tmp_path: Path) -> None:
    body = b"""[{"cluster": "hall-a", "node": "gpu-00", "boot_id": "b", "spool_id": "s", "sequence": 1,
        "sampled_at": "2026-11-02T09:00:00Z", "gpus": [{"info": {"uuid": "GPU-1"}, "values": {"power_watts": 75}}]}]"""
    with ingest(tmp_path) as daemon:
        headers = {"Content-Type": "application/json", "Content-Encoding": "identity"}
        assert daemon.post(body, token=daemon.a_token(), headers=headers).json() == {"acknowledged": [1]}
        assert daemon.deliveries[0].report.gpus[0].values == {"power_watts": 75.0}


def test_nothing_is_acknowledged_before_it_is_committed(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        token = daemon.a_token()
        daemon.is_stuck = True
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(daemon.post([a_report()], token=token).status_code))
        asking.start()
        until(lambda: daemon.inbox.waiting == 1)
        assert answers == []
        daemon.is_stuck = False
        asking.join(10.0)
        assert answers == [200]


def test_a_duplicate_is_acknowledged_and_kept_once(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        token = daemon.a_token()
        for _ in range(2):
            response = daemon.post([a_report(sequence=7), a_report(sequence=7)], token=token)
            assert response.json() == {"acknowledged": [7, 7]}
        assert (len(daemon.deliveries), daemon.duplicates_total) == (1, 3)


@pytest.mark.parametrize("authorization", [None, "Basic Zm9v", "Bearer", "Bearer  ", "Bearer nonsense"])
def test_without_a_known_token_it_is_401_with_a_sentence(tmp_path: Path, authorization: str | None) -> None:
    with ingest(tmp_path) as daemon:
        daemon.a_token()
        headers = {"Authorization": authorization} if authorization else {}
        response = daemon.post([a_report()], token=None, headers=headers)
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert "token" in response.json()["error"]
        assert daemon.deliveries == []


def test_another_nodes_token_is_403_and_nothing_of_the_body_is_kept(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        mixed = [a_report("gpu-01"), a_report("gpu-00")]
        assert said(daemon.post(mixed, token=daemon.a_token("gpu-01"))) == (
            403,
            "$[1].node: this token is of node gpu-01, the report of gpu-00.",
        )
        assert daemon.deliveries == []


def test_another_cluster_is_403(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        status, sentence = said(daemon.post([a_report(cluster="hall-b")], token=daemon.a_token()))
        assert (status, "watches hall-a" in sentence) == (403, True)


def test_an_oversize_body_is_413_and_its_sender_hears_it(tmp_path: Path) -> None:
    with ingest(tmp_path, body_bytes_max=100_000) as daemon:
        token = daemon.a_token()
        large = b"\xff" * 8_000_000
        assert said(daemon.post(large, token=token))[0] == 413
        with session(timeout_seconds=20.0, token=token) as client:
            pieces = (b"\xff" * 50_000 for _ in range(100))  # chunked: no length is announced
            headers = {"Content-Type": "application/msgpack"}
            assert client.post(f"{daemon.url}/v1/reports", data=pieces, headers=headers).status_code == 413
            assert client.get(f"{daemon.url}/healthz").status_code == 200


def test_a_bomb_is_413_truncation_400_a_wrong_type_422(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        token = daemon.a_token()
        assert said(daemon.post(raw_zstd.compress(b"\0" * 50_000_000), token=token))[0] == 413
        assert said(daemon.post(encode_reports([a_report()])[:-5], token=token))[0] == 400
        assert said(daemon.post(raw_zstd.compress(b"\x91\x80"), token=token))[0] == 422
        assert said(daemon.post(b"x", token=token, headers={"Content-Type": "text/plain"}))[0] == 415
        assert daemon.counts.requests_total == {413: 1, 400: 1, 422: 1, 415: 1}


def test_an_unknown_schema_is_426_with_the_versions_we_speak(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        response = daemon.post([a_report(schema_major=2)], token=daemon.a_token())
        assert (response.status_code, response.json()["schema_majors"]) == (426, [1])
        assert response.headers["Upgrade"] == "trimtab-reports/1"


def test_nan_is_dropped_and_counted(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        bad = a_reading(values={"power_watts": float("nan"), "temperature_celsius": float("inf")})
        daemon.post([replace(a_report(), gpus=(bad,))], token=daemon.a_token())
        assert daemon.deliveries[0].report.gpus[0].values == {}
        assert daemon.deliveries[0].report.bad_samples == {"power_watts": 1, "temperature_celsius": 1}
        assert daemon.counts.bad_samples_total == 2


@pytest.mark.parametrize("year", [1970, 2100])
def test_an_absurd_clock_is_kept_as_received_now(tmp_path: Path, year: int) -> None:
    stamp = datetime(year, 1, 1, 0, 1, tzinfo=UTC)
    with ingest(tmp_path, clock=FakeClock()) as daemon:
        headers = {SENT_AT_HEADER: stamp.isoformat()}
        assert daemon.post([a_report(at=stamp)], token=daemon.a_token(), headers=headers).status_code == 200
        (delivery,) = daemon.deliveries
        assert (delivery.at, delivery.is_clock_believed, delivery.is_replay) == (START, False, False)
        assert delivery.report.sampled_at == stamp


def test_a_backlog_is_history_and_its_clock_is_believed(tmp_path: Path) -> None:
    with ingest(tmp_path, clock=FakeClock()) as daemon:
        headers = {SENT_AT_HEADER: START.isoformat()}
        hours = [a_report(sequence=n + 1, at=START - timedelta(hours=n)) for n in range(3)]
        daemon.post(hours, token=daemon.a_token(), headers=headers)
        assert [delivery.is_replay for delivery in daemon.deliveries] == [False, True, True]
        assert all(delivery.is_clock_believed for delivery in daemon.deliveries)
        assert daemon.counts.replayed_reports_total == 2


def test_a_full_inbox_is_429_with_a_time_to_come_back(tmp_path: Path) -> None:
    with ingest(tmp_path, inbox_reports_max=1) as daemon:
        response = daemon.post([a_report(sequence=1), a_report(sequence=2)], token=daemon.a_token())
        assert response.status_code == 429
        assert 1 <= int(response.headers["Retry-After"]) <= 10
        assert "Keep yours" in response.json()["error"]
        assert daemon.post([a_report(sequence=1)], token=daemon.a_token()).status_code == 200


def test_a_store_error_is_503_and_the_next_try_is_taken(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        token = daemon.a_token()
        daemon.next_commit_error = StoreError("no space left")
        status, sentence = said(daemon.post([a_report()], token=token))
        assert (status, "no space left" in sentence) == (503, True)
        assert daemon.post([a_report()], token=token).status_code == 200
        assert len(daemon.deliveries) == 1


def test_a_commit_that_does_not_come_is_503_and_leaves_nothing_in_the_inbox(tmp_path: Path) -> None:
    with ingest(tmp_path, commit_timeout_seconds=0.2) as daemon:
        daemon.is_stuck = True
        status, sentence = said(daemon.post([a_report()], token=daemon.a_token()))
        assert (status, "did not commit" in sentence) == (503, True)
        assert daemon.inbox.waiting == 0


def test_a_client_that_hangs_up_in_the_middle_hurts_nobody(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        token = daemon.a_token()
        with socket.create_connection(("127.0.0.1", daemon.port)) as client:
            head = (
                f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 500\r\n\r\n"
            )
            client.sendall(head.encode() + b"half")
        until(lambda: daemon.counts.requests_total == {499: 1})
        assert daemon.post([a_report()], token=token).status_code == 200


def test_only_its_two_routes_answer(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon, session(timeout_seconds=10.0) as client:
        assert client.get(f"{daemon.url}/healthz").json() == {"ok": True}
        assert client.get(f"{daemon.url}/v1/reports").status_code == 405
        assert client.get(f"{daemon.url}/").status_code == 404


def test_many_nodes_at_once_are_answered_by_few_commits(tmp_path: Path) -> None:
    with ingest(tmp_path) as daemon:
        tokens = {f"gpu-{n:02d}": daemon.a_token(f"gpu-{n:02d}") for n in range(16)}
        answers: list[int] = []

        def report(daemon: Ingest, node: str, token: str) -> None:
            for n in range(5):
                answers.append(daemon.post([a_report(node, sequence=n + 1)], token=token).status_code)

        threads = [threading.Thread(target=report, args=(daemon, node, token)) for node, token in tokens.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30.0)
        assert answers == [200] * 80
        assert len(daemon.deliveries) == 80
