"""Settings of a pair that cannot be: said by the daemon at its start and by doctor, with the key and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.system.processes import verb

from trimtab.errors import SettingsError
from trimtab.pair import run
from trimtab.settings import DaemonSettings, PairSettings, StoreSettings, pair_trouble

POSTGRESQL = "postgresql://trimtab@db.example/trimtab"


@pytest.mark.parametrize(
    ("pair", "url", "said"),
    [
        (PairSettings(daemons=2), "sqlite:///trimtab.db", "store.url is SQLite, which one daemon alone can use"),
        (PairSettings(trust_seconds=0.9), POSTGRESQL, "one late check would stop all moves"),
        (PairSettings(silent_seconds=3.9), POSTGRESQL, "would take over while this one still acts"),
    ],
)
def test_a_pair_that_cannot_be_is_refused_with_the_fix(pair: PairSettings, url: str, said: str, tmp_path: Path) -> None:
    settings = DaemonSettings(state_directory=str(tmp_path), pair=pair, store=StoreSettings(url=url))
    with pytest.raises(SettingsError, match=said):
        run(settings)
    assert not list(tmp_path.iterdir()), "nothing was made"


def test_the_defaults_go_together() -> None:
    for daemons in (1, 2):
        assert pair_trouble(PairSettings(daemons=daemons), store_url=POSTGRESQL) is None
    assert pair_trouble(PairSettings(), store_url="sqlite:///trimtab.db") is None


def test_doctor_says_it_before_the_daemon_is_started(tmp_path: Path) -> None:
    settings = tmp_path / "daemon.toml"
    settings.write_text(f'state_directory = "{tmp_path}"\n[store]\nurl = "sqlite:///trimtab.db"\n[pair]\ndaemons = 2\n')
    done = verb("doctor", "--settings", str(settings), home=tmp_path)
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "pair.daemons = 2, and store.url is SQLite, which one daemon alone can use." in said
    assert "trimtab db move copies what is there" in said
