"""Who is let in, by whom, how often and until when: the rules, on both engines."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from tests.enrol.desk import BY, Office, a_key

from trimtab.errors import EnrolmentRefused
from trimtab.model.enrolment import Admission, NoEntry
from trimtab.ship.join_token import digest_of, is_join_token
from trimtab.store.database import Database


def refusal(call: object, *arguments: object) -> EnrolmentRefused:
    with pytest.raises(EnrolmentRefused) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value


def test_a_join_token_is_256_random_bits_under_a_prefix_and_only_its_hash_is_kept(office: Office) -> None:
    made = office.invite("gpu-07", "gpu-08")
    assert [one.node for one in made] == ["gpu-07", "gpu-08"]
    assert all(is_join_token(one.token) and len(one.token) == len("trimtab_join_") + 43 for one in made)
    assert [kept.sha256 for kept in office.facts.join_tokens()] == [digest_of(one.token) for one in made]
    assert not any(one.token in repr(office.facts.join_tokens()) for one in made)


def test_a_node_joins_once_and_both_ends_are_audited(office: Office) -> None:
    token, key = office.invite("gpu-07")[0].token, a_key()
    admission = office.join(token, "gpu-07", key)
    assert (admission.node, admission.cluster) == ("gpu-07", office.facts.cluster)
    assert admission.lasts_seconds == 90 * 86400
    assert office.daemon().node_of(key.token) == "gpu-07"
    assert office.audit() == [(BY, "gave a join token"), ("node gpu-07", "enrolled")]


def test_a_token_is_used_once_and_the_second_hears_who_was_first(office: Office) -> None:
    token = office.invite("gpu-07")[0].token
    office.join(token, "gpu-07", a_key(), peer="192.0.2.66")
    no = refusal(office.join, token, "gpu-07", a_key())
    assert (no.status, no.reason) == (409, NoEntry.USED)
    assert "was used at 2026-11-02 09:00:00 UTC from 192.0.2.66, by another key" in str(no)
    assert "trimtab enroll revoke gpu-07" in str(no)


def test_the_same_key_gets_the_same_answer_however_late(office: Office) -> None:
    token, key = office.invite("gpu-07", lasts_seconds=60.0)[0].token, a_key()
    first = office.join(token, "gpu-07", key)
    office.clock.advance(86400.0)
    again = office.join(token, "gpu-07", key)
    assert again.expires_at == first.expires_at
    assert len(office.facts.credentials()) == 1
    assert [what for _, what in office.audit()].count("enrolled") == 1


def test_a_token_that_ran_out_admits_nobody(office: Office) -> None:
    token = office.invite("gpu-07", lasts_seconds=60.0)[0].token
    office.clock.advance(59.9)
    assert office.facts.join_tokens()[0].is_good(office.clock.now())
    office.clock.advance(0.1)
    no = refusal(office.join, token, "gpu-07", a_key())
    assert (no.status, no.reason) == (403, NoEntry.EXPIRED)
    assert "ran out at 2026-11-02 09:01:00 UTC" in str(no)


def test_a_token_is_of_one_name(office: Office) -> None:
    token = office.invite("gpu-07")[0].token
    no = refusal(office.join, token, "gpu-08", a_key())
    assert (no.status, no.reason) == (403, NoEntry.OTHER_NODE)
    assert "is for node gpu-07, and the one that asks is gpu-08" in str(no)
    office.join(token, "gpu-07", a_key())  # it was not used up by that


def test_an_unknown_token_is_told_nothing_of_others(office: Office) -> None:
    office.invite("gpu-07")
    no = refusal(office.join, "trimtab_join_" + "A" * 43, "gpu-07", a_key())
    assert (no.status, no.reason) == (401, NoEntry.UNKNOWN)


def test_a_newer_token_withdraws_the_one_that_was_not_used(office: Office) -> None:
    old, new = office.invite("gpu-07")[0].token, office.invite("gpu-07")[0].token
    no = refusal(office.join, old, "gpu-07", a_key())
    assert (no.reason, "withdrawn" in str(no)) == (NoEntry.WITHDRAWN, True)
    office.join(new, "gpu-07", a_key())


def test_an_enrolled_name_is_not_enrolled_again_without_an_operator(office: Office) -> None:
    office.enrolled("gpu-07")
    no = refusal(office.invite, "gpu-06", "gpu-07", "gpu-08")
    assert no.status == 409
    assert "gpu-07 is enrolled already; no token was made" in str(no)
    assert "--again" in str(no)
    assert len(office.facts.join_tokens()) == 1  # all or none


def test_a_token_of_before_does_not_enrol_again_what_was_enrolled_meanwhile(office: Office) -> None:
    first = office.invite("gpu-07")[0].token
    office.join(first, "gpu-07", a_key())
    with office.facts.changing() as book:  # as if two operators' calls had crossed
        book.add_token(replace(office.facts.join_tokens()[0], sha256=digest_of("other"), used_at=None, used_by=""))
    no = refusal(office.join, "other", "gpu-07", a_key())
    assert (no.status, no.reason) == (409, NoEntry.ALREADY_ENROLLED)
    assert "is enrolled already, since 2026-11-02 09:00:00 UTC by anna" in str(no)


def test_enrolled_again_the_old_credential_is_good_until_the_new_one_is_used(office: Office) -> None:
    old, new = office.enrolled("gpu-07"), a_key()
    daemon = office.daemon()
    assert daemon.node_of(old.token) == "gpu-07"
    daemon.sync()
    office.join(office.invite("gpu-07", is_again=True, why="new disk")[0].token, "gpu-07", new)
    daemon.sync()
    assert daemon.node_of(old.token) == "gpu-07"
    assert daemon.node_of(new.token) == "gpu-07"
    assert daemon.node_of(old.token) is None
    assert "was replaced by a newer one" in daemon.why_not(old.token)
    daemon.sync()
    assert office.daemon().node_of(old.token) is None  # written down, not only known here


def test_a_renewal_of_the_old_does_not_end_what_an_operator_let_in_meanwhile(office: Office) -> None:
    old = office.enrolled("gpu-07")
    again, renewed = a_key(), a_key()
    office.join(office.invite("gpu-07", is_again=True)[0].token, "gpu-07", again)
    office.renew(old, "gpu-07", renewed)
    daemon = office.daemon()
    assert daemon.node_of(renewed.token) == "gpu-07"
    daemon.sync()
    assert daemon.node_of(again.token) == "gpu-07"
    daemon.sync()
    assert [office.daemon().node_of(key.token) for key in (old, renewed, again)] == [None, None, "gpu-07"]


def test_a_renewal_is_asked_again_with_the_same_key_and_answered_alike(office: Office) -> None:
    held, new = office.enrolled("gpu-07"), a_key()
    office.clock.advance(60 * 86400.0)
    first = office.renew(held, "gpu-07", new)
    office.clock.advance(60.0)
    assert office.renew(held, "gpu-07", new).expires_at == first.expires_at
    # Also when what it held has run out meanwhile: the daemon has heard of the new one.
    office.clock.advance(30 * 86400.0)
    assert refusal(office.renew, held, "gpu-07", new).reason == NoEntry.EXPIRED
    assert office.renew(new, "gpu-07", new).expires_at == first.expires_at


def test_a_renewal_whose_key_was_lost_is_replaced_but_not_in_a_loop(office: Office) -> None:
    held, lost, new = office.enrolled("gpu-07"), a_key(), a_key()
    office.renew(held, "gpu-07", lost)
    assert refusal(office.renew, held, "gpu-07", new).reason == NoEntry.TOO_SOON
    office.clock.advance(11.0)
    office.renew(held, "gpu-07", new)
    daemon = office.daemon()
    assert [daemon.node_of(key.token) for key in (lost, held, new, held)] == [None, "gpu-07", "gpu-07", None]


def test_a_renewal_needs_a_good_credential_of_that_node(office: Office) -> None:
    held = office.enrolled("gpu-07")
    assert refusal(office.renew, a_key(), "gpu-07", a_key()).reason == NoEntry.UNKNOWN
    assert refusal(office.renew, held, "gpu-08", a_key()).reason == NoEntry.OTHER_NODE
    assert refusal(office.renew, office.enrolled("gpu-08"), "gpu-08", held).reason == NoEntry.USED  # another's key
    office.clock.advance(90 * 86400.0)
    assert "ran out at" in str(refusal(office.renew, held, "gpu-07", a_key()))


def test_a_revoked_node_hears_by_whom_and_why_and_may_be_let_in_again(office: Office) -> None:
    held = office.enrolled("gpu-07")
    said = office.registrar.revoke("gpu-07", by=BY, why="sent back")
    assert said == "gpu-07 is revoked: its reports are refused within a second."
    no = refusal(office.renew, held, "gpu-07", a_key())
    assert (no.status, no.reason) == (401, NoEntry.REVOKED)
    assert "was revoked at 2026-11-02 09:00:00 UTC by anna (sent back)" in str(no)
    assert (BY, "revoked a node's credential") in office.audit()
    assert refusal(lambda: office.registrar.revoke("gpu-07", by=BY)).status == 404
    office.join(office.invite("gpu-07")[0].token, "gpu-07", a_key())


def test_revoking_withdraws_the_join_token_too(office: Office) -> None:
    token = office.invite("gpu-07")[0].token
    assert "withdrawn" in office.registrar.revoke("gpu-07", by=BY)
    assert refusal(office.join, token, "gpu-07", a_key()).reason == NoEntry.WITHDRAWN


def test_a_rotation_is_asked_for_until_the_new_credential_is_used(office: Office) -> None:
    held, new = office.enrolled("gpu-07"), a_key()
    daemon = office.daemon()
    assert not daemon.wants_renewal("gpu-07")
    office.registrar.rotate("gpu-07", by=BY)
    daemon.sync()
    assert daemon.wants_renewal("gpu-07")
    office.renew(held, "gpu-07", new)
    daemon.sync()
    assert daemon.node_of(new.token) == "gpu-07"
    assert not daemon.wants_renewal("gpu-07")
    assert refusal(lambda: office.registrar.rotate("gpu-99", by=BY)).status == 404


@pytest.mark.parametrize("name", ["", "gpu 07", "gpu\n07", "x" * 254])
def test_what_is_no_name_is_told(office: Office, name: str) -> None:
    assert refusal(office.invite, name).status == 422


def test_of_many_that_join_at_once_with_one_token_one_is_let_in(office: Office) -> None:
    token, keys = office.invite("gpu-07")[0].token, [a_key() for _ in range(8)]
    together = Barrier(len(keys))

    def try_it(number: int) -> Admission | EnrolmentRefused:
        together.wait()
        try:
            return office.join(token, "gpu-07", keys[number])
        except EnrolmentRefused as no:
            return no

    with ThreadPoolExecutor(len(keys)) as pool:
        came = list(pool.map(try_it, range(len(keys))))
    refused = [one.reason for one in came if isinstance(one, EnrolmentRefused)]
    assert refused == [NoEntry.USED] * 7
    assert len(office.facts.credentials()) == 1


def test_one_key_that_asks_many_times_at_once_is_enrolled_once(office: Office) -> None:
    token, key = office.invite("gpu-07")[0].token, a_key()
    with ThreadPoolExecutor(8) as pool:
        came = list(pool.map(lambda _: office.join(token, "gpu-07", key), range(8)))
    assert len({one.expires_at for one in came}) == 1
    assert len(office.facts.credentials()) == 1


def test_clusters_in_one_database_know_nothing_of_each_other(office: Office, one_database: Database) -> None:
    here, there = office, Office(one_database, cluster=office.facts.cluster + "-b")
    key = here.enrolled("gpu-07")
    assert there.daemon().node_of(key.token) is None
    assert refusal(there.join, here.invite("gpu-08")[0].token, "gpu-08", a_key()).reason == NoEntry.UNKNOWN
    assert refusal(there.join, there.invite("gpu-07")[0].token, "gpu-07", key).reason == NoEntry.USED


def test_what_was_over_long_ago_is_forgotten_and_what_is_good_stays(office: Office) -> None:
    gone, kept = office.enrolled("gpu-07"), office.enrolled("gpu-08")
    daemon = office.daemon()
    daemon.node_of(kept.token)
    daemon.sync()
    office.registrar.revoke("gpu-07", by=BY)
    for _ in range(5):  # gpu-08 renews all the while
        office.clock.advance(60 * 86400.0)
        new = a_key()
        office.renew(kept, "gpu-08", new)
        daemon.sync()
        daemon.node_of(new.token)
        daemon.sync()
        kept = new
    office.registrar.prune()
    assert {one.node for one in office.facts.credentials()} == {"gpu-08"}
    assert office.daemon().node_of(kept.token) == "gpu-08"
    assert office.daemon().why_not(gone.token) == ""
