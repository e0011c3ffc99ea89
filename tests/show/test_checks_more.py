"""What doctor says of settings on disk and of the database's room: both ways."""

from __future__ import annotations

from tests.fakes.clock import START

from trimtab.show.checks_limits import limits_checks
from trimtab.show.checks_settings import settings_checks
from trimtab.show.metrics_facts import SettingsFacts
from trimtab.show.metrics_limits import DiskFacts, LimitsFacts

GIB = 1024**3


def test_room_that_is_there_is_told_with_its_bounds():
    disk = DiskFacts(held_bytes=2 * GIB, held_bytes_max=8 * GIB, free_bytes=50 * GIB, free_bytes_min=1 * GIB)
    (check,) = limits_checks(LimitsFacts(disk=disk))
    assert (check.is_ok, check.fix) == (True, "")
    assert check.sentence == (
        "The database takes 2.0 of at most 8.0 GiB; 50.0 GiB of its disk are free (at least 1.0 are to stay)."
    )


def test_room_that_is_short_is_told_with_what_went_and_the_fix():
    disk = DiskFacts(free_bytes=GIB // 2, free_bytes_min=GIB, rows_gone_total={"journal": 70}, is_short=True)
    (check,) = limits_checks(LimitsFacts(disk=disk))
    assert not check.is_ok
    assert "70 rows went before their time" in check.sentence
    assert "make room on the disk" in check.fix


def test_what_is_not_known_is_not_said():
    assert list(limits_checks(None)) == []
    assert list(limits_checks(LimitsFacts(disk=DiskFacts()))) == []
    assert list(settings_checks(None)) == []
    assert list(settings_checks(SettingsFacts())) == []


def test_settings_on_disk_are_in_force_or_wait_or_are_broken():
    (well,) = settings_checks(SettingsFacts(at=START))
    assert (well.is_ok, well.sentence) == (True, "The settings on disk are in force.")
    (waits,) = settings_checks(SettingsFacts(at=START, waiting=tuple(f"a.b{number}" for number in range(8))))
    assert (waits.is_ok, waits.fix) == (True, "systemctl restart trimtab-daemon")
    assert waits.sentence.endswith("a.b0, a.b1, a.b2, a.b3, a.b4, a.b5 and 2 more.")
    (broken,) = settings_checks(SettingsFacts(at=START, is_ok=False, trouble="Settings not reloaded: line 3"))
    assert (broken.is_ok, "line 3" in broken.sentence, "systemctl reload" in broken.fix) == (False, True, True)
