"""What doctor says of the daemon's certificates. Pure; sees what /metrics sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trimtab.clock import age_text, iso
from trimtab.show.api_types import Check
from trimtab.tls import CertificateFacts

SOON_SECONDS = 7 * 86400.0
"""As the alert has it: what renews by itself has long done so by then."""
_FIX = {
    "ca": "Make a new CA in a directory of its own and let agents trust both for a while: docs/how-to/tls.md.",
    "client_ca": "Get the CA's new certificate from whoever runs it, and put it where ingest.client_ca_file says.",
}
_RENEW = "Put a new one in its place, or run `trimtab ca renew` where the daemon made it; no restart is needed."


def certificate_checks(facts: Iterable[CertificateFacts]) -> Iterator[Check]:
    """One for each certificate that is in use."""
    for fact in facts:
        yield _check(fact)


def _check(fact: CertificateFacts) -> Check:
    name, left = f"certificate {fact.use}", fact.remaining_seconds
    if fact.trouble:
        return Check(name=name, is_ok=False, sentence=fact.trouble, fix="Correct the files; they are looked at again.")
    fix = _FIX.get(fact.use, _RENEW)
    if left <= 0:
        said = f"{fact.file} ended {age_text(-left)} ago, at {iso(fact.ends_at)}: nobody trusts it any more."
        return Check(name=name, is_ok=False, sentence=said, fix=fix)
    said = f"{fact.file} is good until {iso(fact.ends_at)}, for {age_text(left)} yet."
    is_ok = left > SOON_SECONDS
    return Check(name=name, is_ok=is_ok, sentence=said, fix="" if is_ok else fix)
