from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import CLUSTER, a_delivery, a_report, gpu_uuid
from tests.fakes.clock import START
from tests.store.values import MINUTE, Judged, a_finding

from trimtab.model.advice import Subject
from trimtab.model.reading import MigReading
from trimtab.store.database import Database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.series import POINTS_MAX, downsample


@pytest.fixture
def history(database: Database) -> History:
    return History(database, cluster=CLUSTER)


def remember_hours(database: Database, *, reports: int, step_seconds: float = 10.0) -> None:
    """Power counts up; a report in the middle does not have it."""
    batch = []
    for number in range(reports):
        values = {} if number == reports // 2 else {"power_watts": float(number), "clock_event_active/hw_thermal": 1.0}
        report = a_report(sequence=number, at=START + timedelta(seconds=step_seconds * number), gpus=0)
        reading = replace(a_report(gpus=4).gpus[3], values=values)
        batch.append(a_delivery(replace(report, gpus=(reading,))))
    Journal(database).append(batch)


def test_a_gpus_history_is_its_points_and_what_was_found(database: Database, history: History) -> None:
    remember_hours(database, reports=5)
    about_it, node_wide = a_finding(1), a_finding(2)
    subject = Subject(cluster=CLUSTER, node="gpu-00")
    node_wide = replace(node_wide, finding=replace(node_wide.finding, subject=subject))
    about_other = a_finding(3)
    subject = Subject(cluster=CLUSTER, node="gpu-00", gpu=gpu_uuid("gpu-00", 5))
    about_other = replace(about_other, finding=replace(about_other.finding, subject=subject))
    history.record_findings(Judged(opened=(about_it, node_wide, about_other)))
    found = history.gpu_history(
        CLUSTER,
        "gpu-00",
        gpu_uuid("gpu-00", 3),
        since=START,
        until=START + timedelta(seconds=30),
        metrics=("power_watts", "clock_event_active/hw_thermal", "fan_ratio"),
    )
    begin = START.timestamp()
    assert found.series["power_watts"] == ((begin, 0.0), (begin + 10, 1.0), (begin + 20, None), (begin + 30, 3.0))
    assert [value for _, value in found.series["clock_event_active/hw_thermal"]] == [1.0, 1.0, None, 1.0]
    assert {value for _, value in found.series["fan_ratio"]} == {None}
    assert found.findings == (node_wide, about_it)


def test_a_long_history_is_drawn_with_at_most_600_points(database: Database, history: History) -> None:
    remember_hours(database, reports=2000)
    gpu = gpu_uuid("gpu-00", 3)
    until = START + timedelta(hours=9)
    series = history.gpu_history(CLUSTER, "gpu-00", gpu, since=START, until=until, metrics=("power_watts",)).series
    values = [value for _, value in series["power_watts"]]
    assert 200 < len(values) <= POINTS_MAX
    assert None not in values  # one report without the value is no hole in a mean of several
    assert values == sorted(values)


def test_a_mig_instance_has_its_own_history(database: Database, history: History) -> None:
    instances = tuple(MigReading(gi=gi, ci=0, values={"sm_active_ratio": gi / 10}) for gi in (1, 2))
    reading = replace(a_report(gpus=1).gpus[0], instances=instances, values={"sm_active_ratio": 0.9})
    Journal(database).append([a_delivery(replace(a_report(), gpus=(reading,)))])
    for name, value in (("", 0.9), ("/1", 0.1), ("/2/0", 0.2)):
        found = history.gpu_history(
            CLUSTER,
            "gpu-00",
            gpu_uuid("gpu-00", 0) + name,
            since=START,
            until=START,
            metrics=("sm_active_ratio",),
        )
        assert found.series["sm_active_ratio"] == ((START.timestamp(), value),)


def test_nothing_known_of_a_gpu_is_an_empty_history(history: History) -> None:
    found = history.gpu_history(CLUSTER, "gpu-77", "GPU-x", since=START, until=START + MINUTE, metrics=("power_watts",))
    assert found.series == {"power_watts": ()}


def test_a_hole_between_reports_is_drawn_as_a_hole() -> None:
    points = [(0.0, 1.0), (10.0, 2.0), (20.0, 3.0), (100.0, 4.0), (110.0, 5.0)]
    assert downsample(points) == (*points[:3], (60.0, None), *points[3:])


def test_many_points_with_holes_keep_to_the_limit_and_show_them() -> None:
    points = [(10.0 * n, float(n)) for n in range(5000) if n % 10 or n < 2500]
    points = [point for point in points if not 20_000 < point[0] < 30_000]
    drawn = downsample(points)
    assert len(drawn) <= POINTS_MAX
    holes = [at for at, value in drawn if value is None]
    assert len(holes) == 1
    assert 20_000 < holes[0] < 30_000


def test_uneven_reports_are_not_holes() -> None:
    points = [(10.0 * n + (3.0 if n % 2 else 0.0), 1.0) for n in range(601)]
    assert all(value == 1.0 for _, value in downsample(points))
