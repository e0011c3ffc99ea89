"""Tokens of every scope (node, viewer, operator, admin, webhook, join): 256 random bits, kept as a hash alone."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tests.enrol.desk import Office, a_key
from tests.fakes.clock import FakeClock

from trimtab.model.people import Role
from trimtab.ship.join_token import digest_of, is_join_token, secret_of
from trimtab.ship.tokens import NodeTokens, give_token
from trimtab.show.passes import Passes
from trimtab.store.database import open_database
from trimtab.store.history import History


def everything_given(state: Path) -> dict[str, str]:
    """One secret of each kind, given as the daemon gives them, into one state directory."""
    database = open_database("sqlite:///trimtab.db", state_directory=state)
    office, history = Office(database), History(database, cluster="hall-a")
    passes = Passes(register=history, clock=FakeClock(), session_seconds=3600.0)
    given = {
        role.value: passes.give_token(name=f"{role}-1", role=role, lasts_seconds=None, by="anna")[1] for role in Role
    }
    given["node, by an operator"] = give_token(state / "node-tokens.toml", "gpu-06")[0]
    key = a_key()
    given["join"] = secret_of(office.invite("gpu-07")[0].token)
    office.join(given["join"], "gpu-07", key)
    given["node, enrolled"] = key.token
    assert passes.token(given["viewer"]) is not None
    assert office.daemon().node_of(key.token) == "gpu-07"
    assert NodeTokens(state / "node-tokens.toml").node_of(given["node, by an operator"]) == "gpu-06"
    database.close()
    return given


def test_nothing_that_opens_a_door_is_on_the_daemons_disk(tmp_path: Path) -> None:
    given = everything_given(tmp_path)
    assert set(given) == {"viewer", "operator", "admin", "webhook", "node, by an operator", "node, enrolled", "join"}
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for scope, secret in given.items():
        assert secret.encode() not in kept, scope
        assert secret.removeprefix("trimtab_").rpartition("_")[2].encode() not in kept, scope
        assert digest_of(secret).encode() in kept, scope


def test_each_is_256_random_bits_under_a_prefix_that_scanners_know(tmp_path: Path) -> None:
    given = everything_given(tmp_path)
    prefixes = {"join": "trimtab_join_", "node, enrolled": "trimtab_node_", "node, by an operator": "trimtab_node_"}
    for scope, secret in given.items():
        random = secret.removeprefix(prefixes.get(scope, "trimtab_"))
        assert secret.startswith(prefixes.get(scope, "trimtab_")), scope
        assert len(base64.urlsafe_b64decode(random + "=")) == 32, scope
    assert len(set(given.values())) == len(given)


@pytest.mark.parametrize("wrong", ["", "trimtab_join_short", "trimtab_node_" + "x" * 43, "trimtab_join_" + "x" * 44])
def test_what_is_no_join_token_is_known_by_its_shape(wrong: str) -> None:
    assert not is_join_token(wrong)
