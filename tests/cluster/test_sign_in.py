"""A DaemonSet's agents sign in with their service account's token, and each speaks for its own node only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster import objects
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed as _installed
from tests.fakes.clock import FakeClock

from trimtab.schedulers.connect import connect
from trimtab.schedulers.reviews import KNOWN_SECONDS, TokenReviews
from trimtab.settings import KubernetesSettings

installed = _installed


@pytest.fixture
def reviews(installed: Plane) -> Iterator[TokenReviews]:
    """As the daemon has it: with the reader's rights alone."""
    api = connect(KubernetesSettings(kubeconfig=str(installed.kubeconfig("trimtab-reader", "trimtab"))))
    yield TokenReviews(api=api, clock=FakeClock(), service_account="trimtab/trimtab-agent", audience="trimtab")
    api.close()


@pytest.fixture
def agent_pod(installed: Plane, space: Space) -> Iterator[dict]:
    """A pod of the agent's account on a node."""
    node = space.add_node("n1")
    made = objects.pod("agent", "trimtab", gpus=0, spec={"serviceAccountName": "trimtab-agent", "nodeName": node})
    installed.client.create("pods", made)
    yield wait_for(lambda: installed.client.find("pods", "agent", "trimtab"), "the agent's pod")
    installed.client.delete("pods", "agent", "trimtab", grace_seconds=0)
    wait_for(lambda: installed.client.find("pods", "agent", "trimtab") is None, "the agent's pod gone")


def token_of(plane: Plane, pod: dict | None, *, account: str = "trimtab-agent", audience: str = "trimtab") -> str:
    return plane.service_account_token(account, "trimtab", audiences=[audience] if audience else [], pod=pod)


def test_a_token_bound_to_a_pod_says_which_node_it_is_on(installed: Plane, reviews: TokenReviews, agent_pod) -> None:
    token = token_of(installed, agent_pod)
    assert reviews.node_of(token) is None
    assert reviews.can_ask(token)
    assert reviews.ask(token) == agent_pod["spec"]["nodeName"]
    assert reviews.node_of(token) == agent_pod["spec"]["nodeName"]
    assert not reviews.can_ask(token)  # known: nobody is asked again for a while


@pytest.mark.parametrize("what", ["not bound", "other audience", "other account", "no token"])
def test_any_other_token_is_nobodys(installed: Plane, reviews: TokenReviews, agent_pod, what: str) -> None:
    token = {
        "not bound": lambda: token_of(installed, None),
        "other audience": lambda: token_of(installed, agent_pod, audience=""),
        "other account": lambda: token_of(installed, None, account="trimtab-reader"),
        "no token": lambda: "a.b.c",
    }[what]()
    assert reviews.ask(token) is None
    assert reviews.node_of(token) is None
    assert not reviews.can_ask(token)  # and a flood of them is not a flood of reviews
    assert reviews.counts() == {"refused": 1}


@pytest.mark.long
def test_a_pod_that_is_gone_signs_in_no_longer(installed: Plane, reviews: TokenReviews, agent_pod) -> None:
    token = token_of(installed, agent_pod)
    assert reviews.ask(token) is not None
    installed.client.delete("pods", "agent", "trimtab", grace_seconds=0)
    wait_for(lambda: installed.client.find("pods", "agent", "trimtab") is None, "the agent's pod gone")
    reviews.clock.advance(KNOWN_SECONDS + 1)
    assert reviews.node_of(token) is None
    assert reviews.can_ask(token)
    wait_for(lambda: reviews.ask(token) is None, "the token refused")
    installed.client.create("pods", objects.pod("agent", "trimtab", gpus=0))  # for the fixture to take away


def test_what_is_no_service_accounts_token_is_never_sent_to_the_cluster(reviews: TokenReviews) -> None:
    assert not reviews.can_ask("trimtab_node_abc")
